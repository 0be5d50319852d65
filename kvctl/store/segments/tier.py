"""A tier over several mounts: where a chunk goes, and the same question put to each mount."""

import errno
import heapq
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from operator import attrgetter
from queue import SimpleQueue
from threading import Event, Lock, Thread

from kvctl.connector.wire import PutStatus
from kvctl.store.api import (
    Buffer,
    Done,
    Found,
    PlaceStat,
    Reading,
    Record,
    Removal,
    Scrubbed,
    TierStat,
    Usage,
    Why,
)
from kvctl.store.buffers import BufferPool
from kvctl.store.guard import Guard
from kvctl.store.ram import RamReading, RamTier
from kvctl.store.segments.chosen import Chosen, by_keys, by_subject, everything
from kvctl.store.segments.clean import compact_segment, erase, scrub, sparse_segments
from kvctl.store.segments.layout import Entry, check_names
from kvctl.store.segments.mount import Mount, MountConfig
from kvctl.store.segments.writer import Name, Write
from kvctl.types.chunks import Scope, TierName
from kvctl.types.errors import KvctlError, LockedError

log = logging.getLogger(__name__)

SEGMENT_BYTES = 1 << 30
COMMIT_SECONDS = 0.5  # how old the tail gets that a crash leaves to replay
QUEUE_SECONDS = 5.0  # until a writer who finds the queues full is told BUSY


