"""Lanes against peers that send what they like in pieces, and a store that gives back other bytes."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kvctl.bench.store.jobs import Chunk, chunk
from kvctl.bench.store.lanes.http import HttpError, HttpWire
from kvctl.bench.store.lanes.lane import HEADROOM, Sealed, Wire, buffers, cut, touched
from kvctl.bench.store.lanes.redis import RedisError, RedisWire
from kvctl.connector.seal import OVERHEAD, Sealer, SealError

ONE = chunk("test", 4096, 0)


@contextmanager
def peer(*pieces: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads one request and answers in these pieces, each a segment of its own; what it read."""
    heard: list[bytes] = []

    def serve() -> None:
        stream, _ = listener.accept()
        with stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            heard.append(stream.recv(1 << 16))
            for piece in pieces:
                stream.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", heard
        finally:
            thread.join()


def each(text: bytes) -> Sequence[bytes]:
    return [text[at : at + 1] for at in range(len(text))]


@pytest.mark.parametrize("pieces", [each(b"$5\r\nhello\r\n"), [b"$5\r\nhello\r\n"], [b"$5\r\nhe", b"llo\r", b"\n"]])
def test_a_bulk_string_is_received_whole_however_it_comes(pieces: Sequence[bytes]) -> None:
    with peer(*pieces) as (address, heard):
        wire = RedisWire(address)
        assert bytes(wire.fetch(ONE, memoryview(bytearray(5 + HEADROOM)))) == b"hello"
        wire.close()
    assert heard == [b"*2\r\n$3\r\nGET\r\n$64\r\n%b\r\n" % ONE.name.encode()]


@pytest.mark.parametrize("answer", [b"$-1\r\n", b"-ERR no\r\n", b""])
def test_a_key_that_redis_does_not_give_is_an_error(answer: bytes) -> None:
    with peer(answer) as (address, _):
        wire = RedisWire(address)
        with pytest.raises(RedisError):
            wire.fetch(ONE, memoryview(bytearray(HEADROOM)))
        wire.close()


def test_a_set_that_redis_refuses_is_an_error() -> None:
    with peer(b"-OOM command not allowed\r\n") as (address, heard):
        wire = RedisWire(address)
        with pytest.raises(RedisError, match="OOM"):
            wire.store(ONE, memoryview(b"hello"))
        wire.close()
    assert heard[0].endswith(b"$5\r\nhello\r\n")


ANSWER = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\nhello"


@pytest.mark.parametrize("pieces", [each(ANSWER), [ANSWER], [ANSWER[:30], ANSWER[30:-2], ANSWER[-2:]]])
def test_a_body_is_received_behind_its_header(pieces: Sequence[bytes]) -> None:
    with peer(*pieces) as (address, heard):
        wire = HttpWire(address)
        assert bytes(wire.fetch(ONE, memoryview(bytearray(5 + HEADROOM)))) == b"hello"
        wire.close()
    assert heard[0].startswith(b"GET /" + ONE.name.encode() + b" HTTP/1.1\r\n")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 20", b""])
def test_an_answer_without_the_chunk_is_an_error(answer: bytes) -> None:
    with peer(answer) as (address, _):
        wire = HttpWire(address)
        with pytest.raises(HttpError):
            wire.fetch(ONE, memoryview(bytearray(HEADROOM)))
        wire.close()


class Kept(Wire):
    """A store in memory that may change what it gives back."""

    def __init__(self) -> None:
        self.data: dict[str, bytearray] = {}

    def fetch(self, chunk: Chunk, into: memoryview) -> memoryview:
        data = self.data[chunk.name]
        into[: len(data)] = data
        return into[: len(data)]

    def store(self, chunk: Chunk, data: memoryview) -> None:
        self.data[chunk.name] = bytearray(data)

    def close(self) -> None:
        return


def test_peers_hold_sealed_bytes_that_the_client_opens() -> None:
    plain = touched(8192)
    plain[:5] = b"hello"
    memory, wire = cut(buffers(plain, 8192), 4096), Kept()
    lane = Sealed(wire, Sealer(bytes(16), bytes(32)), memory)
    lane.put(ONE)
    assert len(wire.data[ONE.name]) == 4096 + OVERHEAD
    assert b"hello" not in wire.data[ONE.name]
    lane.get(ONE)
    assert memory.target == memory.plain
    assert lane.seal_cpu is not None
    assert lane.seal_cpu > 0


def test_a_store_that_gives_other_bytes_fails_the_sample() -> None:
    memory, wire = cut(buffers(touched(4096), 4096), 4096), Kept()
    lane = Sealed(wire, Sealer(bytes(16), bytes(32)), memory)
    lane.put(ONE)
    wire.data[ONE.name][200] ^= 1
    with pytest.raises(SealError):
        lane.get(ONE)
