"""Plain sockets and plain memory: what the machine can do at most."""

import ctypes
import socket

from kvctl.bench.store.cells import Op
from kvctl.bench.store.jobs import Chunk, Setup
from kvctl.bench.store.lanes.lane import Buffers, Kept, Lane, touched
from kvctl.bench.store.processes import connect
from kvctl.bench.store.rawserver import GET, PUT, REQUEST, receive


class Raw:
    """One connection of the plain socket pair. Nothing is sealed."""

    def __init__(self, stream: socket.socket, memory: Buffers) -> None:
        self.batch = 1
        self.seal_cpu: float | None = 0.0
        self._stream = stream
        self._memory = memory
        self._size = len(memory.target)

    def get(self, *chunks: Chunk) -> None:
        (chunk,) = chunks
        self._stream.sendall(REQUEST.pack(GET, chunk.place, self._size))
        receive(self._stream, self._memory.target)

    def put(self, chunk: Chunk) -> None:
        self._stream.sendall(REQUEST.pack(PUT, chunk.place, self._size))
        self._stream.sendall(self._memory.plain)
        if self._stream.recv(1) != b"\1":
            raise ConnectionError("the server did not take a chunk")

    def close(self) -> None:
        self._stream.close()


class RawWay(Kept):
    def __init__(self, setup: Setup) -> None:
        self._address = setup.address["address"]

    def lane(self, memory: Buffers, op: Op, *, new: bool) -> Lane:
        return Raw(connect(self._address), memory)


class Memory:
    """Copies a chunk of a set in the client's own memory, outside the interpreter's lock."""

    def __init__(self, held: memoryview, memory: Buffers) -> None:
        self.batch = 1
        self.seal_cpu: float | None = 0.0
        self._held = held
        self._size = len(memory.target)
        self._target = address(memory.target)
        self._start = address(held)

    def get(self, *chunks: Chunk) -> None:
        (chunk,) = chunks
        at = chunk.place % (len(self._held) // self._size) * self._size
        ctypes.memmove(self._target, self._start + at, self._size)

    def put(self, chunk: Chunk) -> None:
        raise NotImplementedError("memory is only read")

    def close(self) -> None:
        return


class MemoryWay(Kept):
    def __init__(self, setup: Setup) -> None:
        self._held = touched(setup.set_bytes)

    def lane(self, memory: Buffers, op: Op, *, new: bool) -> Lane:
        return Memory(self._held, memory)


def address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
