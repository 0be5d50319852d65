"""Mooncake's store over TCP: `get_into` and `put_from` of registered buffers, the bytes held by another process."""

import importlib
from collections.abc import Sequence
from typing import Any

from kvctl.bench.store.cells import MIB, Op
from kvctl.bench.store.jobs import Chunk, Setup
from kvctl.bench.store.lanes.lane import Buffers, Kept, Lane, Sealed
from kvctl.bench.store.lanes.streams import address
from kvctl.connector.seal import Sealer, sealed_length

LOCAL = 64 * MIB  # its own staging buffer, which registered buffers do not use


class MooncakeError(Exception):
    """A call that gave an error number."""


class MooncakeWire:
    def __init__(self, store: Any, memory: Buffers) -> None:
        self._store = store
        self._size = sealed_length(len(memory.target))
        self._pointer = address(memory.scratch)

    def fetch(self, chunk: Chunk, into: memoryview) -> memoryview:
        got = self._store.get_into(chunk.name, self._pointer, self._size)
        if got != self._size:
            raise MooncakeError(f"get_into {chunk.name}: {got}")
        return into[: self._size]

    def store(self, chunk: Chunk, data: memoryview) -> None:
        if code := self._store.put_from(chunk.name, self._pointer, len(data)):
            raise MooncakeError(f"put_from {chunk.name}: {code}")

    def close(self) -> None:
        return


class MooncakeWay(Kept):
    def __init__(self, setup: Setup, sealer: Sealer) -> None:
        self._store = opened(setup.address["host"], setup.address["master"], 0)
        self._sealer = sealer
        self._known: set[int] = set()

    def lane(self, memory: Buffers, op: Op, *, new: bool) -> Lane:
        """A lane's scratch is one registered buffer, of which smaller sizes use the beginning."""
        start = address(memory.scratch)
        if start not in self._known:
            whole = memory.scratch.obj
            if code := self._store.register_buffer(start, memoryview(whole).nbytes):
                raise MooncakeError(f"register_buffer: {code}")
            self._known.add(start)
        return Sealed(MooncakeWire(self._store, memory), self._sealer, memory)

    def clean(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            if code := self._store.remove(chunk.name, True):
                raise MooncakeError(f"remove {chunk.name}: {code}")

    def close(self) -> None:
        self._store.close()


def opened(host: str, master: str, segment: int) -> Any:
    """A connected store that gives `segment` bytes of its memory to others."""
    store: Any = importlib.import_module("mooncake.store").MooncakeDistributedStore()
    code = store.setup(host, "P2PHANDSHAKE", segment, LOCAL, "tcp", "", master)
    if code:
        raise MooncakeError(f"setup: {code}")
    return store
