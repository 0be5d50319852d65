"""Waiting for a peer always ends, and every byte arrives once and in order."""

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.connector.wire import Refusal, WireError
from kvctl.store.peer import Peer, PeerGone

Pair = tuple[Peer, socket.socket]


def tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        return server.accept()[0], far


@pytest.fixture(params=["tcp", "unix"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    near, far = tcp() if request.param == "tcp" else socket.socketpair()
    peer = Peer(near, "test", memoryview(bytearray(1000)), tick=0.05)
    yield peer, far
    peer.close()
    far.close()


def soon(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 28, 4096, 300_000, 3_000_000]), min_size=1, max_size=4), unix=st.booleans()
)
def test_parts_of_any_size_arrive_whole(sizes: list[int], unix: bool):
    near, far = socket.socketpair() if unix else tcp()
    peer = Peer(near, "test", memoryview(bytearray(10)))
    parts = [os.urandom(size) for size in sizes]
    got = bytearray()

    def read() -> None:
        while part := far.recv(65536):
            got.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    peer.send(parts, soon())
    peer.close()
    reader.join()
    far.close()
    assert got == b"".join(parts)


def test_a_silent_peer_is_no_error_and_half_a_frame_is(pair: Pair):
    peer, far = pair
    view = memoryview(bytearray(20))
    assert peer.begin(view) is None
    far.sendall(b"abc")
    assert peer.begin(view) == 3
    with pytest.raises(WireError) as caught:
        peer.fill(view[3:], soon(0.1))
    assert caught.value.refusal is Refusal.TIMEOUT


def test_an_end_between_frames_is_told_from_one_within(pair: Pair):
    peer, far = pair
    far.shutdown(socket.SHUT_WR)
    assert peer.begin(memoryview(bytearray(20))) == 0
    with pytest.raises(PeerGone):
        peer.fill(memoryview(bytearray(20)), soon())


def test_what_is_discarded_leaves_the_next_byte_in_its_place(pair: Pair):
    peer, far = pair
    threading.Thread(target=far.sendall, args=(bytes(5_000_001) + b"next",)).start()
    peer.discard(5_000_001, soon())
    view = memoryview(bytearray(4))
    peer.fill(view, soon())
    assert bytes(view) == b"next"


def test_a_peer_that_never_reads_is_given_up(pair: Pair):
    peer, _ = pair
    with pytest.raises(WireError) as caught:
        peer.send([bytes(64 << 20)], soon(0.1))
    assert caught.value.refusal is Refusal.TIMEOUT


def test_one_that_reads_in_drips_is_given_up_too(pair: Pair):
    peer, far = pair
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.01):
            far.recv(50_000)

    reader = threading.Thread(target=drip)
    reader.start()
    with pytest.raises(WireError):
        peer.send([bytes(64 << 20)] * 4, soon(0.5))
    peer.end()
    stop.set()
    reader.join()


def test_breaking_it_wakes_whoever_waits(pair: Pair):
    peer, far = pair
    threading.Timer(0.1, peer.end).start()
    with pytest.raises(PeerGone):
        peer.fill(memoryview(bytearray(5)), soon())
    assert far.recv(1) == b""


def test_last_words_reach_a_peer_that_is_still_sending(pair: Pair):
    peer, far = pair
    far.sendall(bytes(100_000))
    peer.close(b"why")
    got = b""
    while part := far.recv(100):
        got += part
    assert got == b"why"


def test_last_words_to_a_peer_that_never_stops_end(pair: Pair):
    peer, far = pair
    far.setblocking(False)
    began = time.monotonic()
    peer.close(b"why")
    assert time.monotonic() - began < 3
