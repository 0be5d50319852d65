"""Whose chunks a request may use: its handle, its salt and the leases at hand. Otherwise a reason for a miss."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvctl.connector.handle import Fault, Handle, HandleError, cache_salt, salt_digest, verify
from kvctl.connector.keys import KeyLease
from kvctl.connector.tier_leases import Leases
from kvctl.types.chunks import Meta


class Miss(StrEnum):
    """Why a request, or the rest of it, is not served from a store: the label of a counter."""

    NO_HANDLE = "no-handle"
    MALFORMED = "malformed"
    FORGED = "forged"
    EXPIRED = "expired"
    SALT = "salt"  # the handle is of another cache_salt
    NO_LEASE = "no-lease"
    LEASE_OVER = "lease-over"
    LORA = "lora"  # nobody can say what the engine read of the adapter
    ROLE = "role"
    ABSENT = "absent"  # no store has it
    UNREACHABLE = "unreachable"  # nor could every store be asked
    UNSERVED = "unserved"  # no store serves the tenant
    LATE = "late"  # no store said in time whether it has it
    SLOWER = "slower"  # reading it takes longer than computing it
    FAILED = "failed"  # it was there, and did not come, or did not open
    DEFECT = "defect"  # this program's own error, which the log has


BY_FAULT = {Fault.MALFORMED: Miss.MALFORMED, Fault.FORGED: Miss.FORGED, Fault.EXPIRED: Miss.EXPIRED}


@dataclass(frozen=True, slots=True)
class Bearer:
    """What a request says about itself. `handle` is what stands in kv_transfer_params: anything at all.

    `adapter`: where the files of its LoRA adapter are, as the engine was told; None: the base model alone.
    """

    handle: object
    salt: str | None  # cache_salt
    adapter: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What it may use. `meta` is what its chunks get, but for each one's position and cost."""

    lease: KeyLease
    meta: Meta
    await_until: float = 0.0  # Unix seconds


def admit(bearer: Bearer, leases: Leases, gateways: Sequence[bytes], *, alone: bool, now: float) -> Grant | Miss:
    """`alone`: the engine has one tenant and no gateway. `now` in Unix seconds."""
    if alone:
        return _admit_single(bearer, leases, now)
    if bearer.handle is None:
        return Miss.NO_HANDLE
    if not isinstance(bearer.handle, str):
        return Miss.MALFORMED
    try:
        handle = verify(bearer.handle, gateways, now=now)
    except HandleError as error:
        return BY_FAULT[error.reason]
    if bearer.salt is None or salt_digest(bearer.salt) != handle.salt_digest:
        return Miss.SALT
    lease = _held(leases.find(handle.scope), now)
    return lease if isinstance(lease, Miss) else Grant(lease, _meta(handle), handle.await_until)


def _admit_single(bearer: Bearer, leases: Leases, now: float) -> Grant | Miss:
    lease = _held(leases.single, now)
    if isinstance(lease, Miss):
        return lease
    if bearer.salt is not None and bearer.salt != cache_salt(lease.key.salt_key, lease.scope.domain):
        return Miss.SALT
    return Grant(lease, Meta())


def _held(lease: KeyLease | None, now: float) -> KeyLease | Miss:
    if lease is None:
        return Miss.NO_LEASE
    return Miss.LEASE_OVER if lease.expired(now) else lease


def _meta(handle: Handle) -> Meta:
    return Meta(expires_at=handle.chunk_expires_at, subject=handle.subject, kind=handle.kind)
