"""Which chunks of a tier leave: one policy a tenant, and rules over them.

A tenant above its share pays first. A leased chunk and every chunk of a held tenant stay. Among a tenant's candidates
tails leave before heads, since a tail without its head is of no use to anybody. Not thread-safe: the caller holds one
lock. Nothing here knows tiers or files: the caller removes what was taken, and may put back what it could not remove.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Generic

from kvctl.sizing.policies.entry import Entry, K, Policy

ROOM = 64  # candidates of a tenant that wait to be compared by position


class Why(StrEnum):
    ABOVE_SHARE = "its tenant is above its share"
    LEAST_WORTH = "worth least by the policy"


@dataclass(frozen=True, slots=True)
class Victim(Generic[K]):
    tenant: str
    key: K
    size: int
    position: int
    why: Why


@dataclass(frozen=True, slots=True)
class Taken(Generic[K]):
    victims: tuple[Victim[K], ...]
    size: int  # bytes of the victims
    short: int  # bytes that were asked for and not found; 0: enough
    leased: int  # candidates that stay because somebody reads them
    held: int  # chunks that stay because their tenant's limit is not known


class Pool(Generic[K]):
    """One tenant's resident chunks: in its policy, or taken out of it and waiting in the room."""

    def __init__(self, tenant: str, policy: Policy[K], room: int = ROOM) -> None:
        self.tenant = tenant
        self.policy = policy
        self.used = 0
        self._most = room
        self._room: dict[K, Entry] = {}
        self._order: list[tuple[int, int, K, Entry]] = []  # (-position, turn, key, entry); stale unless in the room
        self._turns = count()
        self._spared: dict[K, Entry] = {}  # were leased when their turn came

    def __len__(self) -> int:
        return len(self.policy) + len(self._room) + len(self._spared)

    def __contains__(self, key: object) -> bool:
        return key in self.policy or key in self._room or key in self._spared

    def add(self, key: K, size: int, position: int, cost: float | None, stamp: int) -> None:
        if key in self._room or key in self._spared:
            raise ValueError("the key is resident already: touch it")
        self.policy.add(key, size, position=position, cost=cost).stamp = stamp
        self.used += size

    def touch(self, key: K, stamp: int) -> bool:
        entry = self.policy.touch(key)
        if entry is None:
            entry = self._unwait(key)
            if entry is None:
                return False
            entry = self.policy.add(key, entry.size, position=entry.position, cost=entry.cost)
        entry.stamp = stamp
        return True

    def remove(self, key: K) -> Entry | None:
        waiting = self._unwait(key)
        entry = self.policy.remove(key) or waiting  # asked even then: the policy may remember it as a ghost
        if entry is not None:
            self.used -= entry.size
        return entry

    def unspare(self, leased: Callable[[K], bool]) -> None:
        """What was leased the last time and no longer is becomes a candidate again."""
        for key in [k for k in self._spared if not leased(k)]:
            self._wait(key, self._spared.pop(key))

    @property
    def spared(self) -> int:
        return len(self._spared)

    def candidate(self, leased: Callable[[K], bool]) -> Entry | None:
        """The next to leave, not yet taken; None when nothing may leave."""
        while True:
            while len(self._room) < self._most and (next_out := self.policy.evict()) is not None:
                self._wait(*next_out)
            row = self._first()
            if row is None:
                return None
            if not leased(row[2]):
                return row[3]
            self._spared[row[2]] = self._room.pop(row[2])

    def take(self) -> tuple[K, Entry]:
        """Take the candidate that was just looked at."""
        row = self._first()
        if row is None:
            raise LookupError("there is no candidate")
        del self._room[row[2]]
        self.used -= row[3].size
        return row[2], row[3]

    def _first(self) -> tuple[int, int, K, Entry] | None:
        while self._order:
            row = self._order[0]
            if self._room.get(row[2]) is row[3]:
                return row
            heapq.heappop(self._order)
        return None

    def _wait(self, key: K, entry: Entry) -> None:
        self._room[key] = entry
        heapq.heappush(self._order, (-entry.position, next(self._turns), key, entry))
        if len(self._order) > 2 * len(self._room) + self._most:
            self._order = [row for row in self._order if self._room.get(row[2]) is row[3]]
            heapq.heapify(self._order)

    def _unwait(self, key: K) -> Entry | None:
        return self._room.pop(key, None) or self._spared.pop(key, None)


