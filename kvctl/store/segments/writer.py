"""The one thread of a mount that appends: batches, group commit, and an answer for every write."""

import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Condition, Thread
from time import monotonic

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Buffer, Done, Record
from kvctl.store.segments.layout import Entry, Place, pack_header, record_size
from kvctl.store.segments.segment_log import IO_BUFFERS, IO_BYTES, SegmentLog
from kvctl.types.chunks import Scope

log = logging.getLogger(__name__)

BATCH_BYTES = 64 << 20  # until the next sync
Name = tuple[Scope, bytes]


@dataclass(slots=True, eq=False)
class Write:
    """A chunk in the queue. Readable from its buffer until it can be read from its segment."""

    scope: Scope
    record: Record
    buffer: Buffer
    durable: bool
    done: Done
    used: int
    moved: bool = False  # by compaction: nobody asked for it
    answered: bool = False

    @property
    def name(self) -> Name:
        return self.scope, self.record.key

    @property
    def size(self) -> int:
        return record_size(self.record.length)


@dataclass(slots=True, eq=False)
class Barrier:
    """A place in the queue: done when everything in front of it is durable."""

    done: Done
    status: PutStatus = PutStatus.STORED
    answered: bool = False


class Writer:
    """Appends to `log`. `landed` hears of records in a segment, `stray` of a range that a failed append spoilt."""

    def __init__(
        self,
        segments: SegmentLog,
        volume: bytes,
        landed: Callable[[list[tuple[Write, Entry]], Place], None],
        stray: Callable[[Place, int], None],
        failed: Callable[[OSError], None],
        limit: int,
    ) -> None:
        self._log = segments
        self._volume = volume
        self._landed = landed
        self._stray = stray
        self._failed = failed
        self._limit = limit
        self._changed = Condition()
        self._queue: deque[Write | Barrier] = deque()
        self._names: dict[Name, Write] = {}  # the queue and the batch that is being written
        self._bytes = 0
        self._closing = False
        self._thread = Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def queued_bytes(self) -> int:
        return self._bytes

    @property
    def busy(self) -> bool:
        return bool(self._names)

    def find(self, name: Name) -> Write | None:
        return self._names.get(name)

    def reading(self, name: Name, make: Callable[[Write], object | None]) -> object | None:
        """`make(write)` of a queued chunk, called while the queue holds its buffer."""
        with self._changed:
            write = self._names.get(name)
            return None if write is None else make(write)

    def submit(self, write: Write, timeout: float) -> bool:
        """Queue a chunk and retain its buffer; False when there was no room within `timeout` seconds."""
        end = monotonic() + timeout
        with self._changed:
            while self._bytes and self._bytes + write.size > self._limit and not self._closing:
                if not self._changed.wait(max(0.0, end - monotonic())) and monotonic() >= end:
                    return False
            if self._closing:
                return False
            write.buffer.retain()
            self._queue.append(write)
            self._names[write.name] = write
            self._bytes += write.size
            self._changed.notify_all()
            return True

    def barrier(self, done: Done, status: PutStatus = PutStatus.STORED) -> None:
        with self._changed:
            self._queue.append(Barrier(done, status))
            self._changed.notify_all()

    def wait_for(self, names: Iterable[Name]) -> None:
        """Return when none of the chunks is queued or being written."""
        wanted = list(names)
        with self._changed:
            while any(name in self._names for name in wanted):
                self._changed.wait()

    def close(self) -> None:
        """Write what is queued, then end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._take():
            try:
                self._write(batch)
            except Exception as fault:
                log.exception("a fault of the writer; its batch is refused")
                self._failed(OSError(errno.EIO, f"fault of the writer: {fault}"))
                self._answer([item for item in batch if not item.answered], PutStatus.FAILED)

    def _take(self) -> list[Write | Barrier]:
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            batch: list[Write | Barrier] = []
            size = 0
            while self._queue and size < BATCH_BYTES:
                item = self._queue.popleft()
                size += item.size if isinstance(item, Write) else 0
                batch.append(item)
            return batch

    def _write(self, batch: list[Write | Barrier]) -> None:
        waiting: list[Write | Barrier] = [item for item in batch if isinstance(item, Barrier) or item.durable]
        for group in _groups(item for item in batch if isinstance(item, Write)):
            try:
                self._append(group)
            except OSError as failed:
                self._failed(failed)
                waiting = [item for item in waiting if item not in group]
                self._answer(group, refusal(failed))
            else:
                self._answer([write for write in group if not write.durable], PutStatus.STORED)
        if not waiting:
            return
        try:
            self._log.sync()
        except OSError as failed:
            self._failed(failed)
            self._answer(waiting, refusal(failed))
        else:
            self._answer(waiting, PutStatus.STORED)

    def _append(self, group: list[Write]) -> None:
        """One I/O for records that lie side by side."""
        size = sum(write.size for write in group)
        place = self._log.room(size)
        at = place.offset
        entries = []
        for write in group:
            pack_header(write.buffer.head, self._volume, self._log.sequence, write.scope, write.record)
            self._log.sequence += 1
            entries.append((write, Entry(write.scope, write.record, Place(place.segment, at), write.used)))
            at += write.size
        try:
            self._log.append(place, [write.buffer.whole for write in group])
        except OSError:
            self._stray(place, size)
            raise
        self._landed(entries, Place(place.segment, at))

    def _answer(self, items: Iterable[Write | Barrier], status: PutStatus) -> None:
        for item in items:
            item.answered = True
            if isinstance(item, Write):
                self._forget(item)
            good = status is PutStatus.STORED
            self._call(item.done, item.status if good and isinstance(item, Barrier) else status)

    def _forget(self, write: Write) -> None:
        with self._changed:
            if self._names.get(write.name) is write:
                del self._names[write.name]
            self._bytes -= write.size
            self._changed.notify_all()
        write.buffer.release()

    def _call(self, done: Done, status: PutStatus) -> None:
        try:
            done(status)
        except Exception:
            log.exception("who waited for a write failed to take its answer")


def refusal(failed: OSError) -> PutStatus:
    return PutStatus.FULL if failed.errno in (errno.ENOSPC, errno.EDQUOT) else PutStatus.FAILED


def _groups(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """Runs of writes that make one I/O; a chunk larger than that is a run of its own."""
    group: list[Write] = []
    size = 0
    for write in writes:
        if group and (size + write.size > IO_BYTES or len(group) == IO_BUFFERS):
            yield group
            group, size = [], 0
        group.append(write)
        size += write.size
    if group:
        yield group
