"""What is counted of every tier's chunks: bytes by tier and scope, and the tenants' shares.

Chunks come and go in many threads, and what is told of one may overtake what was told of it before. So nothing is
counted off because somebody says that it went: its tier is asked, and what is counted follows by the difference.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock

from kvctl.sizing.quota import Ledger
from kvctl.store.api import Record, State, Tier
from kvctl.store.residents import Residents
from kvctl.types.chunks import Scope, TierName

ON_MEDIUM = (State.LIVE, State.EXPIRED)
Name = tuple[Scope, bytes]


class Counted:
    """Every method may be called from any thread. `lock` is the caller's, held over `shares` and the tally."""

    def __init__(self, tiers: Sequence[Tier], eviction: str, shares: Ledger, lock: Lock) -> None:
        self.residents = {tier.name: Residents(eviction) for tier in tiers}
        self._shares = shares
        self._lock = lock
        self._tally: Counter[tuple[TierName, Scope]] = Counter()  # sealed bytes
        # By tier: chunks that are being handed to it; True: ask for it when that is done.
        self._arriving: dict[TierName, dict[Name, bool]] = {tier.name: {} for tier in tiers}
        # The one that it is asked for; not there any more when that one arrives meanwhile.
        self._asked: dict[TierName, Name] = {}
        # One is asked for at a time: an older answer must not come after a newer one.
        self._asking = {tier.name: Lock() for tier in tiers}
        for tier in tiers:
            for scope, usage in tier.scopes().items():
                self.residents[tier.name].expect(scope, usage.size)
                self._change(tier.name, scope, usage.size)

    def added(self, tier: TierName, scope: Scope, record: Record) -> None:
        """A chunk whose bytes were set aside is handed to a tier: to be called before, and `landed` behind it."""
        name = (scope, record.key)
        with self._lock:
            self._arriving[tier][name] = False
            if self._asked.get(tier) == name:
                del self._asked[tier]
            self._shares.commit(scope.tenant, record.length)
            self._tally[tier, scope] += record.length
        before = self.residents[tier].replace(scope, record)
        if before:
            self._change(tier, scope, -before)  # one of the same name had expired, and was not swept yet

    def landed(self, tier: TierName, scope: Scope, key: bytes) -> bool:
        """The tier has the chunk in its hands, or refused it. Whether it is to be settled: somebody wanted to."""
        with self._lock:
            return self._arriving[tier].pop((scope, key))

    def settle(self, tier: Tier, scope: Scope, key: bytes, length: int) -> bool:
        """Count a chunk as its tier has it now; whether it is there. Raises KvctlError: then it stays as it was.

        `length`: what it had, for one that was counted at the start and is not known by name yet. One that is being
        handed over is left to whoever does that.
        """
        name = (scope, key)
        with self._asking[tier.name]:
            while True:
                with self._lock:
                    if name in self._arriving[tier.name]:
                        self._arriving[tier.name][name] = True
                        return False
                    self._asked[tier.name] = name
                found = tier.found(scope, key)
                there = found.record if found is not None and found.state in ON_MEDIUM else None
                self._change(tier.name, scope, self.residents[tier.name].settle(scope, key, there, length))
                with self._lock:
                    if self._asked.pop(tier.name, None) is not None:
                        return there is not None
                # It came in meanwhile: the answer may be from before that.

    def recall(self, tier: Tier, stop: Callable[[], bool]) -> None:
        """Learn the names of what a tier held at the start, least recently used first."""
        residents = self.residents[tier.name]
        for scope, record in tier.by_recency():
            if stop():
                return
            with self._asking[tier.name]:
                self._change(tier.name, scope, residents.recalled(scope, record))
        with self._asking[tier.name]:
            for scope, rest in residents.all_recalled().items():
                self._change(tier.name, scope, -rest)

    def tenants(self) -> set[str]:
        """Those that hold something. To be called under the lock."""
        return {scope.tenant for (_, scope), size in self._tally.items() if size}

    def _change(self, tier: TierName, scope: Scope, by: int) -> None:
        if not by:
            return
        with self._lock:
            if by > 0:
                self._shares.found(scope.tenant, by)
            else:
                self._shares.freed(scope.tenant, -by)
            self._tally[tier, scope] += by
            if not self._tally[tier, scope]:
                del self._tally[tier, scope]
