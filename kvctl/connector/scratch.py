"""Page-aligned memory for sealed bytes, used again and again: what a chunk is received into before it is opened."""

import mmap
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

STEP = 256 << 10  # sizes are rounded up to this, so that chunks of nearly one size share buffers
KEEP = 256 << 20  # free bytes kept; what comes back beyond that is given to the system


class ScratchPool:
    """Hands out anonymous mappings. Thread-safe; callers bound what is out, `keep` (bytes) bounds what is kept."""

    def __init__(self, keep: int = KEEP) -> None:
        self._keep = keep
        self._kept = 0
        self._free: defaultdict[int, list[mmap.mmap]] = defaultdict(list)
        self._lock = Lock()

    def take(self, length: int) -> mmap.mmap:
        """A mapping of at least `length` bytes, for `give`."""
        size = rounded(length)
        with self._lock:
            if self._free[size]:
                self._kept -= size
                return self._free[size].pop()
        return self._mapped(size)

    def _mapped(self, size: int) -> mmap.mmap:
        # Private: a forked child gets its own copy, not a window into the parent's chunks.
        fresh = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without huge pages
            fresh.madvise(mmap.MADV_HUGEPAGE)
        return fresh

    def give(self, scratch: mmap.mmap) -> None:
        """Take back a mapping that nobody looks at any more."""
        with self._lock:
            if self._kept + len(scratch) <= self._keep:
                self._kept += len(scratch)
                self._free[len(scratch)].append(scratch)

    def fill(self, length: int, count: int) -> None:
        """Have `count` free mappings for `length` bytes, as far as they would be kept, with their pages in memory."""
        size = rounded(length)
        fresh: list[mmap.mmap] = []
        while len(fresh) < count - len(self._free[size]) and self._kept + (len(fresh) + 1) * size <= self._keep:
            fresh.append(self._mapped(size))
        for scratch in fresh:
            for at in range(0, size, mmap.PAGESIZE):
                scratch[at] = 0
            self.give(scratch)

    @contextmanager
    def lent(self, length: int) -> Iterator[memoryview]:
        """`length` bytes for the time of a block."""
        scratch = self.take(length)
        try:
            yield memoryview(scratch)[:length]
        finally:
            self.give(scratch)

    @property
    def kept(self) -> int:
        """Free bytes in the pool."""
        return self._kept


def rounded(length: int) -> int:
    """Bytes of a mapping for `length` bytes."""
    return max(-(-length // STEP), 1) * STEP
