"""What became of each chunk of a GET, and the two ways to take one in: as it is, or opened."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from mmap import mmap
from typing import Any, TypeVar

from kvctl.connector.scratch import ScratchPool
from kvctl.connector.seal import Sealer, SealError, open_into
from kvctl.connector.threads import handed_over
from kvctl.connector.wire import GetStatus

OPENING = 2  # chunks of one connection that wait to be opened, at most: each holds scratch
T = TypeVar("T")


class Got(StrEnum):
    HIT = "hit"  # the target holds the chunk
    MISS = "miss"  # the store does not have it
    CORRUPT = "corrupt"  # what came is not this chunk; the target holds zeros
    DEADLINE = "deadline"  # time was up before its turn: the store's word
    LATE = "late"  # it did not come by the deadline
    BUSY = "busy"  # the store had no room to read it now
    LOST = "lost"  # the store, or the connection to it, was gone before its turn


ANSWERS = {GetStatus.MISS: Got.MISS, GetStatus.DEADLINE: Got.DEADLINE, GetStatus.BUSY: Got.BUSY}


@dataclass(frozen=True, slots=True)
class GetResult:
    """`length`: bytes in the target, of a hit; else 0. `sealed`: bytes that came over the wire for it."""

    status: Got
    length: int = 0
    sealed: int = 0

    @property
    def hit(self) -> bool:
        return self.status is Got.HIT


class Opening:
    """Receives into scratch and opens into the targets (the Sink of a Connection).

    With an executor a large chunk is opened by another thread while the next one is received; `finish` waits for all.
    """

    def __init__(
        self,
        sealer: Sealer,
        wants: Sequence[tuple[bytes, memoryview]],
        scratch: ScratchPool,
        executor: Executor | None,
    ) -> None:
        self._sealer = sealer
        self._wants = wants
        self.first = 0  # where in `wants` the GET under way begins
        self._scratch = scratch
        self._executor = executor
        self._current: mmap | None = None
        self._opening: list[Future[None]] = []
        self.results: dict[int, GetResult] = {}

    def room(self, index: int, length: int) -> memoryview:
        self._current = self._scratch.take(length)
        return memoryview(self._current)[:length]

    def filled(self, index: int, sealed: memoryview) -> None:
        scratch, self._current = self._current, None
        assert scratch is not None
        index += self.first
        if self._executor is None:
            self._open(index, sealed, scratch)
        else:
            if len(self._opening) >= OPENING:
                self._opening.pop(0).result()
            self._opening.append(started(self._executor, self._open, index, sealed, scratch))

    def absent(self, index: int, status: GetStatus) -> None:
        self.results[self.first + index] = GetResult(ANSWERS[status])

    def finish(self) -> None:
        """Return when no thread writes to a target any more."""
        if self._current is not None:  # the connection ended within this chunk
            self._scratch.give(self._current)
            self._current = None
        if self._opening:
            wait(self._opening)
        for opening in self._opening:
            opening.result()

    def _open(self, index: int, sealed: memoryview, scratch: mmap) -> None:
        key, target = self._wants[index]
        try:
            length = open_into(self._sealer, key, sealed, target)
            self.results[index] = GetResult(Got.HIT, length, sealed.nbytes)
        except SealError:
            self.results[index] = GetResult(Got.CORRUPT, 0, sealed.nbytes)
        finally:
            self._scratch.give(scratch)


class Taking:
    """Receives sealed bytes straight into the targets, unopened (the Sink of a Connection)."""

    def __init__(self, wants: Sequence[tuple[bytes, memoryview]], scratch: ScratchPool) -> None:
        self._wants = wants
        self.first = 0  # where in `wants` the GET under way begins
        self._scratch = scratch
        self._current: mmap | None = None
        self.results: dict[int, GetResult] = {}

    def room(self, index: int, length: int) -> memoryview:
        target = self._wants[self.first + index][1]
        if length <= target.nbytes:
            return target.cast("B")[:length]
        self._current = self._scratch.take(length)  # it does not fit: take it off the stream all the same
        return memoryview(self._current)[:length]

    def filled(self, index: int, sealed: memoryview) -> None:
        fits = self._current is None
        status, length = (Got.HIT, sealed.nbytes) if fits else (Got.CORRUPT, 0)
        self.results[self.first + index] = GetResult(status, length, sealed.nbytes)
        self.finish()

    def absent(self, index: int, status: GetStatus) -> None:
        self.results[self.first + index] = GetResult(ANSWERS[status])

    def finish(self) -> None:
        if self._current is not None:
            self._scratch.give(self._current)
            self._current = None


def started(executor: Executor, work: Callable[..., T], *with_: Any) -> "Future[T]":
    """Work begun by another thread; done by this one when there is none, so that it still ends whole."""
    begun = handed_over(executor, partial(work, *with_))
    if begun is not None:
        return begun
    done: Future[T] = Future()
    done.set_result(work(*with_))
    return done