class Residents(Generic[K]):
    """Every chunk of one tier, by tenant."""

    def __init__(self, policy: Callable[[], Policy[K]], room: int = ROOM) -> None:
        self._policy, self._most = policy, room
        self._pools: dict[str, Pool[K]] = {}
        self._stamp = 0  # counts adds and touches: tenants' candidates are compared by it

    def __len__(self) -> int:
        return sum(len(pool) for pool in self._pools.values())

    def used(self, tenant: str) -> int:
        """Bytes of a tenant's resident chunks."""
        pool = self._pools.get(tenant)
        return pool.used if pool else 0

    def contains(self, tenant: str, key: K) -> bool:
        pool = self._pools.get(tenant)
        return pool is not None and key in pool

    def add(self, tenant: str, key: K, size: int, *, position: int = 0, cost: float | None = None) -> None:
        """A chunk came in. ValueError when it is resident already, or its size is not above 0."""
        pool = self._pools.get(tenant) or Pool(tenant, self._policy(), self._most)
        self._stamp += 1
        pool.add(key, size, position, cost, self._stamp)
        self._pools[tenant] = pool

    def touch(self, tenant: str, keys: Sequence[K]) -> int:
        """Chunks were used; how many of them are resident. `keys` come in their prompt's order: heads stay longest."""
        pool = self._pools.get(tenant)
        if pool is None:
            return 0
        self._stamp += 1
        return sum(pool.touch(key, self._stamp) for key in reversed(keys))

    def remove(self, tenant: str, key: K) -> bool:
        """A chunk is gone for another reason than eviction; no trace of it stays."""
        pool = self._pools.get(tenant)
        if pool is None or pool.remove(key) is None:
            return False
        if not pool:
            del self._pools[tenant]
        return True

    def forget(self, tenant: str) -> None:
        """Everything of a tenant is gone."""
        self._pools.pop(tenant, None)

    def take(
        self,
        wanted: int,
        *,
        leased: Callable[[K], bool],
        held: Callable[[str], bool],
        above: Mapping[str, int] | None = None,
    ) -> Taken[K]:
        """Choose chunks of at least `wanted` bytes to evict, at most one chunk more; they are no longer resident here.

        `above`: tenants above their share with the bytes they owe (`Ledger.above`); they pay first, most first. Then
        the tenant whose candidate was used longest ago pays, so tenants within their shares compete as equals.
        """
        free = [pool for pool in self._pools.values() if not held(pool.tenant)]
        for pool in free:
            pool.unspare(leased)
        victims = self._debts(wanted, free, above or {}, leased)
        victims += self._oldest(wanted - sum(v.size for v in victims), free, leased)
        self._pools = {tenant: pool for tenant, pool in self._pools.items() if len(pool)}
        size = sum(v.size for v in victims)
        return Taken(
            victims=tuple(victims),
            size=size,
            short=max(0, wanted - size),
            leased=sum(pool.spared for pool in free),
            held=sum(len(pool) for pool in self._pools.values() if held(pool.tenant)),
        )

    def _debts(
        self, wanted: int, pools: Sequence[Pool[K]], above: Mapping[str, int], leased: Callable[[K], bool]
    ) -> list[Victim[K]]:
        victims: list[Victim[K]] = []
        for pool in sorted(pools, key=lambda p: -above.get(p.tenant, 0)):
            owed = min(above.get(pool.tenant, 0), wanted)
            while owed > 0 and pool.candidate(leased) is not None:
                victims.append(_victim(pool, Why.ABOVE_SHARE))
                owed -= victims[-1].size
                wanted -= victims[-1].size
        return victims

    def _oldest(self, wanted: int, pools: Sequence[Pool[K]], leased: Callable[[K], bool]) -> list[Victim[K]]:
        victims: list[Victim[K]] = []
        if wanted <= 0:
            return victims
        order = [(entry.stamp, i) for i, pool in enumerate(pools) if (entry := pool.candidate(leased)) is not None]
        heapq.heapify(order)
        while order and wanted > 0:
            pool = pools[order[0][1]]
            victims.append(_victim(pool, Why.LEAST_WORTH))
            wanted -= victims[-1].size
            following = pool.candidate(leased)
            if following is None:
                heapq.heappop(order)
            else:
                heapq.heapreplace(order, (following.stamp, order[0][1]))
        return victims


def _victim(pool: Pool[K], why: Why) -> Victim[K]:
    key, entry = pool.take()
    return Victim(pool.tenant, key, entry.size, entry.position, why)
