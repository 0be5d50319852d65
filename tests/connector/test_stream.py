"""Deadlines on raw sockets, of both kinds, against peers that are slow in every way."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from kvctl.connector.address import parse
from kvctl.connector.failures import DeadlineExceeded, StoreUnavailable
from kvctl.connector.scratch import STEP, ScratchPool
from kvctl.connector.stream import Stream, behind, dial

SOON, AT_MOST = 0.3, 3.0


@pytest.fixture(params=["tcp", "unix"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Stream, socket.socket]]:
    if request.param == "unix":
        ours, theirs = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            theirs, _ = server.accept()
    with theirs:
        stream = Stream(ours)
        yield stream, theirs
        stream.close()


def deadline() -> float:
    return time.monotonic() + SOON


def feed(peer: socket.socket, piece: int, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        peer.sendall(b"x" * piece)


def drain(peer: socket.socket, piece: int, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        peer.recv(piece)


class TestReceive:
    def test_signals_do_not_move_the_deadline(self, pair: tuple[Stream, socket.socket]) -> None:
        """They interrupt the main thread's calls, which Python begins anew."""
        stream, _ = pair
        assert threading.current_thread() is threading.main_thread()
        stop = threading.Event()

        def interrupt() -> None:
            end = time.monotonic() + 2 * AT_MOST
            while not stop.wait(SOON / 3) and time.monotonic() < end:
                os.kill(os.getpid(), signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, lambda *_: None)
        sender = threading.Thread(target=interrupt)
        sender.start()
        try:
            begun = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                stream.receive(memoryview(bytearray(10)), deadline())
            assert time.monotonic() - begun < AT_MOST
        finally:
            stop.set()
            sender.join()
            signal.signal(signal.SIGUSR1, before)

    def test_bytes_in_many_pieces_fill_the_view(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        data = bytes(range(256)) * 4000

        def send() -> None:
            for at in range(0, len(data), 70_000):
                peer.sendall(data[at : at + 70_000])

        sender = threading.Thread(target=send)
        sender.start()
        got = bytearray(len(data))
        stream.receive(memoryview(got), time.monotonic() + 20)
        sender.join()
        assert got == data

    def test_nothing_comes(self, pair: tuple[Stream, socket.socket]) -> None:
        begun = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            pair[0].receive(memoryview(bytearray(1)), deadline())
        assert time.monotonic() - begun < AT_MOST

    @pytest.mark.parametrize("piece", [1, 1000])
    def test_a_drip_does_not_extend_the_time(self, pair: tuple[Stream, socket.socket], piece: int) -> None:
        stream, peer = pair
        stop = threading.Event()
        feeder = threading.Thread(target=feed, args=(peer, piece, stop))
        feeder.start()
        begun = time.monotonic()
        try:
            with pytest.raises(DeadlineExceeded):
                stream.receive(memoryview(bytearray(1 << 20)), deadline())
            assert time.monotonic() - begun < AT_MOST
        finally:
            stop.set()
            feeder.join()

    def test_a_peer_that_ends_in_the_middle(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        peer.sendall(b"abc")
        peer.shutdown(socket.SHUT_WR)
        with pytest.raises(StoreUnavailable, match="closed"):
            stream.receive(memoryview(bytearray(4)), deadline())

    def test_a_deadline_that_is_past_takes_nothing(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        peer.sendall(b"abc")
        with pytest.raises(DeadlineExceeded):
            stream.receive(memoryview(bytearray(3)), time.monotonic() - 1)


class TestSend:
    def test_parts_arrive_in_order(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        parts = [b"a" * 20, b"", b"b" * 3_000_000, b"c"]
        got = bytearray()

        def take() -> None:
            while len(got) < 3_000_021:
                got.extend(peer.recv(1 << 20))

        taker = threading.Thread(target=take)
        taker.start()
        stream.send([memoryview(part) for part in parts], time.monotonic() + 20)
        taker.join()
        assert got == b"".join(parts)

    def test_a_peer_that_takes_nothing(self, pair: tuple[Stream, socket.socket]) -> None:
        begun = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            pair[0].send([memoryview(bytes(64 << 20))], deadline())
        assert time.monotonic() - begun < AT_MOST

    def test_a_peer_that_takes_a_little_at_a_time(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        stop = threading.Event()
        drainer = threading.Thread(target=drain, args=(peer, 40_000, stop))
        drainer.start()
        begun = time.monotonic()
        try:
            with pytest.raises(DeadlineExceeded):
                stream.send([memoryview(bytes(256 << 20))], deadline())
            assert time.monotonic() - begun < AT_MOST
        finally:
            stop.set()
            stream.close()
            drainer.join()

    def test_a_peer_that_is_gone(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        peer.close()
        with pytest.raises(StoreUnavailable):
            stream.send([memoryview(bytes(64 << 20))], time.monotonic() + 20)

    def test_what_is_left_after_some_bytes(self) -> None:
        parts = [memoryview(b"abc"), memoryview(b""), memoryview(b"de")]
        assert [bytes(part) for part in behind(parts, 2)] == [b"c", b"", b"de"]
        assert [bytes(part) for part in behind(parts, 3)] == [b"de"]
        assert behind(parts, 5) == []


class TestIdle:
    def test_open_and_silent(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        assert stream.idle
        peer.sendall(b"x")
        peer.shutdown(socket.SHUT_WR)
        assert not stream.idle

    def test_ended(self, pair: tuple[Stream, socket.socket]) -> None:
        stream, peer = pair
        peer.close()
        assert not stream.idle


class TestAddress:
    @pytest.mark.parametrize(
        ("address", "parts"),
        [
            ("tcp:10.0.0.5:7740", ("tcp", ("10.0.0.5", "7740"))),
            ("tcp:[fd00::5]:7740", ("tcp", ("fd00::5", "7740"))),
            ("unix:/run/kvctl/store.sock", ("unix", ("/run/kvctl/store.sock",))),
        ],
    )
    def test_both_kinds(self, address: str, parts: tuple[str, tuple[str, ...]]) -> None:
        assert parse(address) == parts

    @pytest.mark.parametrize(
        "address",
        ["", "tcp:", "tcp:host", "tcp:host:", "tcp::7740", "tcp:h:0", "tcp:h:70000", "tcp:h:٣", "unix:relative"],
    )
    def test_anything_else_is_refused(self, address: str) -> None:
        with pytest.raises(ValueError, match="not an address"):
            parse(address)

    def test_a_host_of_no_name(self) -> None:
        with pytest.raises(StoreUnavailable):
            dial("tcp:no-such-host.invalid:7740", time.monotonic() + 20)

    def test_a_backlog_that_is_full_does_not_hold_the_caller(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
            where = server.getsockname()
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(where)
            begun = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                dial(f"tcp:127.0.0.1:{where[1]}", begun + SOON)
            assert time.monotonic() - begun < AT_MOST
            for filler in fillers:
                filler.close()


class TestScratch:
    def test_what_is_given_back_is_used_again(self) -> None:
        pool = ScratchPool()
        one = pool.take(1000)
        assert len(one) == STEP
        pool.give(one)
        assert pool.take(STEP) is one
        assert pool.kept == 0

    def test_what_is_kept_is_bounded(self) -> None:
        pool = ScratchPool(keep=3 * STEP)
        for scratch in [pool.take(STEP) for _ in range(5)]:
            pool.give(scratch)
        assert pool.kept == 3 * STEP

    def test_lent_for_a_block(self) -> None:
        pool = ScratchPool()
        with pool.lent(STEP + 1) as view:
            assert len(view) == STEP + 1
            assert pool.kept == 0
        assert pool.kept == 2 * STEP
