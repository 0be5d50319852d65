"""A chunk on its way from the bucket into a buffer of the pool.

One GET, streamed: while the caller sends the first pieces, a worker copies the next ones in. The last piece is held
back until the checksum fits, so that a wrong object never arrives whole.
"""

from collections.abc import Callable, Iterator
from threading import Condition
from time import monotonic
from typing import TYPE_CHECKING

import xxhash

from kvctl.store.api import Buffer, ReadError
from kvctl.store.buffers import NoRoomError

if TYPE_CHECKING:
    from obstore import GetResult

PIECE = 2 << 20

Take = Callable[[float], Buffer | None]
Fetch = Callable[["ObjectReading"], None]


class WrongObjectError(ReadError):
    """An object with another length or other bytes than were written."""


def stream_into(result: "GetResult", target: memoryview, checksum: bytes, arrived: Callable[[int], None]) -> None:
    """Copy an object's body into `target`, telling how many bytes are there; raises WrongObjectError."""
    if result.meta["size"] != len(target):
        raise WrongObjectError(f"it has {result.meta['size']} bytes, {len(target)} were written")
    digest, at = xxhash.xxh3_128(), 0
    for part in result.stream(PIECE):
        end = at + len(part)
        if end > len(target):
            raise WrongObjectError("more bytes came than the object has")
        target[at:end] = part
        digest.update(target[at:end])
        at = end
        if at < len(target):
            arrived(at)
    if at != len(target):
        raise WrongObjectError(f"{at} of {len(target)} bytes came")
    if digest.digest() != checksum:
        raise WrongObjectError("other bytes than were written")
    arrived(at)


class ObjectReading:
    """See api.Reading. `fetch` hands the work to a thread that calls `arrived` and, when it ends, `ended`.

    With memory at hand it starts at once; else with the first `pieces()`, which waits for memory.
    """

    def __init__(self, length: int, tier: str, seconds: float, take: Take, fetch: Fetch) -> None:
        self.length = length
        self.tier = tier
        self._seconds = seconds
        self._take = take
        self._fetch = fetch
        self._changed = Condition()
        self._there = 0
        self._error: Exception | None = None
        self._closed = False
        self._buffer = take(0.0)
        if self._buffer is not None:
            fetch(self)

    def target(self) -> Buffer:
        """The buffer to fill, held once more for the one who fills it."""
        with self._changed:
            if self._buffer is None:
                raise ReadError("the reading is closed")
            return self._buffer.retain()

    def arrived(self, there: int) -> None:
        """Raises ReadError when nobody waits any more: the rest need not be fetched."""
        with self._changed:
            if self._closed:
                raise ReadError("the reading is closed")
            self._there = there
            self._changed.notify_all()

    def ended(self, error: Exception | None) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def pieces(self) -> Iterator[memoryview]:
        """Raises ReadError, with the first piece already when the object is missing or has another length."""
        deadline = monotonic() + self._seconds
        buffer = self._begun(deadline)
        at = 0
        while at < self.length:
            there = self._wait(at, deadline)
            yield buffer.body[at:there]
            at = there

    def _begun(self, deadline: float) -> Buffer:
        if self._closed:
            raise ValueError("the reading is closed")
        if self._buffer is None:
            self._buffer = self._take(deadline - monotonic())
            if self._buffer is None:
                raise NoRoomError("no memory to read it into")
            self._fetch(self)
        return self._buffer

    def _wait(self, at: int, deadline: float) -> int:
        """How many bytes are there, once it is more than `at`."""
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._there > at or self._error, max(0.0, deadline - monotonic()))
            if self._there > at:
                return self._there
            if not in_time:
                raise ReadError(f"no bytes from the object store within {self._seconds:g} s")
            if isinstance(self._error, ReadError):
                raise self._error
            raise ReadError(f"{type(self._error).__name__}: {self._error}") from self._error

    def close(self) -> None:
        with self._changed:
            self._closed = True
            buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.release()
