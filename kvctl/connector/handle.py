"""Handles: a gateway's word to an engine, for one request, whose chunks it may load and store, and until when.

A handle travels as `kv_transfer_params={"kvctl": "<text>"}`. It is bound to the request's `cache_salt` by a digest: put
to a request with another salt it gives nothing. The engine holds the keys; a handle only says which of them to use.
"""

import binascii
import hashlib
import hmac
import math
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from kvctl.connector.capability import MAX_NAME
from kvctl.connector.keys import Identity
from kvctl.connector.keys import verify as signed_by
from kvctl.connector.wire import SIGNATURE_BYTES
from kvctl.types.chunks import EPOCH_BYTES, NEVER, NO_SUBJECT, SUBJECT_BYTES, Kind, Scope

LABEL = b"kvctl handle 1\0"  # nothing else that an identity signs starts like this
SALT_LABEL = b"kvctl cache salt 1\0"
PARAMETER = "kvctl"  # the entry of kv_transfer_params
DIGEST_BYTES = 32
MAX_TEXT = 4096  # characters; two names of the longest kind fit, however they are escaped


class Fault(StrEnum):
    """Why a handle gives nothing: a label of the miss counters."""

    MALFORMED = "malformed"
    FORGED = "forged"
    EXPIRED = "expired"


class HandleError(Exception):
    """A handle that gives its bearer nothing."""

    def __init__(self, reason: Fault, why: str) -> None:
        super().__init__(f"{reason}: {why}")
        self.reason = reason
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What one request may use. ValueError for a field of another size."""

    tenant: str
    domain: str
    epoch: bytes  # EPOCH_BYTES
    salt_digest: bytes  # of the cache_salt, as `salt_digest` gives it
    subject: bytes = NO_SUBJECT  # whose conversation, a pseudonym
    kind: Kind = Kind.PRIVATE
    expires_at: int  # Unix seconds: the end of the handle
    chunk_expires_at: int = NEVER  # Unix seconds: what the chunks get that are stored for this request
    await_until: float = 0.0  # Unix seconds; chunks that are not there yet are waited for until then. 0: they are not

    def __post_init__(self) -> None:
        sizes = ((self.epoch, EPOCH_BYTES), (self.salt_digest, DIGEST_BYTES), (self.subject, SUBJECT_BYTES))
        if any(len(part) != size for part, size in sizes):
            raise ValueError(f"epoch, salt digest, subject have {EPOCH_BYTES}, {DIGEST_BYTES}, {SUBJECT_BYTES} bytes")
        if not all(0 < len(name) <= MAX_NAME for name in (self.tenant, self.domain)):
            raise ValueError(f"a tenant and a domain have names of 1 to {MAX_NAME} characters")
        if min(self.expires_at, self.chunk_expires_at, self.await_until) < 0 or not math.isfinite(self.await_until):
            raise ValueError("times are Unix seconds, 0 or later")

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.domain, self.epoch)


class Signed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="kvctl.handle/1"):
    """What is signed: the handle behind its schema, so that a later version is told from this one."""

    handle: Handle


def salt_digest(cache_salt: str) -> bytes:
    """SHA-256 of a cache_salt as text."""
    return hashlib.sha256(cache_salt.encode()).digest()


def cache_salt(salt_key: bytes, domain: str, holder: bytes = b"") -> str:
    """The cache_salt of a domain: base64url of HMAC-SHA-256 under its salt key, 43 characters.

    `holder`: whose it is within the domain; empty: all of the domain's.
    """
    parts = (domain.encode(), b"user" if holder else b"common", holder)
    text = SALT_LABEL + b"".join(len(part).to_bytes(2, "little") + part for part in parts)
    return urlsafe_b64encode(hmac.digest(salt_key, text, "sha256")).decode().rstrip("=")


def sign(handle: Handle, identity: Identity) -> str:
    """The handle's text: base64url, without padding, of an Ed25519 signature (64 bytes) and the JSON it signs."""
    body = _body(Signed(handle))
    text = urlsafe_b64encode(identity.sign(LABEL + body) + body).decode().rstrip("=")
    if len(text) > MAX_TEXT:
        raise ValueError(f"a handle of {len(text)} characters; at most {MAX_TEXT}")
    return text


def verify(text: str, trusted: Iterable[bytes], *, now: float) -> Handle:
    """The handle in a text that one of the gateways with the public keys `trusted` signed.

    HandleError: MALFORMED for what is no such text, FORGED when none of them signed it, EXPIRED when it is over at
    `now` (Unix seconds).
    """
    data = _bytes(text)
    signature, body = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
    if not any(signed_by(public, signature, LABEL + body) for public in trusted):
        raise HandleError(Fault.FORGED, "no gateway that this engine trusts has signed it")
    handle = _handle(body)
    if now >= handle.expires_at:
        raise HandleError(Fault.EXPIRED, f"it ended {int(now) - handle.expires_at} s ago")
    return handle


def _handle(body: bytes) -> Handle:
    try:
        signed = msgspec.json.decode(body, type=Signed)
    except (msgspec.DecodeError, ValueError) as error:
        raise HandleError(Fault.MALFORMED, f"its text is of another version: {error}") from error
    # A field that this version does not know could be a restriction.
    if _body(signed) != body:
        raise HandleError(Fault.MALFORMED, "its text says more than this version knows")
    return signed.handle


def _body(signed: Signed) -> bytes:
    return msgspec.json.encode(signed, order="deterministic")


def _bytes(text: str) -> bytes:
    if len(text) > MAX_TEXT:
        raise HandleError(Fault.MALFORMED, f"it has {len(text)} characters, more than {MAX_TEXT}")
    try:
        data = b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise HandleError(Fault.MALFORMED, "it is not base64url") from error
    if len(data) <= SIGNATURE_BYTES:
        raise HandleError(Fault.MALFORMED, "it is too short for a signature")
    return data
