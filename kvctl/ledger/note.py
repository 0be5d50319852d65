"""Signed notes, checkpoints and cosignatures (C2SP signed-note, tlog-checkpoint, tlog-cosignature).

A checkpoint is three lines - origin, size, root - then an empty line and signature lines. Lines of keys that a
reader does not know are skipped, so that witnesses and later algorithms have room.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from kvctl.ledger.tree import HASH_BYTES, Hash
from kvctl.types.errors import RefusedError, UsageError

ED25519 = 1
COSIGNATURE = 4  # Ed25519 with a time, over `cosignature/v1`
ID_BYTES = 4
KEY_BYTES = 32
SIGNATURE_BYTES = 64
MAX_BYTES = 1 << 20
DASH = "— "
NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


MANIFEST_LABEL = b"kvctl pack manifest 1\n"


class Signer(Protocol):
    """An Ed25519 key pair; `public` is 32 bytes."""

    @property
    def public(self) -> bytes: ...

    def sign(self, text: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log says of itself: how many entries, and the root over them."""

    origin: str
    size: int
    root: Hash

    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


class NoteError(ValueError):
    """A note that is malformed or not signed by the key that was asked for; the text says why."""


def check_name(name: str) -> str:
    """A key's or log's name as it is. UsageError KV-LEDGER-011 for one that a note cannot hold."""
    if not name or "+" in name or any(c.isspace() or not c.isprintable() for c in name):
        raise UsageError(
            "KV-LEDGER-011",
            "this cannot name a log or a key",
            where=repr(name[:80]),
            why="a name has at least one character, and neither spaces nor + among them (C2SP signed-note)",
            fix="take a host name and a path, such as kvctl.example.org/par1/control",
        )
    return name


def key_id(name: str, public: bytes, kind: int = ED25519) -> bytes:
    return sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:ID_BYTES]


def verifier_key(name: str, public: bytes, kind: int = ED25519) -> str:
    """A public key with its name, as a line of text (a C2SP vkey)."""
    material = base64.b64encode(bytes([kind]) + public).decode()
    return f"{check_name(name)}+{key_id(name, public, kind).hex()}+{material}"


def parse_verifier_key(text: str) -> tuple[str, int, bytes]:
    """Name, kind and the 32 bytes of an Ed25519 key. ValueError for another text."""
    name, identity, material = text.strip().split("+", 2)
    raw = decode64(material)
    if len(raw) != 1 + KEY_BYTES or raw[0] not in (ED25519, COSIGNATURE):
        raise ValueError("not an Ed25519 key")
    if key_id(name, raw[1:], raw[0]).hex() != identity:
        raise ValueError("the key's number is not that of its name and bytes")
    return name, raw[0], raw[1:]


def decode64(text: str) -> bytes:
    """Standard base64 in its one canonical form. ValueError for any other."""
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode() != text:
        raise ValueError("base64 that is not canonical")
    return data


def parse_number(text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise ValueError("not a decimal number without leading zeros")
    return int(text)


def signature_line(name: str, identity: bytes, signature: bytes) -> str:
    return f"{DASH}{name} {base64.b64encode(identity + signature).decode()}\n"


def sign(checkpoint: Checkpoint, signer: Signer) -> str:
    """The signed note of a checkpoint; the key's name is the log's origin."""
    text = checkpoint.text()
    identity = key_id(checkpoint.origin, signer.public)
    return f"{text}\n{signature_line(checkpoint.origin, identity, signer.sign(text.encode()))}"


def sign_manifest(manifest: bytes, name: str, signer: Signer) -> str:
    """The line that goes with a pack's list of files, by the key of the log `name`. The label keeps it from being taken
    for a signature of anything else."""
    return signature_line(name, key_id(name, signer.public), signer.sign(MANIFEST_LABEL + manifest))


def split_note(note: str) -> tuple[str, list[str]]:
    """A note's text, with its last newline, and its signature lines. NoteError."""
    if len(note) > MAX_BYTES:
        raise NoteError(f"it has more than {MAX_BYTES} characters")
    text, gap, tail = note.rpartition("\n\n")
    if not gap or not tail.endswith("\n"):
        raise NoteError("a text, an empty line and signature lines were expected")
    if any(ord(c) < 32 and c != "\n" for c in note):
        raise NoteError("it has control characters")
    lines = tail[:-1].split("\n")
    if not all(line.startswith(DASH) for line in lines):
        raise NoteError("a line below the text is not a signature line")
    return text + "\n", lines


def parse_checkpoint(text: str) -> Checkpoint:
    """From a note's text; extension lines are read past. NoteError."""
    lines = text[:-1].split("\n")
    try:
        origin, size, root = lines[:3]
        found = Checkpoint(origin, parse_number(size), decode64(root))
    except (ValueError, binascii.Error) as error:
        raise NoteError(f"no origin, size and root: {error}") from None
    if len(found.root) != HASH_BYTES or not origin or not all(lines):
        raise NoteError("no origin, size and root of 32 bytes")
    return found


def signatures(lines: list[str], name: str, identity: bytes) -> Iterator[bytes]:
    """What is behind the key's number, in the lines of one key."""
    for line in lines:
        fields = line[len(DASH) :].split(" ")
        if len(fields) != 2:
            raise NoteError("a signature line is not of three words")
        try:
            raw = decode64(fields[1])
        except (ValueError, binascii.Error):
            raise NoteError("a signature is not in base64") from None
        if fields[0] == name and raw[:ID_BYTES] == identity:
            yield raw[ID_BYTES:]


def ed25519_holds(public: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def open_note(note: str, origin: str, public: bytes) -> Checkpoint:
    """The checkpoint in a note that the log `origin` signed with the key `public`. NoteError otherwise."""
    text, lines = split_note(note)
    found = list(signatures(lines, origin, key_id(origin, public)))
    if not found:
        raise NoteError(f"no signature of {origin} with the expected key")
    if not all(ed25519_holds(public, one, text.encode()) for one in found):
        raise NoteError(f"the signature of {origin} does not hold")
    checkpoint = parse_checkpoint(text)
    if checkpoint.origin != origin:
        raise NoteError(f"it is of the log {checkpoint.origin}")
    return checkpoint


def open_checkpoint(note: str, origin: str, public: bytes, where: str) -> Checkpoint:
    """As `open_note`; RefusedError KV-LEDGER-005 that names `where` the note came from."""
    try:
        return open_note(note, origin, public)
    except NoteError as error:
        raise RefusedError(
            "KV-LEDGER-005",
            f"this is no checkpoint of {origin}",
            where=where,
            why=str(error),
            fix="check the origin and the log's public key; if both are right, the checkpoint was changed",
        ) from None


def cosigned_text(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def cosign(note: str, name: str, signer: Signer, time: int) -> str:
    """The witness's signature line for a note; `time` in Unix seconds."""
    text, _ = split_note(note)
    signature = signer.sign(cosigned_text(text, time))
    identity = key_id(check_name(name), signer.public, COSIGNATURE)
    return signature_line(name, identity, time.to_bytes(8, "big") + signature)


def cosigned_at(note: str, name: str, public: bytes) -> int | None:
    """When the witness cosigned (Unix seconds); None when it did not. NoteError when its signature does not hold."""
    text, lines = split_note(note)
    for raw in signatures(lines, name, key_id(name, public, COSIGNATURE)):
        time = int.from_bytes(raw[:8], "big")
        if not ed25519_holds(public, raw[8:], cosigned_text(text, time)):
            raise NoteError(f"the cosignature of {name} does not hold")
        return time
    return None
