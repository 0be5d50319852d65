"""One mount: its segments, its index, its threads, and the order in which they change.

A chunk goes from the writer's queue to `pending` (in a segment, not in the index) to the index. It enters the next
place before it leaves the last one, and lookups go in that order, so that none is missed on its way.
"""

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Condition, Event
from typing import TypeVar

from kvctl.store.api import Found, Reading, Removal, State, Why
from kvctl.store.buffers import BufferPool
from kvctl.store.guard import Guard
from kvctl.store.ram import RamReading, RamTier
from kvctl.store.segments.change import Change, change
from kvctl.store.segments.health import Health
from kvctl.store.segments.holes import Holes
from kvctl.store.segments.index import Index
from kvctl.store.segments.layout import Entry, Place
from kvctl.store.segments.reader import Readers
from kvctl.store.segments.replay import replay
from kvctl.store.segments.segment_log import SegmentLog
from kvctl.store.segments.volume import Volume
from kvctl.store.segments.writer import Name, Write, Writer
from kvctl.types.chunks import Scope, TierName

log = logging.getLogger(__name__)

T = TypeVar("T")
QUEUE_BYTES = 256 << 20
COMMIT_CHUNKS = 1000  # in segments and not in the index, until a commit is due before its time
COMMIT_BYTES = 256 << 20
TOUCH_SECONDS = 30.0  # how long recency may wait in memory


@dataclass(frozen=True, slots=True)
class MountConfig:
    """A directory for chunks and how many bytes they may take there, headers and padding included."""

    path: Path
    capacity: int
    used_before: bool = False  # then an empty directory is a drive that is not mounted, and is left alone


