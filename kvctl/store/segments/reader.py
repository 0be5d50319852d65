"""Reads from segments: threads fetch a record in pieces, readings hand them on in order.

Readings of one record share one load, so that many prompts with a common beginning cost the drive one read.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from time import monotonic

from xxhash import xxh3_128_digest

from kvctl.store.api import ReadError
from kvctl.store.buffers import HEAD, PAGE, Buffer, BufferPool, NoRoomError, padded
from kvctl.store.ram import RamTier
from kvctl.store.segments.health import Health
from kvctl.store.segments.holes import Holes
from kvctl.store.segments.layout import Entry, Place
from kvctl.store.segments.segment_log import SegmentLog

log = logging.getLogger(__name__)

PIECE = 4 << 20  # bytes of one read: large enough for full speed, small enough to send one while the next comes
THREADS = 4
SECONDS = 30.0  # until a read that does not come counts as failed


class Load:
    """One record on its way from a segment into a buffer."""

    def __init__(self, entry: Entry, buffer: Buffer) -> None:
        self.entry = entry
        self.buffer = buffer
        length = entry.record.length
        self.ranges = [(at, min(at + PIECE, length)) for at in range(0, length, PIECE)]
        self.failure: OSError | None = None
        self._ready = [False] * len(self.ranges)
        self._left = len(self.ranges)
        self._changed = Condition()

    def fetch(self, fd: int, piece: int) -> None:
        """Read one piece. Raises OSError for what the medium says, and for a short read."""
        start, end = self.ranges[piece]
        end = padded(end)
        view = self.buffer.whole[HEAD + start : HEAD + end]
        got = os.preadv(fd, [view], self.entry.place.offset + HEAD + start)
        if got < self.ranges[piece][1] - start:
            raise OSError(errno.EIO, f"{got} of {len(view)} bytes came")

    def arrived(self, piece: int, failure: OSError | None = None) -> bool:
        """Wake who waits for the piece; True for the last one."""
        with self._changed:
            self.failure = self.failure or failure
            self._ready[piece] = failure is None
            self._left -= 1
            self._changed.notify_all()
            return not self._left

    def wait(self, piece: int) -> None:
        """Return when the piece is in memory. Raises ReadError when it does not come."""
        end = monotonic() + SECONDS
        with self._changed:
            while not self._ready[piece]:
                if self.failure is not None:
                    raise ReadError(str(self.failure)) from self.failure
                if not self._changed.wait(end - monotonic()) and monotonic() >= end:
                    raise ReadError(f"the medium did not answer within {SECONDS:.0f} s")


class SegmentReading:
    """One reader's view of a load. Made while the load holds its buffer."""

    def __init__(self, load: Load, tier: str) -> None:
        self.length = load.entry.record.length
        self.tier = tier
        self._load = load
        self._buffer: Buffer | None = load.buffer.retain()

    def pieces(self) -> Iterator[memoryview]:
        for piece, (start, end) in enumerate(self._load.ranges):
            self._load.wait(piece)
            if self._buffer is None:
                raise ValueError("the reading is closed")
            yield self._buffer.body[start:end]

    def close(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.release()


class Readers:
    """The threads that fetch, and what they are fetching. A loaded chunk is kept in `ram` when `promote` says so.

    `damaged` hears of a chunk whose bytes are not what was written, and takes it out of sight.
    """

    def __init__(
        self,
        tier: str,
        segments: SegmentLog,
        holes: Holes,
        health: Health,
        pool: BufferPool,
        ram: RamTier,
        damaged: Callable[[Entry], object],
        *,
        promote: bool,
        threads: int = THREADS,
    ) -> None:
        self._damaged = damaged
        self._tier = tier
        self._log = segments
        self._holes = holes
        self._health = health
        self._pool = pool
        self._ram = ram
        self._promote = promote
        self._lock = Lock()
        self._loads: dict[Place, Load] = {}
        self._jobs: SimpleQueue[tuple[Load, int] | None] = SimpleQueue()
        self._threads = [Thread(target=self._run, name=f"reader-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def join(self, entry: Entry) -> SegmentReading | None:
        """A reading of a load that is going on, if there is one of this record."""
        with self._lock:
            load = self._loads.get(entry.place)
            return None if load is None or load.failure else SegmentReading(load, self._tier)

    def start(self, entry: Entry) -> SegmentReading:
        """Begin to load a record whose pin is this load's from now on. Raises NoRoomError."""
        buffer = self._pool.take(entry.record.length)
        if buffer is None:
            self._holes.unpin(entry.place)
            raise NoRoomError("no memory is free to read a chunk into")
        load = Load(entry, buffer)
        with self._lock:
            self._loads[entry.place] = load
            reading = SegmentReading(load, self._tier)
        for piece in range(len(load.ranges)):
            self._jobs.put((load, piece))
        return reading

    def close(self) -> None:
        """Finish what was started."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            load, piece = job
            failure = None
            try:
                if load.failure is None:
                    load.fetch(self._log.fd(load.entry.place.segment), piece)
            except OSError as failed:
                failure = failed
            except Exception as fault:
                log.exception("a fault of a reader; the read fails")
                failure = OSError(errno.EIO, f"fault of a reader: {fault}")
            if load.arrived(piece, failure):
                self._finish(load)

    def _finish(self, load: Load) -> None:
        """A load is over. It enters RAM while its record is pinned, so that a removal finds it there."""
        entry = load.entry
        if load.failure is not None:
            self._health.read_failed(load.failure)
        else:
            self._health.read()
            self._judge(load)
        with self._lock:
            if self._loads.get(entry.place) is load:
                del self._loads[entry.place]
        self._holes.unpin(entry.place)
        load.buffer.release()

    def _judge(self, load: Load) -> None:
        """What was read is what was written, and may be kept in RAM; or it is told of, and not given out again.

        The reader may have sent it by now: the seal tells the connector.
        """
        entry = load.entry
        if xxh3_128_digest(load.buffer.body) == entry.record.checksum:
            if self._promote:
                self._ram.insert(entry.scope, entry.record, load.buffer)
            return
        try:
            self._damaged(entry)
        except OSError as failed:
            self._health.write_failed(failed)


assert PIECE % PAGE == 0
