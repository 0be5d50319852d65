"""The store: RAM and tiers under the rules of leases, quotas, admission, eviction and erasure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from threading import Event, Lock
from typing import Any

from xxhash import xxh3_128_digest

from kvctl.connector.wire import PutStatus
from kvctl.store import erasing, listing
from kvctl.store.ahead import Ahead
from kvctl.store.api import Buffer, Reading, Record, Scrubbed, State, Tier, Why
from kvctl.store.buffers import BufferPool
from kvctl.store.guard import Guard
from kvctl.store.holds import HoldSet
from kvctl.store.leases import Leases
from kvctl.store.lineagecare import LineageCare
from kvctl.store.moves import Moves
from kvctl.store.moving import run_move
from kvctl.store.ram import RamTier
from kvctl.store.space import Space
from kvctl.types.chunks import NEVER, Ack, Meta, Scope, TierName
from kvctl.types.errors import UsageError

PATIENCE = 2.0  # seconds that a PUT waits for memory before it is told BUSY
DURABLE_PATIENCE = 120.0  # seconds that a PUT waits for the medium; then the medium is taken for broken


class Slot:
    """Room for one chunk. Ends with `commit` or `abort`, whatever happened; both give the memory back."""

    def __init__(self, store: "Store", scope: Scope, key: bytes, meta: Meta, buffer: Buffer) -> None:
        self._store = store
        self._buffer = buffer
        self.scope = scope
        self.key = key
        self.meta = meta
        self.body = buffer.body

    def commit(self, ack: Ack) -> PutStatus:
        """Make the chunk readable; with DURABLE, wait until it survives a power cut. Anything but STORED: not kept."""
        try:
            return self._store.commit(self, self._buffer, ack)
        finally:
            self._buffer.release()

    def abort(self) -> None:
        self._store.space.release(self.scope.tenant, len(self.body))
        self._buffer.release()


class Store:
    """Every method may be called from any thread. `clock`: Unix seconds."""

    def __init__(
        self, tiers: Sequence[Tier], pool: BufferPool, ram: RamTier, leases: Leases, space: Space,
        clock: Callable[[], float], journals: Path, guard: Guard | None = None,
    ) -> None:  # fmt: skip
        self.tiers = {tier.name: tier for tier in tiers}
        self.pool = pool
        self.ram = ram
        self.leases = leases
        self.space = space
        self._clock = clock
        self.guard = guard or Guard()
        self._ahead = Ahead(ram)
        self._moves = Moves(journals)
        self._lineage = LineageCare(self)
        space.listeners.append(ram.remove)
        space.chores.append(self._lineage.tidy)
        self._meeting = Lock()
        self._coming: set[tuple[Scope, bytes]] = set()  # chunks on their way to a tier, for the time of the call
        self._counting = Lock()
        self._late: dict[str, int] = {"failed_writes": 0, "quarantined_by_scrub": 0}

    def has(self, scope: Scope, keys: Sequence[bytes], lease_ms: int = 0) -> list[bool]:
        """Which chunks can be read; those that can are protected from eviction for `lease_ms`, and read ahead."""
        present = [False] * len(keys)
        places: dict[int, Tier] = {}
        frozen = self.guard.frozen.of(scope)
        missing: Sequence[int] = (
            [at for at, key in enumerate(keys) if key not in frozen] if frozen else range(len(keys))
        )
        for tier in self.tiers.values():
            found = tier.has(scope, [keys[at] for at in missing])
            for at, there in zip(missing, found, strict=True):
                present[at] = there
                if there:
                    places[at] = tier
            missing = [at for at in missing if not present[at]]
            if not missing:
                break
        if lease_ms:
            self.leases.take(scope, [key for key, there in zip(keys, present, strict=True) if there], lease_ms / 1000)
            self._ahead.read(scope, ((places[at], keys[at]) for at in sorted(places)))
        return present

    def get(self, scope: Scope, key: bytes) -> Reading | None:
        """A chunk on its way, from the fastest place that has it; None is a miss."""
        if key in self.guard.frozen.of(scope):
            return None
        reading: Reading | None = self.ram.get(scope, key, first=self._ahead.asked(scope, key))
        for tier in self.tiers.values():
            if reading is not None:
                break
            reading = tier.read(scope, key)
        if reading is not None:
            self.space.note(scope, key)
        return reading

    def reserve(self, scope: Scope, key: bytes, length: int, meta: Meta) -> Slot | PutStatus:
        """Room for a chunk of `length` sealed bytes, or why there is none."""
        if meta.expires_at != NEVER and meta.expires_at <= self._clock():
            return PutStatus.EXPIRED
        if self._is_kept(scope, key):
            return PutStatus.EXISTS
        if self._holder(scope, key) is not None:
            self.space.touch(scope, key)
            return PutStatus.EXISTS
        refused = self.space.admit(scope, key, length, meta)
        if refused is not None:
            return refused
        try:
            buffer = self.pool.take(length, timeout=PATIENCE)
        except BaseException:
            self.space.release(scope.tenant, length)
            raise
        if buffer is None:
            self.space.release(scope.tenant, length)
            return PutStatus.BUSY
        return Slot(self, scope, key, meta, buffer)

    def _is_kept(self, scope: Scope, key: bytes) -> bool:
        """Whether a hold keeps a chunk of this name that nobody can read: it is not written over."""
        if key in self.guard.frozen.of(scope):
            return True
        holds = self.guard.holds.now
        if not holds.touches(scope):
            return False
        there = (tier.found(scope, key) for tier in self.tiers.values())
        return any(
            one is not None and one.state is State.EXPIRED and holds(scope, key, one.record.meta) for one in there
        )

    def commit(self, slot: Slot, buffer: Buffer, ack: Ack) -> PutStatus:
        """Hand a complete chunk to a tier. For Slot alone: the caller releases the buffer."""
        body = slot.body
        record = Record(slot.key, len(body), xxh3_128_digest(body), int(self._clock()), slot.meta)
        writing = self._hand_over(slot, record, buffer, ack)
        if isinstance(writing, PutStatus):
            durable_twin = ack is Ack.DURABLE and writing is PutStatus.EXISTS
            return self.settle(slot.scope, slot.key) if durable_twin else writing
        return writing.outcome() if ack is Ack.DURABLE else writing.so_far()

    def _hand_over(self, slot: Slot, record: Record, buffer: Buffer, ack: Ack) -> "Writing | PutStatus":
        """Two writers of one chunk meet here: the second is told that it exists."""
        name = (slot.scope, slot.key)
        with self._meeting:
            exists = name in self._coming or self._holder(*name) is not None
            if not exists:
                self._coming.add(name)
        tier = None if exists else self.space.target()
        try:
            if tier is None:
                self.space.release(slot.scope.tenant, record.length)
                return PutStatus.EXISTS if exists else PutStatus.FAILED
            return self._write(tier, slot.scope, record, buffer, ack)
        finally:
            if not exists:
                with self._meeting:
                    self._coming.discard(name)

    def _write(self, tier: Tier, scope: Scope, record: Record, buffer: Buffer, ack: Ack) -> "Writing":
        writing = Writing(self, tier, scope, record)
        self.guard.deltas.put(tier.name, scope, record)  # before anybody can remove it
        self.space.added(tier.name, scope, record)
        self.ram.insert(scope, record, buffer)
        try:
            tier.write(scope, record, buffer, durable=ack is Ack.DURABLE, done=writing.done)
        except BaseException:
            self.lost(scope, record, tier)  # the tier did not take it, and will not answer
            raise
        finally:
            self.space.landed(tier, scope, record.key)
        return writing

    def lost(self, scope: Scope, record: Record, tier: Tier) -> None:
        """A write failed after all: nothing of the chunk stays anywhere."""
        self.ram.remove(scope, [record.key])
        self.space.settle(tier, scope, record.key, record.length)
        self.guard.deltas.removed(tier.name, scope, record, Why.LOST)
        with self._counting:
            self._late["failed_writes"] += 1

    def settle(self, scope: Scope, key: bytes) -> PutStatus:
        """Wait until a chunk that exists is durable: EXISTS, or FAILED when its write did not succeed."""
        tier = self._holder(scope, key)
        if tier is not None:
            tier.flush()
        return PutStatus.EXISTS if self._holder(scope, key) is not None else PutStatus.FAILED

    def _holder(self, scope: Scope, key: bytes) -> Tier | None:
        return next((tier for tier in self.tiers.values() if tier.has(scope, [key])[0]), None)

    def touch(self, scope: Scope, keys: Sequence[bytes]) -> int:
        """Refresh recency; how many of the chunks are known."""
        frozen = self.guard.frozen.of(scope)
        return sum(self.space.touch(scope, key) for key in keys if key not in frozen)

    def lineage(self, scope: Scope, subject: bytes, keys: Sequence[bytes]) -> int:
        """Note durably that a subject used these chunks as well; how many of them are there."""
        self._lineage.note(scope, subject, keys)
        return sum(self.has(scope, keys))

    def tenant_stat(self, scope: Scope) -> dict[str, Any]:
        """What a capability's holder may know of its own scope; writes of the last half second may be missing."""
        held = {name: tier.scopes().get(scope) for name, tier in self.tiers.items()}
        usage = {str(name): asdict(one) for name, one in held.items() if one is not None}
        return {"usage": usage, "quota": self.space.quota_of(scope.tenant)}

    def stat(self) -> dict[str, Any]:
        pool = {"ram_mapped": self.pool.mapped, "ram_in_use": self.pool.in_use, "ram_total": self.pool.total}
        with self._counting:
            late = dict(self._late)
        return {
            "tiers": [asdict(tier.stat()) for tier in self.tiers.values()],
            "ram": {**self.ram.counters(), **pool},
            "counters": {
                **late,
                **self.space.counters(),
                **self.guard.deltas.counters(),
                **self._ahead.counters(),
                "leases": len(self.leases),
                "frozen": len(self.guard.frozen),
            },
            "tenants": self.space.tenants(),
        }

    def ls(self, tenant: str | None, domain: str | None, after: str, limit: int) -> list[dict[str, Any]]:
        """Chunks in order of tier, scope and key; `after` is the `cursor` of the last row seen."""
        return list(islice(listing.rows(self.tiers, tenant, domain, after), limit))

    def scrub(self, tier: str, stop: Callable[[], bool]) -> Scrubbed:
        """Read everything of a tier again; what is not what was written answers MISS from now on."""
        found = self.tier(tier).scrub(stop)
        for scope, key in found.bad:
            self.ram.remove(scope, [key])
            self.space.settle(self.tier(tier), scope, key)
        with self._counting:
            self._late["quarantined_by_scrub"] += len(found.bad)
        return found

    def erase_scope(self, scope: Scope) -> dict[str, int]:
        return erasing.erase_scope(self, scope)

    def erase_subject(self, tenant: str, domain: str | None, subject: bytes) -> dict[str, int]:
        return erasing.erase_subject(self, tenant, domain, subject)

    def used_by(self, scope: Scope, subject: bytes) -> list[bytes]:
        """Private chunks of other subjects that this one used as well."""
        return self._lineage.private_of(scope, subject)

    def not_reached(self) -> list[str]:
        """Mounts and buckets that cannot be read now: what they hold is not known."""
        stats = [tier.stat() for tier in self.tiers.values()]
        return [f"{stat.name}:{place.name}" for stat in stats for place in stat.places if place.state == "failed"]

    def forget_pairs(self) -> None:
        """What is known of who used chunks that are gone now leaves the files."""
        self._lineage.forget()

    def remove(self, scope: Scope, keys: Sequence[bytes], why: Why) -> dict[str, Any]:
        return erasing.remove(self, scope, keys, why)

    def probe(self, scope: Scope, keys: Sequence[bytes]) -> dict[str, Any]:
        return erasing.probe(self, scope, keys)

    def hold(self, given: HoldSet) -> None:
        """Have these holds alone in force, durably. RefusedError KV-STORE-024 for an older version."""
        self.guard.holds.replace(given)

    def push_quotas(self, quotas: Mapping[str, int]) -> None:
        self.space.push(quotas)

    def deltas(self, boot: str | None, after: int, limit: int, seconds: float, stop: Callable[[], bool]) -> Any:
        """See Deltas.read."""
        return self.guard.deltas.read(boot, after, limit, seconds, stop)

    def governance(self) -> dict[str, Any]:
        """Which holds are in force, and what they keep from being read."""
        given = self.guard.holds.now.given
        return {
            "boot": self.guard.deltas.boot,
            "holds": {"version": given.version, "count": len(given.holds)},
            "frozen": len(self.guard.frozen),
        }

    def moves(self) -> list[dict[str, Any]]:
        return self._moves.rows()

    def cancel_move(self, name: str) -> dict[str, Any]:
        return self._moves.cancel(name)

    def move(self, body: dict[str, Any], stop: Callable[[], bool]) -> dict[str, Any]:
        """Move chunks between tiers: see moving.Move."""
        return run_move(self, self._moves, body, stop)

    def flush(self) -> None:
        for tier in self.tiers.values():
            tier.flush()

    def drain(self) -> None:
        self.space.pause()
        self.flush()

    def resume(self) -> None:
        self.space.resume()

    def close(self) -> None:
        self.space.close()
        if self.guard.lineage is not None:
            self.guard.lineage.close()
        for tier in self.tiers.values():
            tier.close()
        self.ram.close()
        self.pool.close()

    def tier(self, name: str) -> Tier:
        """UsageError KV-STORE-021 when there is none of this name."""
        found = self.tiers.get(TierName(name))
        if found is None:
            raise UsageError(
                "KV-STORE-021", f"this store has no tier {name}", why=f"it has {', '.join(self.tiers) or 'none'}"
            )
        return found


class Writing:
    """A chunk on its way to a medium; `done` is called by the tier, once."""

    def __init__(self, store: Store, tier: Tier, scope: Scope, record: Record) -> None:
        self._store = store
        self._tier = tier
        self._scope = scope
        self._record = record
        self._status: PutStatus | None = None
        self._over = Event()

    def done(self, status: PutStatus) -> None:
        self._status = status
        if status is not PutStatus.STORED:
            self._store.lost(self._scope, self._record, self._tier)
        self._over.set()

    def so_far(self) -> PutStatus:
        """STORED while nothing speaks against it: the chunk can be read."""
        return PutStatus.STORED if self._status is None else self._status

    def outcome(self) -> PutStatus:
        self._over.wait(DURABLE_PATIENCE)
        return PutStatus.FAILED if self._status is None else self._status