class Mount:
    """An opened mount. `clock` gives Unix seconds, `steady` seconds that never jump.

    Raises what Volume raises, and OSError when the medium fails while its tail is replayed.
    """

    def __init__(
        self,
        config: MountConfig,
        tier: TierName,
        pool: BufferPool,
        ram: RamTier,
        clock: Callable[[], float],
        steady: Callable[[], float],
        *,
        segment_size: int,
        promote: bool,
        guard: Guard,
    ) -> None:
        self.path = config.path
        self.guard = guard
        self.wake = Event()  # set when a commit is due before its time, and at the end
        self.capacity = config.capacity
        self.health = Health(str(config.path), steady)
        self.counters = {"replayed": 0, "torn": 0, "quarantined": 0, "dropped": 0}
        self._tier = tier
        self._ram = ram
        self._clock = clock
        self._steady = steady
        self._touches_written = steady()
        self._promote = promote
        self._state = Condition()  # over the fields below
        self._pending: dict[Name, Entry] = {}
        self._pending_bytes = 0
        self._given_up: dict[Place, tuple[int, Name | None]] = {}  # size and name; not noted in the index yet
        self._touched: dict[Name, int] = {}
        self._sequence = 1
        self._live = 0
        with ExitStack() as opened:
            self.volume = Volume(config.path, config.capacity, used_before=config.used_before)
            opened.callback(self.volume.close)
            self.index = Index(config.path)
            opened.callback(self.index.close)
            self.log = SegmentLog(config.path / "segments", segment_size, self._lost)
            opened.callback(self.log.close)
            self.holes = Holes(self.log, self.health)
            self._recover()
            opened.pop_all()
        self.readers = Readers(tier, self.log, self.holes, self.health, pool, ram, self.quarantine, promote=promote)
        self.writer = Writer(
            self.log, self.volume.number, self._landed, self._stray, self.health.write_failed, QUEUE_BYTES
        )
        self.writer.start()

    @property
    def used(self) -> int:
        """Bytes of chunks on the mount and on their way to it."""
        return self._live + self._pending_bytes + self.writer.queued_bytes

    def stat(self) -> dict[str, int]:
        """Counters since the mount was opened."""
        return {
            **self.counters,
            "punched_bytes": self.log.punched_bytes,
            "read_errors": self.health.read_errors,
            "write_errors": self.health.write_errors,
            "queued_bytes": self.writer.queued_bytes,
        }

    @property
    def due(self) -> bool:
        """Whether there is anything to commit or to punch."""
        late = self._steady() - self._touches_written > TOUCH_SECONDS
        return bool(self._pending or self._given_up or self.holes.due or (self._touched and late))

    @property
    def chunks(self) -> int:
        """Chunks of the index and of the tail that is not in it yet; what is still in the queue comes with that."""
        return sum(usage.chunks for usage in list(self.index.usage.values())) + len(self._pending)

    def find(self, scope: Scope, key: bytes) -> Write | Entry | None:
        """A chunk in the queue or in a segment; expired ones included."""
        name = (scope, key)
        return self.writer.find(name) or self._placed(name)

    def present(self, scope: Scope, keys: Sequence[bytes]) -> set[bytes]:
        """Which chunks can be read now."""
        if not self.health.readable:
            return set()
        now = self._clock()
        found = set()
        for key in keys if self.writer.busy or self._pending else ():
            held = self.writer.find((scope, key)) or self._pending.get((scope, key))
            if held is not None and not 0 < held.record.meta.expires_at <= now:
                found.add(key)
        try:
            return found | self.index.present(scope, [key for key in keys if key not in found], now)
        except OSError as failed:
            self.health.read_failed(failed)
            return found

    def read(self, scope: Scope, key: bytes) -> Reading | None:
        """Start reading a chunk. Raises NoRoomError when there is no memory for it."""
        name = (scope, key)
        reading = self.writer.reading(name, lambda write: self._queued(write))
        if isinstance(reading, RamReading):
            return reading
        while (entry := self._placed(name)) is not None:
            if entry.expired(self._clock()):
                return None
            shared = self.readers.join(entry)
            if shared is not None:
                return shared
            self.holes.pin(entry.place)
            # What was found may be removed by now. A removal waits for pins only after it left the index.
            again = self._placed(name)
            if again is not None and again.place == entry.place:
                return self.readers.start(again)
            self.holes.unpin(entry.place)
        return None

    def touch(self, scope: Scope, keys: Iterable[bytes]) -> None:
        """Remember that chunks were asked for; written with the next commit, lost by a crash."""
        now = int(self._clock())
        with self._state:
            self._touched.update(((scope, key), now) for key in keys)

    def drain(self) -> None:
        """Return when everything queued so far is in segments and in the index, or was refused. Raises OSError."""
        passed = Event()
        self.writer.barrier(lambda status: passed.set())
        passed.wait()
        self.settle()

    def commit(self, edit: Callable[[Change], T]) -> T:
        """Put what is in segments into the index, together with `edit`, and wait until it is durable.

        Segments are synced before an index that refers to them. Raises OSError; then nothing of it has happened.
        """
        try:
            return self._commit(edit)
        except OSError as failed:
            if failed.errno not in (errno.ENOSPC, errno.EDQUOT) or not self.volume.deflate():
                raise
        return self._commit(edit)

    def remove(self, scope: Scope, keys: Sequence[bytes], removal: Removal, *, wipe: bool = False) -> int:
        """Forget chunks, then punch them: how many went; held ones stay. Raises OSError when the index is not written.

        Every removal of a chunk that is whole comes through here.
        """
        self._ram.remove(scope, keys, wipe=wipe)
        with self.index.writing, self.guard.deciding() as held:
            self.writer.wait_for((scope, key) for key in keys)
            gone = self.commit(lambda made: made.take_out(scope, keys, held, removal))
        self.holes.wait_unpinned(entry.place for entry in gone)
        self._ram.remove(scope, keys, wipe=wipe)  # what a read promoted meanwhile
        self.holes.punch()
        self.guard.gone(self._tier, scope, [entry.record for entry in gone], removal)
        return len(gone)

    def move(self, entry: Entry, write: Write) -> bool:
        """Queue a copy of a record that is still at its place; False when it is not."""
        with self.index.writing:
            found = self.find(entry.scope, entry.record.key)
            if not isinstance(found, Entry) or found.place != entry.place:
                return False
            return self.writer.submit(write, 0)

    def quarantine(self, entry: Entry) -> bool:
        """Put a chunk whose bytes are wrong out of sight; False when it is gone by now. Raises OSError."""
        scope, key = entry.scope, entry.record.key
        self._ram.remove(scope, [key])
        moved = self.commit(lambda made: made.quarantine(scope, key, entry.place))
        if moved:
            self.guard.gone(self._tier, scope, [entry.record], Removal(Why.QUARANTINED))
            self.counters["quarantined"] += 1
            log.error("mount %s: a chunk's bytes are not what was written; it is in quarantine", self.path)
        return moved

    def settle(self) -> None:
        """Commit, punch, and drop segments that hold nothing: what the mount's upkeep does now and then."""
        self.commit(lambda made: None)
        self.holes.punch()
        self.drop_empty()
        self.volume.inflate()

    def close(self) -> None:
        """Write and commit what was taken; a medium that fails now is replayed at the next opening."""
        self.writer.close()
        self.readers.close()
        try:
            self.settle()
            self.commit(lambda made: None)
        except OSError as failed:
            log.error("mount %s was closed without a last commit: %s", self.path, failed)
        self.index.close()
        self.log.close()
        self.volume.close()

    def _recover(self) -> None:
        mark, sequence = self.index.watermark()
        found = replay(self.log, self.volume.number, mark, sequence)
        self.log.tail, self.log.sequence, self.log.floor = found.tail, found.sequence, mark.segment - 1
        self._sequence = found.sequence
        if not found.tail.segment:
            self.log.tail = self.log.create(mark.segment)
        now, held = self._clock(), self.guard.holds.now
        for entry in found.entries:
            if entry.expired(now) and not held(entry.scope, entry.record.key, entry.record.meta):
                self._given_up[entry.place] = entry.size, None
            else:
                self._enter(entry)
        self._given_up.update((place, (size, None)) for place, size in found.torn.items())
        self.holes.add(self.index.holes())
        self.counters["replayed"], self.counters["torn"] = len(found.entries), len(found.torn)
        if found.entries or found.torn:
            log.warning("mount %s: %d chunks replayed, %d torn", self.path, len(found.entries), len(found.torn))
        self.settle()

    def _commit(self, edit: Callable[[Change], T]) -> T:
        with self.index.writing, self.guard.deciding() as held:
            with self._state:
                entries = dict(self._pending)
                tail, sequence = self.log.tail, self._sequence
                given_up, punched = dict(self._given_up), self.holes.punched()
                touched, self._touched = self._touched, {}
                self._touches_written = self._steady()
            self.log.sync()
            with self._state:  # a sync of the writer's may have failed meanwhile and taken some back
                entries = {name: entry for name, entry in entries.items() if self._pending.get(name) is entry}
            with change(self.index) as made:
                for entry in entries.values():
                    made.put(entry, held)
                for (scope, key), used in touched.items():
                    made.touch(scope, key, used)
                for place in punched:
                    made.punched(place)
                for place, (size, gone) in given_up.items():
                    made.give_up(place, size, gone)
                if tail.segment:
                    made.mark(tail, sequence)
                result = edit(made)
            self._committed(entries, given_up)
            self.holes.forget(len(punched))
            self.holes.add(made.freed)
            return result

    def _committed(self, entries: dict[Name, Entry], given_up: Iterable[Place]) -> None:
        live = sum(size for size, _ in self.index.segments().values())
        with self._state:
            for name, entry in entries.items():
                if self._pending.get(name) is entry:
                    del self._pending[name]
                    self._pending_bytes -= entry.size
            for place in given_up:
                del self._given_up[place]
            self._live = live

    def _enter(self, entry: Entry) -> None:
        """Add to pending; a record of the same name that is there already is superseded, unless it is held."""
        name = (entry.scope, entry.record.key)
        old = self._pending.get(name)
        if old is not None and old.record != entry.record and self.guard.holds.now(*name, old.record.meta):
            self._given_up[entry.place] = entry.size, None
            return
        if old is not None:
            self._given_up[old.place] = old.size, name
            self._pending_bytes -= old.size
        self._pending[name] = entry
        self._pending_bytes += entry.size

    def _landed(self, written: list[tuple[Write, Entry]], tail: Place) -> None:
        with self._state:
            for _, entry in written:
                self._enter(entry)
            self.log.tail, self._sequence = tail, self.log.sequence
            if len(self._pending) > COMMIT_CHUNKS or self._pending_bytes > COMMIT_BYTES:
                self.wake.set()
        for write, entry in written:
            if self._promote and not write.moved:
                self._ram.insert(entry.scope, entry.record, write.buffer)
        self.health.wrote()

    def _stray(self, place: Place, size: int) -> None:
        with self._state:
            self._given_up[place] = size, None
            self.log.tail, self._sequence = replace(place, offset=place.offset + size), self.log.sequence

    def _lost(self, segment: int) -> None:
        """A sync failed: what it covered is given up, for nobody can tell what of it is on the medium."""
        with self._state:
            for name, entry in list(self._pending.items()):
                if entry.place.segment == segment:
                    del self._pending[name]
                    self._pending_bytes -= entry.size
                    self._given_up[entry.place] = entry.size, name
                    self.counters["dropped"] += 1
                    self._ram.remove(entry.scope, [entry.record.key])
                    self.guard.gone(self._tier, entry.scope, [entry.record], Removal(Why.LOST))

    def _queued(self, write: Write) -> RamReading | None:
        expired = 0 < write.record.meta.expires_at <= self._clock()
        return None if expired else RamReading(write.buffer, self._tier)

    def look(self, scope: Scope, key: bytes) -> Found | None:
        """A chunk, readable or not. Raises OSError: an index that cannot be read says nothing about what is there."""
        name = (scope, key)
        held = self.writer.find(name) or self._pending.get(name) or self.index.get(*name)
        if held is None:
            bad = self.index.quarantined_one(scope, key)
            return None if bad is None else Found(bad.record, State.QUARANTINED)
        expired = 0 < held.record.meta.expires_at <= self._clock()
        return Found(held.record, State.EXPIRED if expired else State.LIVE)

    def _placed(self, name: Name) -> Entry | None:
        """A chunk in a segment; an index that cannot be read knows none."""
        try:
            return self._pending.get(name) or self.index.get(*name)
        except OSError as failed:
            self.health.read_failed(failed)
            return None

    def drop_empty(self) -> None:
        """Unlink sealed segments without a live chunk; what was to be punched in them is gone with them."""
        with self.holes.still():
            mark, _ = self.index.watermark()
            known = self.index.segments()
            busy = self.holes.pinned_segments()
            files = self.log.existing()
            empty = [number for number in files if number < mark.segment and not known.get(number, (0, 0))[1]]
            empty = [number for number in empty if number not in busy]
            if empty:
                self.log.unlink(empty)
        gone = set(empty) | (set(known) - set(files))
        if not gone:
            return
        holes = [place for place in self.index.holes() if place.segment in gone]

        def edit(made: Change) -> None:
            for number in gone:
                made.drop_segment(number)
            for place in holes:
                made.punched(place)

        self.commit(edit)
