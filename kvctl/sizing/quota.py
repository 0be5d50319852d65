"""Shares of a node's durable bytes by tenant: reserve before a write, commit or release after it.

A tenant may pass its limit by `overshoot` while eviction brings it back; nothing is reserved beyond that. A tenant
whose limit is not known (the node restarted, its policy has not arrived) is held: what it has stays, nothing comes in.
Not thread-safe: the caller holds one lock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

OVERSHOOT = 0.05


class Unknown(Enum):
    """Stands for a limit that nobody has named; None stands for "no limit"."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
Limit = int | None | Unknown


class Verdict(StrEnum):
    GRANTED = "granted"
    OVER = "over"  # granted; the tenant is above its limit and pays first
    FULL = "full"  # beyond the overshoot
    HELD = "held"  # its limit is not known


@dataclass(slots=True)
class Share:
    used: int = 0  # bytes that tiers hold
    reserved: int = 0  # bytes of writes that are on their way


class Ledger:
    """Who has how much. `default` is the limit of tenants that `limits` does not name."""

    def __init__(
        self, limits: Mapping[str, int | None] | None = None, *, default: Limit = UNKNOWN, overshoot: float = OVERSHOOT
    ) -> None:
        if not 0 <= overshoot <= OVERSHOOT:
            raise ValueError(f"an overshoot is 0 to {OVERSHOOT}, not {overshoot}")
        self._overshoot = overshoot
        self._limits: dict[str, int | None] = {}
        self._default: Limit = UNKNOWN
        self._shares: dict[str, Share] = {}
        self.learn(limits or {}, default=default)

    def learn(self, limits: Mapping[str, int | None], *, default: Limit = UNKNOWN) -> list[str]:
        """Replace all limits; which tenants are no longer held by that. ValueError for a limit below 0."""
        for tenant, limit in [*limits.items(), ("every other tenant", default)]:
            if isinstance(limit, int) and limit < 0:
                raise ValueError(f"the limit of {tenant} is below 0: {limit}")
        held = [tenant for tenant in self._shares if self.held(tenant)]
        self._limits, self._default = dict(limits), default
        return [tenant for tenant in held if not self.held(tenant)]

    def limit(self, tenant: str) -> Limit:
        return self._limits.get(tenant, self._default)

    def held(self, tenant: str) -> bool:
        return self.limit(tenant) is UNKNOWN

    def found(self, tenant: str, size: int) -> None:
        """A tier holds this already, at start; no limit applies."""
        self._share(tenant).used += _positive(size)

    def reserve(self, tenant: str, size: int) -> Verdict:
        """Ask for `size` bytes. GRANTED and OVER reserve them; the others change nothing."""
        limit = self.limit(tenant)
        share = self._shares.get(tenant) or Share()
        total = share.used + share.reserved + _positive(size)
        if limit is UNKNOWN:
            return Verdict.HELD
        if limit is not None and total > limit + int(limit * self._overshoot):
            return Verdict.FULL
        self._share(tenant).reserved += size
        return Verdict.GRANTED if limit is None or total <= limit else Verdict.OVER

    def commit(self, tenant: str, size: int) -> None:
        """A reserved write is complete."""
        self.release(tenant, size)
        self._share(tenant).used += size

    def release(self, tenant: str, size: int) -> None:
        """A reserved write did not come about. ValueError when so much was never reserved."""
        share = self._share(tenant)
        if _positive(size) > share.reserved:
            raise ValueError(f"{tenant}: {size} bytes given back, {share.reserved} are reserved")
        share.reserved -= size
        self._forget_empty(tenant)

    def freed(self, tenant: str, size: int) -> None:
        """Stored bytes are gone: evicted, erased, expired. ValueError when the tenant never had so much."""
        share = self._share(tenant)
        if _positive(size) > share.used:
            raise ValueError(f"{tenant}: {size} bytes freed, {share.used} are used")
        share.used -= size
        self._forget_empty(tenant)

    def used(self, tenant: str) -> int:
        return self._shares[tenant].used if tenant in self._shares else 0

    def excess(self, tenant: str) -> int:
        """Bytes that the tenant holds above its limit; 0 for one without limit and for one that is held."""
        limit = self.limit(tenant)
        return max(0, self.used(tenant) - limit) if isinstance(limit, int) else 0

    def above(self) -> dict[str, int]:
        """Tenants above their limit with the bytes they must give up."""
        return {tenant: excess for tenant in self._shares if (excess := self.excess(tenant))}

    def _share(self, tenant: str) -> Share:
        return self._shares.setdefault(tenant, Share())

    def _forget_empty(self, tenant: str) -> None:
        share = self._shares[tenant]
        if not share.used and not share.reserved:
            del self._shares[tenant]


def _positive(size: int) -> int:
    if size < 0:
        raise ValueError(f"a size is 0 or more, not {size}")
    return size
