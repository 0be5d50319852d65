"""A lane is one connection's way to put and get chunks, with buffers that are made once."""

import contextlib
import mmap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvctl.bench.store.cells import Op
from kvctl.bench.store.jobs import Chunk
from kvctl.connector.seal import OVERHEAD, Sealer, open_into, seal_into

HEADROOM = 4096  # of a scratch buffer, for what a protocol puts around a chunk


class Lane(Protocol):
    """One connection. An operation that does not do its whole work raises."""

    seal_cpu: float | None  # processor seconds spent on sealing and opening so far
    batch: int  # chunks of one `get`

    def get(self, *chunks: Chunk) -> None: ...

    def put(self, chunk: Chunk) -> None: ...

    def close(self) -> None: ...


class Way(Protocol):
    """All lanes to one contestant."""

    def lane(self, memory: "Buffers", op: Op, *, new: bool) -> Lane:
        """A connection for one kind of operation. `new`: its PUTs write what `clean` removes."""

    def settle(self) -> None:
        """Return when the server has finished what it took."""

    def clean(self, chunks: Sequence[Chunk]) -> None:
        """Remove chunks that a sample wrote."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Buffers:
    """One lane's memory for chunks of one size. Nothing is allocated while a sample runs."""

    plain: memoryview  # what PUTs write; all lanes have the same
    scratch: memoryview  # room for a sealed chunk and HEADROOM
    target: memoryview  # where a GET ends


def buffers(plain: memoryview, largest: int) -> Buffers:
    """Memory of a lane for chunks of up to `largest` bytes, every page of it in use already."""
    return Buffers(plain, touched(largest + OVERHEAD + HEADROOM), touched(largest))


def cut(whole: Buffers, size: int) -> Buffers:
    """The part of a lane's memory that chunks of `size` bytes need."""
    return Buffers(whole.plain[:size], whole.scratch[: size + OVERHEAD + HEADROOM], whole.target[:size])


def touched(size: int) -> memoryview:
    """Anonymous memory, aligned to a page, that is in core; of huge pages, as kvctl's client and store take theirs."""
    mapping = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        mapping.madvise(mmap.MADV_HUGEPAGE)
    memory = memoryview(mapping)
    for at in range(0, size, mmap.PAGESIZE):
        memory[at] = 1
    return memory


class Wire(Protocol):
    """A store that knows nothing of seals."""

    def fetch(self, chunk: Chunk, into: memoryview) -> memoryview:
        """Receive a chunk; the part of `into` that holds it. `into` has HEADROOM more than the chunk."""

    def store(self, chunk: Chunk, data: memoryview) -> None: ...

    def close(self) -> None: ...


class Sealed:
    """The client seals before PUT and opens after GET, with the code that kvctl's own client uses."""

    def __init__(self, wire: Wire, sealer: Sealer, memory: Buffers) -> None:
        self.batch = 1
        self.seal_cpu: float | None = 0.0
        self._spent = 0.0
        self._wire = wire
        self._sealer = sealer
        self._memory = memory

    def get(self, *chunks: Chunk) -> None:
        (chunk,) = chunks
        sealed = self._wire.fetch(chunk, self._memory.scratch)
        begun = time.thread_time()
        open_into(self._sealer, chunk.key, sealed, self._memory.target)
        self._count(begun)

    def put(self, chunk: Chunk) -> None:
        begun = time.thread_time()
        length = seal_into(self._sealer, chunk.key, self._memory.plain, self._memory.scratch)
        self._count(begun)
        self._wire.store(chunk, self._memory.scratch[:length])

    def _count(self, begun: float) -> None:
        self._spent += time.thread_time() - begun
        self.seal_cpu = self._spent

    def close(self) -> None:
        self._wire.close()


class Kept:
    """What a way does for a server that keeps nothing, or has nothing left to do."""

    def settle(self) -> None:
        return

    def clean(self, chunks: Sequence[Chunk]) -> None:
        return

    def close(self) -> None:
        return
