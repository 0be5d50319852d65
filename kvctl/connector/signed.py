"""Signed texts as files: who signed, the signature, and the very text that is signed, as one line of JSON.

The text is kept as a string, so that a reader verifies the bytes it was given and never its own writing of them.
"""

from collections.abc import Iterable

import msgspec

from kvctl.connector.keys import Identity, verify


class SignatureError(Exception):
    """A text that none of those who are trusted has signed under this label."""


class SignedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    signature: bytes  # Ed25519 over label and text
    key: str  # public key, hexadecimal digits
    snapshot: str  # the text


def sign_text(text: str, label: bytes, identity: Identity) -> bytes:
    """One line. `label` says what kind of text it is: nothing else that an identity signs starts like it."""
    signed = SignedText(identity.sign(label + text.encode()), identity.public.hex(), text)
    return msgspec.json.encode(signed) + b"\n"


def verify_text(data: bytes, label: bytes, trusted: Iterable[bytes]) -> str:
    """The text. SignatureError unless one of the public keys `trusted` signed it under `label`."""
    try:
        signed = msgspec.json.decode(data, type=SignedText)
        public = bytes.fromhex(signed.key)
    except (msgspec.DecodeError, ValueError) as error:
        raise SignatureError(f"this is no signed text: {error}") from None
    if public not in set(trusted):
        raise SignatureError(f"key {public.hex()[:16]}... is not trusted here")
    if not verify(public, signed.signature, label + signed.snapshot.encode()):
        raise SignatureError("the signature is not of this text")
    return signed.snapshot