class SegmentsTier:
    """Implements api.Tier. `clock` gives Unix seconds.

    Opening replays what a crash left. A mount that cannot be opened is left out and shown as failed, so that one dead
    drive does not keep a node down. Raises LockedError when another process has a mount, KvctlError when none opens.
    """

    def __init__(
        self,
        name: TierName,
        mounts: Sequence[MountConfig],
        pool: BufferPool,
        ram: RamTier,
        clock: Callable[[], float],
        *,
        steady: Callable[[], float] = time.monotonic,
        segment_size: int = SEGMENT_BYTES,
        promote: bool = True,
        guard: Guard | None = None,
    ) -> None:
        self.name = name
        self._promote = promote
        self._guard = guard or Guard()
        self._swept: dict[Mount, bytes] = {}  # where the sweep of expired chunks goes on
        self._clock = clock
        self._pool = pool
        self._mounts: list[Mount] = []
        self._absent: list[PlaceStat] = []
        self._lock = Lock()
        self._taking: set[Name] = set()
        self._refusals: SimpleQueue[tuple[Done, PutStatus] | None] = SimpleQueue()
        self._closing = Event()
        try:
            for config in mounts:
                self._open(config, ram, steady, segment_size, promote, last=config is mounts[-1])
        except BaseException:
            for mount in self._mounts:
                mount.close()
            raise
        self._threads = [Thread(target=self._refuse, name="refusals", daemon=True)]
        self._threads += [Thread(target=self._upkeep, args=(mount,), daemon=True) for mount in self._mounts]
        for thread in self._threads:
            thread.start()

    def has(self, scope: Scope, keys: Sequence[bytes]) -> list[bool]:
        found: set[bytes] = set()
        for mount in self._mounts:
            found |= mount.present(scope, [key for key in keys if key not in found])
        return [key in found for key in keys]

    def record(self, scope: Scope, key: bytes) -> Record | None:
        now = self._clock()
        for mount in self._readable():
            held = mount.find(scope, key)
            if held is not None and not 0 < held.record.meta.expires_at <= now:
                return held.record
        return None

    def read(self, scope: Scope, key: bytes) -> Reading | None:
        """Start reading; None when it is not here. Raises NoRoomError when there is no memory to read it into."""
        for mount in self._readable():
            reading = mount.read(scope, key)
            if reading is not None:
                return reading
        return None

    def fetch(self, scope: Scope, key: bytes) -> int:
        """See api.Tier. Who asks for the chunk meanwhile has its pieces as they come."""
        reading = self.read(scope, key) if self._promote else None
        if reading is None:
            return 0
        with closing(reading):
            return 0 if isinstance(reading, RamReading) else reading.length  # what is still queued is in memory

    def write(self, scope: Scope, record: Record, buffer: Buffer, *, durable: bool, done: Done) -> None:
        """See api.Tier. Waits while every queue is full, at most 5 s. A buffer may be in one tier's queue at a time.

        EXISTS is told when the chunk that is there is as durable as was asked for.
        """
        name = (scope, record.key)
        check_names(scope)
        with self._lock:
            taken = name in self._taking
            self._taking.add(name)
        if taken:
            self._follow(name, done)
            return

        def finish(status: PutStatus) -> None:
            with self._lock:
                self._taking.discard(name)
            done(status)

        self._write(Write(scope, record, buffer, durable, finish, record.stored_at))

    def touch(self, scope: Scope, keys: Sequence[bytes]) -> None:
        """Remember that chunks were asked for. Kept in memory and written now and then: a crash forgets the last."""
        for mount in self._mounts:
            mount.touch(scope, keys)

    def found(self, scope: Scope, key: bytes) -> Found | None:
        """See api.Tier."""
        for mount in self._mounts:
            try:
                there = mount.look(scope, key)
            except OSError as failed:
                mount.health.read_failed(failed)
                raise KvctlError(
                    "KV-STORE-050", "what a mount holds cannot be told", where=str(mount.path), why=str(failed),
                    fix="repair the mount or take it out of service",
                ) from failed  # fmt: skip
            if there is not None:
                return there
        return None

    def remove(self, scope: Scope, keys: Sequence[bytes], removal: Removal | None = None) -> int:
        """See api.Tier. Raises KvctlError when a mount could not forget: its chunks may be there still."""
        removal = removal or Removal(Why.REMOVED)
        return self._on_each("remove chunks from", lambda mount: mount.remove(scope, keys, removal))

    def expire(self, limit: int) -> list[tuple[Scope, Record]]:
        """Remove chunks whose end has come, at most `limit` a mount; which they were. Held ones are passed over."""
        removal = Removal(Why.EXPIRED)

        def sweep(mount: Mount) -> int:
            found, self._swept[mount] = mount.index.expired(self._clock(), limit, self._swept.get(mount, b""))
            return sum(mount.remove(scope, keys, removal) for scope, keys in found.items())

        self._on_each("remove expired chunks from", sweep)
        return removal.gone

    def by_recency(self) -> Iterator[tuple[Scope, Record]]:
        for entry in sorted(self.entries(), key=attrgetter("used")):
            yield entry.scope, entry.record

    def walk(self, scope: Scope | None = None, after: bytes = b"") -> Iterator[tuple[Scope, Record]]:
        for entry in self.entries(scope, after):
            yield entry.scope, entry.record

    def entries(self, scope: Scope | None = None, after: bytes = b"") -> Iterator[Entry]:
        """What `walk` gives, with place and recency. Commits first, so that all that is written is seen."""
        self.flush()
        for owner in [scope] if scope is not None else sorted(self.scopes()):
            parts = [mount.index.walk(owner, after) for mount in self._mounts]
            yield from heapq.merge(*parts, key=attrgetter("record.key"))

    def scopes(self) -> dict[Scope, Usage]:
        """Usage of each scope; chunks written in the last moments come with the next commit."""
        total: dict[Scope, Usage] = {}
        for mount in self._mounts:
            for number, usage in list(mount.index.usage.items()):
                scope = mount.index.scopes[number]
                other = total.get(scope, Usage())
                total[scope] = Usage(other.size + usage.size, other.chunks + usage.chunks)
        return {scope: usage for scope, usage in total.items() if usage.chunks}

    def known(self) -> set[Scope]:
        """See api.Tier."""
        return {scope for mount in self._mounts for scope in list(mount.index.scopes.values())}

    def erase_keys(self, scope: Scope, keys: Sequence[bytes], removal: Removal | None = None) -> int:
        """See api.Tier. Raises KvctlError when a mount could not erase everything."""
        return self._erase("chunks", scope, by_keys(keys), removal)

    def erase_subject(self, scope: Scope, subject: bytes, removal: Removal | None = None) -> int:
        """See api.Tier. Raises KvctlError when a mount could not erase everything."""
        return self._erase("a subject", scope, by_subject(subject), removal)

    def erase_scope(self, scope: Scope, removal: Removal | None = None) -> int:
        """See api.Tier. Raises KvctlError when a mount could not erase everything."""
        return self._erase("a scope", scope, everything(), removal)

    def _erase(self, what: str, scope: Scope, chosen: Chosen, removal: Removal | None) -> int:
        removal = removal or Removal(Why.ERASED)
        return self._on_each(f"erase {what} on", lambda mount: erase(mount, scope, chosen, removal))

    def scrub(self, stop: Callable[[], bool]) -> Scrubbed:
        total = Scrubbed()
        for mount in self._mounts:
            part = scrub(mount, stop)
            total = Scrubbed(total.chunks + part.chunks, total.size + part.size, total.bad + part.bad)
        return total

    def quarantined(self, scope: Scope | None = None) -> list[Entry]:
        """Chunks whose bytes were wrong: absent for everyone, kept for inspection until removed or erased."""
        return [entry for mount in self._mounts for entry in mount.index.quarantined(scope)]

    def compact(self, limit: int = 1) -> int:
        """Move the live chunks of the emptiest segments, at most `limit` a mount; how many segments were emptied."""

        def run(mount: Mount) -> int:
            return sum(compact_segment(mount, self._pool, number) for number in sparse_segments(mount)[:limit])

        return self._on_each("compact", run)

    def stat(self) -> TierStat:
        places = tuple(
            PlaceStat(str(mount.path), mount.health.state, mount.health.why, mount.capacity, mount.used)
            for mount in self._mounts
        ) + tuple(self._absent)
        # What cannot be written is no room: the others would be full for good, with no reason to evict.
        usable = [mount for mount in self._mounts if mount.health.state == "ok"] or self._mounts
        counters: dict[str, int] = {}
        for mount in self._mounts:
            for name, value in mount.stat().items():
                counters[name] = counters.get(name, 0) + value
        return TierStat(
            self.name,
            sum(mount.capacity for mount in usable),
            sum(mount.used for mount in usable),
            sum(mount.chunks for mount in self._mounts),
            any(mount.health.writable for mount in self._mounts),  # also when it is time to try again
            places,
            counters,
        )

    def flush(self) -> None:
        """Return when everything taken so far is durable and in the index, or was refused by a mount that fails."""
        for mount in self._mounts:
            _settle(mount, mount.drain)

    def close(self) -> None:
        self._closing.set()
        for mount in self._mounts:
            mount.wake.set()
        self._refusals.put(None)
        for thread in self._threads:
            thread.join()
        for mount in self._mounts:
            mount.close()

    def _open(
        self,
        config: MountConfig,
        ram: RamTier,
        steady: Callable[[], float],
        segment_size: int,
        promote: bool,
        *,
        last: bool,
    ) -> None:
        """Open a mount, or note why it is absent; the last one must not be the only hope."""
        try:
            self._mounts.append(
                Mount(
                    config,
                    self.name,
                    self._pool,
                    ram,
                    self._clock,
                    steady,
                    segment_size=segment_size,
                    promote=promote,
                    guard=self._guard,
                )
            )
        except (OSError, KvctlError) as failed:
            error = failed if isinstance(failed, KvctlError) else _unusable(config, failed)
            if isinstance(error, LockedError) or (last and not self._mounts):
                raise error from failed
            log.error("mount %s is left out: %s", config.path, error)
            self._absent.append(PlaceStat(str(config.path), "failed", error.why or error.what, config.capacity, 0))

    def _readable(self) -> list[Mount]:
        return [mount for mount in self._mounts if mount.health.readable]

    def _follow(self, name: Name, done: Done) -> None:
        """Answer a second write of a chunk when the first one has its answer."""

        def answer(status: PutStatus) -> None:
            kept = status is PutStatus.STORED and self.record(*name) is not None
            done(PutStatus.EXISTS if kept else PutStatus.FAILED)

        for mount in self._mounts:
            if mount.writer.find(name) is not None:
                mount.writer.barrier(answer)
                return
        self._refusals.put((done, PutStatus.BUSY))

    def _write(self, write: Write) -> None:
        now = self._clock()
        for mount in self._readable():
            held = mount.find(*write.name)
            if held is not None and self._stays(held.record, write.scope, now):
                if write.durable:
                    mount.writer.barrier(write.done, PutStatus.EXISTS)
                else:
                    self._refusals.put((write.done, PutStatus.EXISTS))
                return
        refused = self._submit(write)
        if refused is not None:
            self._refusals.put((write.done, refused))

    def _stays(self, record: Record, scope: Scope, now: float) -> bool:
        """Whether a chunk that is there keeps one of the same name out: an expired one does so only when it is held."""
        return not 0 < record.meta.expires_at <= now or self._guard.holds.now(scope, record.key, record.meta)

    def _submit(self, write: Write) -> PutStatus | None:
        """Queue a write on the mount with the most room for its backlog; else why not."""
        writable = [mount for mount in self._mounts if mount.health.writable]
        if not writable:
            full = any(mount.health.state == "full" for mount in self._mounts)
            return PutStatus.FULL if full else PutStatus.FAILED
        roomy = [mount for mount in writable if mount.used + write.size <= mount.capacity]
        if not roomy:
            return PutStatus.FULL
        roomy.sort(key=lambda mount: (mount.writer.queued_bytes + write.size) / (mount.capacity - mount.used))
        last = roomy[-1]
        if any(mount.writer.submit(write, QUEUE_SECONDS if mount is last else 0.0) for mount in roomy):
            return None
        return PutStatus.BUSY

    def _on_each(self, verb: str, work: Callable[[Mount], int]) -> int:
        """Sum of `work` on every mount; those that fail are named in one error, after all were tried."""
        total = 0
        failures: list[tuple[Mount, OSError]] = []
        for mount in self._mounts:
            try:
                total += work(mount)
            except OSError as failed:
                mount.health.write_failed(failed)
                failures.append((mount, failed))
        if failures:
            raise KvctlError(
                "KV-STORE-046",
                f"could not {verb} every mount",
                where=", ".join(str(mount.path) for mount, _ in failures),
                why="; ".join(str(failed) for _, failed in failures),
                fix="repair the mount or take it out of service and destroy it; then run the same again",
            )
        return total

    def _refuse(self) -> None:
        """Answers that need no medium come from a thread of their own: a caller of `write` may hold locks."""
        while (item := self._refusals.get()) is not None:
            done, status = item
            try:
                done(status)
            except Exception:
                log.exception("who waited for a write failed to take its answer")

    def _upkeep(self, mount: Mount) -> None:
        _settle(mount, mount.index.recall)
        while not self._closing.is_set():
            mount.wake.wait(COMMIT_SECONDS)
            mount.wake.clear()
            if mount.due:
                _settle(mount, mount.settle)


def _settle(mount: Mount, work: Callable[[], None]) -> None:
    try:
        work()
    except OSError as failed:
        mount.health.write_failed(failed)
    except Exception as fault:
        log.exception("a fault in the upkeep of mount %s", mount.path)
        mount.health.write_failed(OSError(errno.EIO, f"fault of the upkeep: {fault}"))


def _unusable(config: MountConfig, failed: OSError) -> KvctlError:
    return KvctlError(
        "KV-STORE-047",
        "a mount cannot be opened",
        where=str(config.path),
        why=os.strerror(failed.errno) if failed.errno else str(failed),
        fix="check the drive and who owns the directory, or take the mount out of the configuration",
    )
