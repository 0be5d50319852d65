"""What a connection makes of bytes that no store of ours would send."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.connector import wire
from kvctl.connector.connection import Connection, grant_ms
from kvctl.connector.failures import StoreError, StoreRefused, StoreUnavailable
from kvctl.connector.receipt import Got, Opening
from kvctl.connector.scratch import ScratchPool
from kvctl.connector.seal import Sealer, seal_into, sealed_length
from kvctl.connector.stream import Stream
from kvctl.connector.wire import GetStatus, Refusal, Type
from tests.connector.standin import key

SEALER = Sealer(bytes(16), b"k" * 32)
PLAIN = [bytes((number,)) * 50 for number in range(3)]


@contextmanager
def answered(answer: bytes) -> Iterator[Connection]:
    """A connection whose peer sends this, whatever it is asked, and ends."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        connection = Connection(Stream(ours))
        yield connection
        connection.close()


def soon() -> float:
    return time.monotonic() + 20


def sealed(number: int) -> bytes:
    out = bytearray(sealed_length(50))
    seal_into(SEALER, key(number), PLAIN[number], memoryview(out), nonce=bytes(24))
    return bytes(out)


def chunk(index: int, status: int, data: bytes = b"", request: int = 1) -> bytes:
    body = wire.CHUNK_HEAD.pack(index, status) + data
    return wire.pack(Type.CHUNK, len(body), request=request) + body


def error(refusal: Refusal, *, request: int, flags: int = 0) -> bytes:
    body = wire.pack_error(refusal, "why")
    return wire.pack(Type.ERROR, len(body), request=request, flags=flags) + body


WHOLE = chunk(2, GetStatus.HIT, sealed(2)) + chunk(0, GetStatus.HIT, sealed(0)) + chunk(1, GetStatus.MISS)


def fetch(connection: Connection) -> tuple[Opening, list[memoryview]]:
    targets = [memoryview(bytearray(b"\xaa" * 50)) for _ in range(3)]
    sink = Opening(SEALER, [(key(at), target) for at, target in enumerate(targets)], ScratchPool(), None)
    try:
        connection.get(0, [key(at) for at in range(3)], sink, soon())
    except StoreError:
        assert not connection.usable
    finally:
        sink.finish()
    return sink, targets


def test_the_answer_as_it_should_be() -> None:
    with answered(WHOLE) as connection:
        sink, targets = fetch(connection)
        assert [sink.results[at].status for at in range(3)] == [Got.HIT, Got.MISS, Got.HIT]
        assert (targets[0], targets[2]) == (PLAIN[0], PLAIN[2])
        assert connection.usable


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_no_changed_byte_makes_a_wrong_hit(at: int, change: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[at] ^= change
    with answered(bytes(damaged)) as connection:
        sink, targets = fetch(connection)
    for index, target in enumerate(targets):
        result = sink.results.get(index)
        if result is not None and result.hit:
            assert target == PLAIN[index]
        else:
            assert target in (bytes(50), b"\xaa" * 50)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(WHOLE) - 1))
def test_an_answer_that_is_cut_off_loses_only_what_is_missing(length: int) -> None:
    with answered(WHOLE[:length]) as connection:
        sink, targets = fetch(connection)
        assert not connection.usable
    assert all(targets[at] == PLAIN[at] for at, result in sink.results.items() if result.hit)
    assert len(sink.results) == sum(length >= end for end in (len(WHOLE) - 64 - 182 - 36, len(WHOLE) - 64))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_and_the_end(answer: bytes) -> None:
    with answered(answer) as connection:
        with pytest.raises(StoreError):
            connection.has(0, [key(0)], 0, soon())
        assert not connection.usable
        with pytest.raises(StoreUnavailable, match="closed"):
            connection.has(0, [key(0)], 0, soon())


class TestErrors:
    def test_a_refused_request_leaves_the_connection(self) -> None:
        with answered(error(Refusal.NOT_ALLOWED, request=1)) as connection:
            with pytest.raises(StoreRefused, match="not_allowed"):
                connection.touch(0, [key(0)], soon())
            assert connection.usable

    @pytest.mark.parametrize(("request_", "flags"), [(0, 0), (0, wire.FATAL), (1, wire.FATAL)])
    def test_a_fatal_one_does_not(self, request_: int, flags: int) -> None:
        with answered(error(Refusal.TIMEOUT, request=request_, flags=flags)) as connection:
            with pytest.raises(StoreRefused, match="timeout"):
                connection.touch(0, [key(0)], soon())
            assert not connection.usable

    def test_one_in_the_middle_of_a_get_keeps_what_came_before(self) -> None:
        answer = chunk(1, GetStatus.HIT, sealed(1)) + error(Refusal.REVOKED, request=1, flags=wire.FATAL)
        with answered(answer) as connection:
            sink, targets = fetch(connection)
        assert [(at, result.status) for at, result in sink.results.items()] == [(1, Got.HIT)]
        assert targets[1] == PLAIN[1]

    def test_what_a_store_said_before_it_hung_up_is_heard(self) -> None:
        ours, theirs = socket.socketpair()

        def refuse() -> None:
            theirs.recv(1000)
            theirs.sendall(error(Refusal.DRAINING, request=0, flags=wire.FATAL))
            theirs.shutdown(socket.SHUT_RDWR)

        store = threading.Thread(target=refuse)
        store.start()
        connection = Connection(Stream(ours))
        with pytest.raises(StoreRefused, match="draining"):
            connection.put(0, key(0), memoryview(bytes(32 << 20)), wire.Meta(), wire.Ack.VISIBLE, soon())
        assert not connection.usable
        store.join()
        theirs.close()

    @pytest.mark.parametrize("text", [b"[]", b"{", b"\xff\xff"])
    def test_stats_that_are_no_object(self, text: bytes) -> None:
        with answered(wire.pack(Type.STATS, len(text), request=1) + text) as connection:
            with pytest.raises(StoreUnavailable, match="STATS"):
                connection.stat(0, soon())
            assert not connection.usable

    def test_a_put_that_ends_with_no_status(self) -> None:
        with answered(wire.pack(Type.PUT_DONE, 4, request=1) + wire.NUMBER.pack(99)) as connection:
            with pytest.raises(StoreUnavailable, match="99"):
                connection.put(0, key(0), memoryview(b"x"), wire.Meta(), wire.Ack.VISIBLE, soon())
            assert not connection.usable


@pytest.mark.parametrize(("seconds", "granted"), [(10, 9950), (0.1, 90), (0.0005, 1), (1e9, 2**32 - 1)])
def test_the_store_is_given_a_little_less(seconds: float, granted: int) -> None:
    assert grant_ms(seconds) == granted
