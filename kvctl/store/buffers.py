"""Memory for chunks: page-aligned, recycled, and never more than was granted.

A fresh mapping costs one page fault per 4 KiB (as much as copying the bytes), so a released buffer's mapping is kept
and taken again by the next chunk of its size class. Classes are 1/8 apart: at most an eighth of a buffer is waste.
"""

import mmap
from collections import deque
from collections.abc import Callable
from threading import Condition
from time import monotonic
from typing import Self

from kvctl.store.api import ReadError

PAGE = 4096
HEAD = PAGE  # in front of every body, for a tier's record header
HUGE = 2 << 20  # from here on the kernel is asked for huge pages
STEPS = 8  # size classes between a power of two and the next

Pressure = Callable[[int], int]


class NoRoomError(ReadError):
    """There is no memory to read a chunk into now; the chunk itself is well."""


def padded(length: int) -> int:
    """`length` rounded up to whole pages."""
    return -(-length // PAGE) * PAGE


def class_size(length: int) -> int:
    """Bytes of the mapping that a buffer of `length` bytes gets: its size class, in whole pages."""
    pages = max(2, -(-length // PAGE))
    power = (pages - 1).bit_length() - 1  # 2**power < pages <= 2**(power + 1)
    step = max(1, (1 << power) // STEPS)
    return -(-pages // step) * step * PAGE


class Buffer:
    """Memory of one chunk: 4096 bytes of head, the body, padding to the next page (zeroed). Counted: see api.Buffer."""

    __slots__ = ("_holders", "_mapping", "_pool", "_view", "_wipe", "length")

    def __init__(self, pool: "BufferPool", mapping: mmap.mmap, length: int) -> None:
        self.length = length
        self._pool = pool
        self._mapping = mapping
        self._view = memoryview(mapping)[: HEAD + padded(length)]
        self._holders = 1
        self._wipe = False
        self._view[HEAD + length :] = bytes(padded(length) - length)  # no other chunk's bytes reach the medium

    @property
    def head(self) -> memoryview:
        return self._view[:HEAD]

    @property
    def body(self) -> memoryview:
        return self._view[HEAD : HEAD + self.length]

    @property
    def whole(self) -> memoryview:
        return self._view

    @property
    def size(self) -> int:
        """Bytes of memory that it takes of its pool."""
        return len(self._mapping)

    def retain(self) -> Self:
        with self._pool.changed:
            if not self._holders:
                raise ValueError("a released buffer was retained")
            self._holders += 1
        return self

    def release(self) -> None:
        """Let go; the last holder gives the memory back, zeroed when it was to be wiped."""
        with self._pool.changed:
            if not self._holders:
                raise ValueError("a buffer was released more often than retained")
            self._holders -= 1
            if self._holders:
                self._pool.changed.notify_all()  # a cache may be its only holder now, and can be pressed
                return
        view, self._view = self._view, memoryview(b"")
        if self._wipe:
            view[:] = bytes(len(view))
        self._pool.give_back(self._mapping)

    def wipe(self) -> None:
        """Zero the memory as soon as the last holder lets go: its chunk was erased."""
        self._wipe = True


class BufferPool:
    """At most `total_bytes` of memory for chunks. Raises ValueError for less than two pages."""

    def __init__(self, total_bytes: int) -> None:
        if total_bytes < 2 * PAGE:
            raise ValueError(f"a pool of {total_bytes} bytes holds no buffer")
        self.total = total_bytes
        self.changed = Condition()
        self._mapped = 0  # bytes of all mappings, free ones included
        self._free: dict[int, list[mmap.mmap]] = {}
        self._waiting: deque[object] = deque()
        self._pressure: list[Pressure] = []

    def on_pressure(self, callback: Pressure) -> None:
        """`callback(bytes)` is asked to release that much when there is no room; it says how much it did."""
        self._pressure.append(callback)

    @property
    def in_use(self) -> int:
        """Bytes that buffers hold now, free mappings apart."""
        with self.changed:
            return self._mapped - sum(size * len(free) for size, free in self._free.items())

    @property
    def mapped(self) -> int:
        """Bytes of memory taken from the system, recycled mappings included."""
        with self.changed:
            return self._mapped

    def take(self, body_length: int, timeout: float = 0.0) -> Buffer | None:
        """A buffer for `body_length` bytes, with one holder; None when there was no room within `timeout` seconds."""
        size = class_size(HEAD + body_length)
        if size > self.total:
            return None
        mapping = self._take_now(size, None) or self._press(size) or self._wait(size, timeout)
        return None if mapping is None else Buffer(self, mapping, body_length)

    def give_back(self, mapping: mmap.mmap) -> None:
        with self.changed:
            self._free.setdefault(len(mapping), []).append(mapping)
            self.changed.notify_all()

    def close(self) -> None:
        """Unmap what is free; buffers still held go when they are released and collected."""
        with self.changed:
            self._unmap(self._mapped)

    def _take_now(self, size: int, ticket: object) -> mmap.mmap | None:
        """Memory, if there is some and nobody came earlier: a large chunk is not starved by many small ones."""
        with self.changed:
            if self._waiting and self._waiting[0] is not ticket:
                return None
            if self._free.get(size):
                return self._free[size].pop()
            self._unmap(self._mapped + size - self.total)
            if self._mapped + size > self.total:
                return None
            mapping = _map(size)
            self._mapped += size
            return mapping

    def _press(self, size: int) -> mmap.mmap | None:
        """Ask the caches to let go; called without the lock, because they release buffers."""
        for callback in self._pressure:
            while callback(size):
                mapping = self._take_now(size, None)
                if mapping is not None:
                    return mapping
                if self._waiting:
                    return None
        return None

    def _wait(self, size: int, timeout: float) -> mmap.mmap | None:
        if timeout <= 0:
            return None
        end = monotonic() + timeout
        ticket = object()
        with self.changed:
            self._waiting.append(ticket)
        try:
            return self._wait_in_line(size, ticket, end)
        finally:
            with self.changed:
                self._waiting.remove(ticket)
                self.changed.notify_all()

    def _wait_in_line(self, size: int, ticket: object, end: float) -> mmap.mmap | None:
        while True:
            for callback in self._pressure:
                callback(size)
            with self.changed:
                mapping = self._take_now(size, ticket)
                left = end - monotonic()
                if mapping is not None or left <= 0:
                    return mapping
                self.changed.wait(left)

    def _unmap(self, size: int) -> None:
        """Unmap free mappings, of the largest class first, until `size` bytes are gone or none is free."""
        for other in sorted(self._free, reverse=True):
            while size > 0 and self._free[other]:
                _unmap(self._free[other].pop())
                self._mapped -= other
                size -= other


def _map(size: int) -> mmap.mmap:
    mapping = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE:
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def _unmap(mapping: mmap.mmap) -> None:
    """Give the pages back at once, even while somebody still holds a view of the dead buffer."""
    mapping.madvise(mmap.MADV_DONTNEED)
    try:
        mapping.close()
    except BufferError:
        return  # the address range goes with the last view; its pages are gone already
