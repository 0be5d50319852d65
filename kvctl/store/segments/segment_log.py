"""The segment files of one mount: append, sync, punch, unlink.

A segment is extended to its full size at once, as a hole: an append then journals new extents only and never the
file's length. Writing zeros first would make durable appends faster still, at twice the wear of the drive.
"""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock

from kvctl.store.files import sync
from kvctl.store.segments.layout import Place
from kvctl.store.segments.linux import ZEROS, open_direct, punch

IO_BYTES = 16 << 20
IO_BUFFERS = 1000  # below IOV_MAX


class SegmentLog:
    """Segments below `directory`; the one that `tail` lies in is written, all others only read and punched.

    One thread appends; the rest may be called from any. `on_lost(segment)` hears of a failed sync before the next one
    begins: the kernel tells of a failed write-back once, so a later sync that succeeds says nothing about earlier data.
    """

    def __init__(self, directory: Path, segment_size: int, on_lost: Callable[[int], None]) -> None:
        if not directory.exists():
            directory.mkdir(mode=0o700)
            sync(directory.parent)
        self.segment_size = segment_size
        self.tail = Place(0, 0)  # set by the mount: after replay, and when appended records are known to it
        self.sequence = 1
        self.floor = 0  # the highest number given so far: none is given twice
        self.punched_bytes = 0
        self._directory = directory
        self._on_lost = on_lost
        self._fds: dict[int, int] = {}
        self._lock = Lock()
        self._syncing = Lock()
        self._dirty: set[int] = set()  # written or punched since their last sync
        self._suspect: set[int] = set()  # a sync failed: nothing more is appended

    def existing(self) -> list[int]:
        """Numbers of the segment files that are there, in order. Raises OSError: no directory is not no segments."""
        return sorted(int(path.stem) for path in Path(self._directory).iterdir() if path.suffix == ".seg")

    def fd(self, segment: int) -> int:
        """A descriptor of a segment, open until it is unlinked. Raises OSError."""
        with self._lock:
            found = self._fds.get(segment)
            if found is None:
                found = self._fds[segment] = open_direct(self._path(segment), os.O_RDWR)
            return found

    def create(self, segment: int) -> Place:
        """A new segment to append to, whose name survives a power cut; where it begins."""
        fd = open_direct(self._path(segment), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.ftruncate(fd, self.segment_size)
            os.fsync(fd)
            sync(self._directory)
        except OSError:
            os.close(fd)
            self._path(segment).unlink()
            raise
        with self._lock:
            self._fds[segment] = fd
        return Place(segment, 0)

    def room(self, size: int) -> Place:
        """Where `size` bytes can be appended: at the tail, or in a new segment behind a synced one."""
        tail = self.tail
        fits = tail.segment and (tail.offset + size <= self.segment_size or not tail.offset)
        if fits and tail.segment not in self._suspect:
            return tail
        return self.create(max([self.floor, tail.segment, *self.existing()]) + 1)

    def append(self, place: Place, views: Sequence[memoryview]) -> None:
        """Write whole records at `place`. Raises OSError; then the range may hold part of them."""
        wanted = sum(len(view) for view in views)
        written = os.pwritev(self.fd(place.segment), views, place.offset)
        with self._lock:  # behind the write: a sync that runs beside it must not take the mark away
            self._dirty.add(place.segment)
        if written != wanted:
            raise OSError(errno.ENOSPC, f"{written} of {wanted} bytes were written")

    def sync(self) -> None:
        """Return when everything appended and punched so far survives a power cut. Raises OSError."""
        with self._syncing:
            with self._lock:
                dirty, self._dirty = self._dirty, set()
            for segment in sorted(dirty):
                try:
                    os.fdatasync(self.fd(segment))
                except OSError:
                    with self._lock:
                        self._dirty |= dirty
                        self._suspect.add(segment)
                    self._on_lost(segment)
                    raise

    def punch(self, place: Place, size: int) -> None:
        """Give a range back; where the filesystem cannot, overwrite it. Durable after the next sync. Raises OSError."""
        fd = self.fd(place.segment)
        try:
            punch(fd, place.offset, size)
        except OSError as failed:
            if failed.errno != errno.EOPNOTSUPP:
                raise
            self._zero(fd, place.offset, size)
        with self._lock:
            self._dirty.add(place.segment)
            self.punched_bytes += size

    def unlink(self, segments: Iterable[int]) -> None:
        """Remove sealed segments that nobody reads or punches."""
        with self._syncing:  # a sync may be using the descriptor
            for segment in segments:
                with self._lock:
                    fd = self._fds.pop(segment, None)
                    self._dirty.discard(segment)
                if fd is not None:
                    os.close(fd)
                self._path(segment).unlink(missing_ok=True)
            sync(self._directory)

    def close(self) -> None:
        with self._lock:
            for fd in self._fds.values():
                os.close(fd)
            self._fds.clear()

    def _zero(self, fd: int, offset: int, size: int) -> None:
        plain = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            for at in range(0, size, len(ZEROS)):
                os.pwrite(plain, ZEROS[: size - at], offset + at)
            os.fdatasync(plain)
        finally:
            os.close(plain)

    def _path(self, segment: int) -> Path:
        return self._directory / f"{segment:08d}.seg"
