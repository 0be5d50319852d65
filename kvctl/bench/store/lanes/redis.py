"""Redis over a plain socket: its protocol's bulk strings received in place (RESP2), without a client's own copies."""

import socket
from collections.abc import Sequence

from kvctl.bench.store.cells import Op
from kvctl.bench.store.jobs import Chunk, Setup
from kvctl.bench.store.lanes.lane import Buffers, Kept, Lane, Sealed
from kvctl.bench.store.processes import connect
from kvctl.bench.store.rawserver import receive
from kvctl.connector.seal import Sealer

END = b"\r\n"
LINE_BYTES = 256


class RedisError(Exception):
    """An answer that is not the one the command has when it did its work."""


class RedisWire:
    def __init__(self, address: str) -> None:
        self._stream = connect(address)
        self._line = memoryview(bytearray(LINE_BYTES))

    def fetch(self, chunk: Chunk, into: memoryview) -> memoryview:
        self._stream.sendall(command(b"GET", chunk.name.encode()))
        line, at, got = self._answer(into)
        if line[:1] != b"$" or line == b"$-1":
            raise RedisError(f"GET {chunk.name}: {line.decode()}")
        length = int(line[1:])
        receive(self._stream, into[got : at + length + len(END)])
        return into[at : at + length]

    def store(self, chunk: Chunk, data: memoryview) -> None:
        head = b"*3\r\n$3\r\nSET\r\n" + bulk(chunk.name.encode()) + b"$%d\r\n" % len(data)
        send(self._stream, [memoryview(head), data, memoryview(END)])
        if (line := self._answer(self._line)[0]) != b"+OK":
            raise RedisError(f"SET {chunk.name}: {line.decode()}")

    def delete(self, chunks: Sequence[Chunk]) -> None:
        if chunks:
            self._stream.sendall(command(b"DEL", *(chunk.name.encode() for chunk in chunks)))
            if not self._answer(self._line)[0].startswith(b":"):
                raise RedisError("DEL was refused")

    def _answer(self, into: memoryview) -> tuple[bytes, int, int]:
        """An answer's first line, where what follows it begins in `into`, and how much has arrived there."""
        got, end = 0, -1
        while end < 0:
            more = self._stream.recv_into(into[got:])
            if not more:
                raise RedisError("the server closed inside an answer")
            got += more
            end = bytes(into[: min(got, LINE_BYTES)]).find(END)
        return bytes(into[:end]), end + len(END), got

    def close(self) -> None:
        self._stream.close()


class RedisWay(Kept):
    def __init__(self, setup: Setup, sealer: Sealer) -> None:
        self._address = setup.address["address"]
        self._sealer = sealer

    def lane(self, memory: Buffers, op: Op, *, new: bool) -> Lane:
        return Sealed(RedisWire(self._address), self._sealer, memory)

    def clean(self, chunks: Sequence[Chunk]) -> None:
        wire = RedisWire(self._address)
        try:
            wire.delete(chunks)
        finally:
            wire.close()


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(map(bulk, words))


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def send(stream: socket.socket, parts: list[memoryview]) -> None:
    """Send all of several pieces without putting them together (sendmsg(2) may stop in the middle of any)."""
    while parts:
        sent = stream.sendmsg(parts)
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][sent:]
