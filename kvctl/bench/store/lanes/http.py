"""nginx over a plain socket: HTTP/1.1 kept alive, bodies received in place behind their header."""

from collections.abc import Sequence

from kvctl.bench.store.cells import Op
from kvctl.bench.store.jobs import Chunk, Setup
from kvctl.bench.store.lanes.lane import Buffers, Kept, Lane, Sealed
from kvctl.bench.store.lanes.redis import send
from kvctl.bench.store.processes import connect
from kvctl.bench.store.rawserver import receive
from kvctl.connector.seal import Sealer

END = b"\r\n\r\n"
HEAD_BYTES = 2048
HOST = b" HTTP/1.1\r\nHost: bench\r\n"


class HttpError(Exception):
    """An answer that says the request was not done."""


class HttpWire:
    def __init__(self, address: str) -> None:
        self._stream = connect(address)
        self._head = memoryview(bytearray(HEAD_BYTES))

    def fetch(self, chunk: Chunk, into: memoryview) -> memoryview:
        self._stream.sendall(b"GET /" + chunk.name.encode() + HOST + b"\r\n")
        at, got, length = self._answer(into, (b"200",))
        receive(self._stream, into[got : at + length])
        return into[at : at + length]

    def store(self, chunk: Chunk, data: memoryview) -> None:
        head = b"PUT /%b%bContent-Length: %d\r\n\r\n" % (chunk.name.encode(), HOST, len(data))
        send(self._stream, [memoryview(head), data])
        self._answer(self._head, (b"201", b"204"))

    def delete(self, chunk: Chunk) -> None:
        self._stream.sendall(b"DELETE /" + chunk.name.encode() + HOST + b"\r\n")
        self._answer(self._head, (b"204",))

    def _answer(self, into: memoryview, good: tuple[bytes, ...]) -> tuple[int, int, int]:
        """Receive a header into `into`: where the body begins there, how much has arrived, the body's length."""
        got, end = 0, -1
        while end < 0:
            more = self._stream.recv_into(into[got:])
            if not more:
                raise HttpError("the server closed inside a header")
            got += more
            end = bytes(into[: min(got, HEAD_BYTES)]).find(END)
        head = bytes(into[:end])
        if head[9:12] not in good:
            raise HttpError(head.partition(b"\r\n")[0].decode(errors="replace"))
        return end + len(END), got, content_length(head)

    def close(self) -> None:
        self._stream.close()


def content_length(head: bytes) -> int:
    """Of an answer's header (RFC 9110, 8.6); 0 where there is none, as for 204."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


class HttpWay(Kept):
    def __init__(self, setup: Setup, sealer: Sealer) -> None:
        self._address = setup.address["address"]
        self._sealer = sealer

    def lane(self, memory: Buffers, op: Op, *, new: bool) -> Lane:
        return Sealed(HttpWire(self._address), self._sealer, memory)

    def clean(self, chunks: Sequence[Chunk]) -> None:
        wire = HttpWire(self._address)
        try:
            for chunk in chunks:
                wire.delete(chunk)
        finally:
            wire.close()
