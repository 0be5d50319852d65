"""Capabilities: a controller's word that a connector may use a tenant's domain, in which epoch and for what.

A token is an Ed25519 signature (64 bytes) and the JSON text it signs. A store checks it without asking anybody. It is
no secret: without the private key of its holder, which proves itself at the session's start, it opens nothing.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from kvctl.connector.keys import Identity, verify
from kvctl.connector.wire import MAX_CONTROL, PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Refusal
from kvctl.types.chunks import EPOCH_BYTES, Scope

LABEL = b"kvctl capability 1\0"  # nothing else that an identity signs starts like this
ID_BYTES = 16
SKEW = 30  # seconds that a store's clock may be behind its controller's
MAX_NAME = 128  # characters of a tenant or domain


class Operation(StrEnum):
    HAS = "has"
    GET = "get"
    PUT = "put"
    TOUCH = "touch"
    STAT = "stat"


ALL = frozenset(Operation)
READ = ALL - {Operation.PUT}


class CapabilityError(Exception):
    """A token that gives its bearer nothing; `refusal` is what the store answers."""

    def __init__(self, refusal: Refusal, why: str) -> None:
        super().__init__(f"{refusal.name.lower()}: {why}")
        self.refusal = refusal
        self.why = why


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the bearer may ask for at most; None: as much as the store allows anybody."""

    chunk: int | None = None  # sealed bytes of one PUT
    keys: int | None = None  # of one request

    def __post_init__(self) -> None:
        if any(limit is not None and limit < 1 for limit in (self.chunk, self.keys)):
            raise ValueError("a limit is at least 1; to forbid an operation, leave it out of the list")


NO_LIMITS = Limits()


class Capability(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag="kvctl.capability/1"):
    """Who may do what in one scope, from `not_before` until `expires_at` (Unix seconds).

    A field that this version does not know is refused, not passed over: it could be a restriction.
    """

    tenant: str
    domain: str
    epoch: bytes  # EPOCH_BYTES
    operations: frozenset[Operation]
    holder: bytes  # public key of the connector
    limits: Limits
    id: bytes  # ID_BYTES, random: what a revocation names
    not_before: int
    expires_at: int

    def __post_init__(self) -> None:
        sizes = ((self.epoch, EPOCH_BYTES), (self.holder, PUBLIC_KEY_BYTES), (self.id, ID_BYTES))
        if any(len(part) != size for part, size in sizes):
            raise ValueError(f"epoch, holder and id have {EPOCH_BYTES}, {PUBLIC_KEY_BYTES} and {ID_BYTES} bytes")
        if not all(0 < len(name) <= MAX_NAME for name in (self.tenant, self.domain)):
            raise ValueError(f"a tenant and a domain have names of 1 to {MAX_NAME} characters")
        if self.expires_at <= self.not_before:
            raise ValueError("it ends before it begins")

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.domain, self.epoch)

    def allows(self, operation: Operation) -> bool:
        return operation in self.operations


def sign(capability: Capability, controller: Identity) -> bytes:
    """The token: signature and text. ValueError when it does not fit a frame."""
    body = msgspec.json.encode(capability, order="deterministic")
    token = controller.sign(LABEL + body) + body
    if len(token) > MAX_CONTROL:
        raise ValueError(f"a token of {len(token)} bytes; at most {MAX_CONTROL}")
    return token


def verify_token(token: bytes | memoryview, trusted: Iterable[bytes], *, now: float, holder: bytes) -> Capability:
    """What a token gives the connector whose public key is `holder`.

    `trusted` are the public keys of controllers (a mapping from them will do). CapabilityError with BAD_CAPABILITY
    when none of them signed it, when it was given to another connector or is not valid yet; with EXPIRED when it is
    over at `now` (Unix seconds).
    """
    data = bytes(token)
    signature, body = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
    if len(data) > MAX_CONTROL or not any(verify(public, signature, LABEL + body) for public in trusted):
        raise CapabilityError(Refusal.BAD_CAPABILITY, "no controller that this store trusts has signed it")
    try:
        capability = msgspec.json.decode(body, type=Capability)
    except (msgspec.DecodeError, ValueError) as error:
        raise CapabilityError(Refusal.BAD_CAPABILITY, f"its text is of another version: {error}") from error
    _check_bearer(capability, now, holder)
    return capability


def _check_bearer(capability: Capability, now: float, holder: bytes) -> None:
    if capability.holder != holder:
        raise CapabilityError(Refusal.BAD_CAPABILITY, "it was given to another connector")
    if now + SKEW < capability.not_before:
        wait = int(capability.not_before - now)
        raise CapabilityError(Refusal.BAD_CAPABILITY, f"it is not valid for another {wait} s")
    if now >= capability.expires_at:
        raise CapabilityError(Refusal.EXPIRED, f"it ended {int(now) - capability.expires_at} s ago")
