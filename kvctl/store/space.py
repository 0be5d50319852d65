"""Who may come in and who must leave: quotas, admission under pressure, eviction, expiry. The tiers do the work."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic

from kvctl.connector.wire import PutStatus
from kvctl.sizing.admission import SecondTouch, UnderPressure
from kvctl.sizing.evict import Taken
from kvctl.sizing.quota import UNKNOWN, Ledger, Verdict
from kvctl.store.api import Record, Removal, Tier, Why
from kvctl.store.counted import Counted
from kvctl.store.guard import Guard
from kvctl.store.holds import InForce
from kvctl.store.leases import Leases
from kvctl.types.chunks import Kind, Meta, Scope, TierName
from kvctl.types.errors import KvctlError

log = logging.getLogger(__name__)

TICK = 1.0  # seconds between looks at expiry and at a tier's fill
STALE = 0.1  # seconds for which a tier's fill is taken as it was read
EXPIRED_AT_ONCE = 4096
REMEMBERED = 1 << 20  # names that second-touch admission knows, about 100 bytes each
EVICTED_AT_ONCE = 256 << 20  # bytes of one step of eviction


@dataclass(frozen=True, slots=True)
class Rules:
    """What a reload may change."""

    quotas: Mapping[str, int]  # tenant -> bytes of this node
    default_quota: int | None  # of tenants not named; None: no limit
    second_touch_above: float  # share of a tier in use from which a chunk is admitted at its second PUT
    high: float  # share from which eviction begins ...
    low: float  # ... and where it ends


class Space:
    """Rules over tiers, in the order in which they are filled. One thread evicts and expires."""

    def __init__(
        self, tiers: Sequence[Tier], leases: Leases, rules: Rules, eviction: str, guard: Guard | None = None
    ) -> None:
        self._tiers = list(tiers)
        self._leases = leases
        self._rules = rules
        self._pushed: Mapping[str, int] = {}  # quotas by the controller: they go before those of the rules
        self._guard = guard or Guard()
        self._kept: tuple[InForce, set[tuple[Scope, bytes]]] = (self._guard.holds.now, set())  # found to be held
        self._shares = Ledger(rules.quotas, default=rules.default_quota)
        self._admission = self._filter(rules)
        self._fill: dict[TierName, tuple[float, int, int, bool]] = {}  # read at, used, capacity, writable
        self._counters: Counter[str] = Counter()
        self.listeners: list[Callable[[Scope, Sequence[bytes]], object]] = []  # told what eviction removed
        self.chores: list[Callable[[], None]] = []  # done at each look, when everything is counted
        self._noted: deque[tuple[Scope, bytes]] = deque(maxlen=REMEMBERED)
        self._unasked: deque[tuple[TierName, Scope, Record]] = deque()  # a tier lost them, and nobody had asked it to
        self._lock = Lock()  # over what is above
        self._evicting = Lock()
        self._wake = Event()
        self._closing = Event()
        self._paused = Event()
        self._known = Event()  # set when everything that the tiers held at the start is counted
        self._guard.listeners.append(self._lost)
        self._counted = Counted(tiers, eviction, self._shares, self._lock)
        self._residents = self._counted.residents
        self._threads = [
            Thread(target=self._recall, name="recall", daemon=True),
            Thread(target=self._govern, name="space", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _filter(rules: Rules) -> UnderPressure:
        return UnderPressure(rules.second_touch_above, SecondTouch(REMEMBERED))

    def admit(self, scope: Scope, key: bytes, length: int, meta: Meta) -> PutStatus | None:
        """Why a chunk may not come in; None when it may, and its bytes are set aside then."""
        if self._paused.is_set():
            return PutStatus.BUSY
        refused = self._refusal(scope, key, length, meta)
        with self._lock:
            self._counters["admitted" if refused is None else f"refused_{refused.name.lower()}"] += 1
        return refused

    def _refusal(self, scope: Scope, key: bytes, length: int, meta: Meta) -> PutStatus | None:
        tier = self.target()
        if tier is None:
            return PutStatus.FAILED
        used, capacity = self._filled(tier)
        with self._lock:
            if not self._admission.admits((scope, key), fill=used / capacity, common=meta.kind is Kind.COMMON):
                return PutStatus.NOT_ADMITTED
            if self._shares.reserve(scope.tenant, length) in (Verdict.FULL, Verdict.HELD):
                return PutStatus.QUOTA
        if used + length > self._rules.high * capacity:
            self._wake.set()
        if used + length > capacity and not self._make_room(tier, length):
            self.release(scope.tenant, length)
            return PutStatus.FULL
        return None

    def _make_room(self, tier: Tier, length: int) -> bool:
        """The evictor was not fast enough: the writer waits for one round of it."""
        used, capacity = self._filled(tier, fresh=True)
        if used + length > capacity:
            self._evict(tier, used + length - int(self._rules.low * capacity))
            used, capacity = self._filled(tier, fresh=True)
        return used + length <= capacity

    def target(self) -> Tier | None:
        """Where a new chunk goes: the first tier that takes writes. Nothing is written to an archive directly."""
        for tier in self._tiers:
            if tier.name is not TierName.ARCHIVE and self._reading(tier)[3]:
                return tier
        return None

    def added(self, tier: TierName, scope: Scope, record: Record) -> None:
        """A chunk whose bytes were set aside is handed to a tier: to be called before, and `landed` behind it."""
        self._counted.added(tier, scope, record)
        with self._lock:
            if tier in self._fill:
                at, used, capacity, writable = self._fill[tier]
                self._fill[tier] = at, used + record.length, capacity, writable

    def landed(self, tier: Tier, scope: Scope, key: bytes) -> None:
        """The tier has the chunk in its hands, or refused it."""
        if self._counted.landed(tier.name, scope, key):
            self.settle(tier, scope, key)

    def release(self, tenant: str, length: int) -> None:
        """A chunk whose bytes were set aside does not come."""
        with self._lock:
            self._shares.release(tenant, length)

    def settle(self, tier: Tier, scope: Scope, key: bytes, length: int = 0) -> bool:
        """Count a chunk as its tier has it now, whatever was told of it and in which order; whether it is there.

        To be called behind everything that may have changed it. What a tier cannot tell stays as it was.
        """
        try:
            return self._counted.settle(tier, scope, key, length)
        except KvctlError:
            log.exception("tier %s does not tell what it has", tier.name)
            self._count("failures", 1)
            return True

    def _lost(self, tier: TierName, scope: Scope, records: Sequence[Record]) -> None:
        """Called inside of a tier: it is asked within a tick."""
        self._unasked.extend((tier, scope, record) for record in records)

    def _ask(self) -> None:
        for _ in range(len(self._unasked)):
            name, scope, record = self._unasked.popleft()
            for tier in self._tiers:
                if tier.name is name:
                    self.settle(tier, scope, record.key, record.length)

    def note(self, scope: Scope, key: bytes) -> None:
        """A chunk was asked for: recency follows within a tick, so that a GET does not wait for it."""
        self._noted.append((scope, key))

    def _take_notes(self) -> None:
        for _ in range(len(self._noted)):
            try:
                scope, key = self._noted.popleft()
            except IndexError:
                return  # another thread took the rest
            self.touch(scope, key)

    def touch(self, scope: Scope, key: bytes) -> bool:
        """A chunk was asked for; False when no tier is known to hold it."""
        for tier in self._tiers:
            if self._residents[tier.name].touch(scope, key):
                tier.touch(scope, [key])
                return True
        return False

    def replace(self, rules: Rules) -> None:
        with self._lock:
            if rules.second_touch_above != self._rules.second_touch_above:
                self._admission = self._filter(rules)
            self._rules = rules
            self._learn()
        self._wake.set()

    def push(self, quotas: Mapping[str, int]) -> None:
        """Bytes of tenants, from the controller: each in place of what the rules say of that tenant."""
        with self._lock:
            self._pushed = dict(quotas)
            self._learn()
        self._wake.set()

    def _learn(self) -> None:
        self._shares.learn({**self._rules.quotas, **self._pushed}, default=self._rules.default_quota)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return {**self._counters, "counted": int(self._known.is_set())}

    def tenants(self) -> dict[str, dict[str, int | str | None]]:
        """Sealed bytes and quota of each tenant that holds something; None: no limit."""
        with self._lock:
            names = sorted(self._counted.tenants())
            return {name: {"used": self._shares.used(name), "quota": self._limit(name)} for name in names}

    def quota_of(self, tenant: str) -> int | str | None:
        with self._lock:
            return self._limit(tenant)

    def _limit(self, tenant: str) -> int | str | None:
        limit = self._shares.limit(tenant)
        return UNKNOWN.value if limit is UNKNOWN else limit

    def pause(self) -> None:
        self._paused.set()

    def resume(self) -> None:
        self._paused.clear()

    def close(self) -> None:
        self._closing.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self._take_notes()

    def _filled(self, tier: Tier, *, fresh: bool = False) -> tuple[int, int]:
        _, used, capacity, _ = self._reading(tier, fresh=fresh)
        return used, max(1, capacity)

    def _reading(self, tier: Tier, *, fresh: bool = False) -> tuple[float, int, int, bool]:
        now = monotonic()
        with self._lock:
            known = self._fill.get(tier.name)
        if known is not None and not fresh and now - known[0] < STALE:
            return known
        stat = tier.stat()
        known = now, stat.used, stat.capacity, stat.writable
        with self._lock:
            self._fill[tier.name] = known
        return known

    def _govern(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(TICK)
            self._wake.clear()
            self._take_notes()
            self._guarded("chunks that were lost", self._ask)
            for tier in self._tiers:
                self._guarded(f"tier {tier.name}", partial(self._look_after, tier))
            for chore in self.chores if self._known.is_set() else ():
                self._guarded("chunks that are gone", chore)

    def _look_after(self, tier: Tier) -> None:
        expired = tier.expire(EXPIRED_AT_ONCE)
        for scope, record in expired:
            self.settle(tier, scope, record.key, record.length)
            self._tell(scope, [record.key])
        used, capacity = self._filled(tier, fresh=True)
        self._count("expired", len(expired))
        if used > self._rules.high * capacity:
            self._evict(tier, used - int(self._rules.low * capacity))

    def _evict(self, tier: Tier, size: int) -> None:
        """Remove chunks worth `size` bytes, in steps, so that other work gets its turn."""
        with self._evicting:
            self._take_notes()
            while size > 0:
                with self._lock:
                    above, held = self._shares.above(), self._held()
                taken = self._residents[tier.name].take(
                    min(size, EVICTED_AT_ONCE), leased=partial(self._stays, tier), held=held.__contains__, above=above
                )
                self._remove(tier, taken)
                size -= EVICTED_AT_ONCE
                if taken.short:
                    self._count("eviction_found_too_little", 1)
                    return

    def _stays(self, tier: Tier, name: tuple[Scope, bytes]) -> bool:
        return self._leases.held(*name) or self._on_hold(tier, name)

    def _on_hold(self, tier: Tier, name: tuple[Scope, bytes]) -> bool:
        """Asked at each eviction of every chunk that was spared: what was found out is kept for one set of holds."""
        holds = self._guard.holds.now
        if not holds.touches(name[0]):
            return False
        if self._kept[0] is not holds:
            self._kept = holds, set()
        kept = self._kept[1]
        if name not in kept and (holds.whole(name[0]) or self._is_held(tier, name, holds)):
            kept.add(name)
        return name in kept

    @staticmethod
    def _is_held(tier: Tier, name: tuple[Scope, bytes], holds: InForce) -> bool:
        try:
            found = tier.found(*name)
        except KvctlError:
            return True  # it cannot be told: then it stays
        return found is not None and holds(*name, found.record.meta)

    def _held(self) -> set[str]:
        """Tenants whose share is not known yet: what they have stays."""
        return {tenant for tenant in self._counted.tenants() if self._shares.held(tenant)}

    def _remove(self, tier: Tier, taken: Taken[tuple[Scope, bytes]]) -> None:
        by_scope: dict[Scope, list[bytes]] = {}
        for victim in taken.victims:
            scope, key = victim.key
            by_scope.setdefault(scope, []).append(key)
        removal = Removal(Why.EVICTED)
        for scope, keys in by_scope.items():
            try:
                tier.remove(scope, keys, removal)
            except KvctlError:  # one of its mounts is dead: what lay on the others is gone
                log.exception("tier %s did not forget everything", tier.name)
                self._count("failures", 1)
            self._tell(scope, keys)
        # A hold may have come between the choice and the removal: then it is a resident as before.
        back = {victim.key for victim in taken.victims if self.settle(tier, *victim.key, victim.size)}
        self._count("evicted", len(taken.victims) - len(back))
        self._count("evicted_bytes", sum(victim.size for victim in taken.victims if victim.key not in back))

    def _tell(self, scope: Scope, keys: Sequence[bytes]) -> None:
        for hear in self.listeners:
            hear(scope, keys)

    def _recall(self) -> None:
        """Learn what the tiers held at the start, least recently used first, while requests are served already."""
        for tier in self._tiers:
            recall = partial(self._counted.recall, tier, self._closing.is_set)
            self._guarded(f"tier {tier.name}", recall)
        self._known.set()

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        """A medium that fails must not end the thread that looks after the others."""
        try:
            work()
        except Exception:
            log.exception("looking after %s failed", what)
            self._count("failures", 1)

    def _count(self, name: str, by: int) -> None:
        with self._lock:
            self._counters[name] += by
