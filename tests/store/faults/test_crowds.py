"""Peers that are too many, too slow or gone quiet, and a store that is: who keeps to the rules is served on."""

import random
import resource
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvctl.connector import wire
from kvctl.connector.breaker import Policy, State
from kvctl.connector.client import StoreClient
from kvctl.connector.failures import DeadlineExceeded, StoreError, StoreUnavailable
from kvctl.connector.placement import Node, PoolMap
from kvctl.connector.pool import Pool
from kvctl.connector.receipt import Got
from kvctl.connector.wire import PutStatus, Type
from kvctl.types.chunks import Ack, Meta
from tests.store.faults.ledger import Chunk, Ledger
from tests.store.faults.rig import ACME, Kvstored, await_that, content, fetch

MARGIN = 3.0  # seconds that a call may end after its deadline, on a machine that does other things


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kvstored]:
    made = Kvstored(tmp_path_factory.mktemp("d"), limits={"hello_seconds": 30, "send_seconds": 30, "frame_seconds": 5})
    made.open()
    yield made
    made.signal(signal.SIGCONT)
    assert made.stop() == 0
    assert not made.noise


@pytest.fixture(scope="module")
def ledger(daemon: Kvstored) -> Ledger:
    """Of 24 chunks of 1 MiB that are stored."""
    made = Ledger()
    with daemon.client() as client:
        for _ in range(24):
            assert made.put(client, daemon.lease(), made.new(ACME, 1 << 20, Meta()), Ack.DURABLE) is PutStatus.STORED
    return made


def served(daemon: Kvstored, ledger: Ledger, clients: int = 8) -> None:
    """So many clients at once store and fetch, and every answer is right and within the client's time."""
    chunks = list(ledger.chunks[:24])

    def serve(number: int) -> None:
        rng = random.Random(number)
        with daemon.client("unix" if number % 2 else "tcp", connections=2) as client:
            for _ in range(4):
                answers = ledger.read(client, daemon.lease(), rng.sample(chunks, 4))
                assert set(answers) == {Got.HIT}
            fresh = ledger.new(ACME, 50_000, Meta())
            assert ledger.put(client, daemon.lease(), fresh, Ack.DURABLE) is PutStatus.STORED

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(serve, range(clients)))
    assert not ledger.wrong


@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_a_client_that_stops_reading_or_reads_slowly_holds_nobody_else_up(daemon: Kvstored, ledger: Ledger, over: str):
    address = getattr(daemon, over)
    stuck, slow = daemon.session(address), daemon.session(address)
    keys = [chunk.key for chunk in ledger.chunks[:24]]
    for raw in (stuck, slow):
        raw.send(Type.GET, wire.pack_keys(Type.GET, keys))
    before = daemon.vitals().memory
    for _ in range(4):
        slow.receive(1024)
        served(daemon, ledger)
    assert daemon.vitals().memory < before + (64 << 20)
    for raw in (stuck, slow):
        raw.sock.close()
    await_that(lambda: daemon.metric("kvstored_sessions") == 0, "the sessions of peers that left are over")


def test_a_thousand_connections_that_say_nothing(daemon: Kvstored, ledger: Ledger):
    before = daemon.vitals()
    crowd: list[socket.socket] = []
    try:
        for number in range(1000):
            crowd.append(daemon.raw(daemon.unix if number % 2 else daemon.tcp))
            if number % 3 == 0:
                crowd[-1].sendall(b"kv\1")
        served(daemon, ledger)
        assert daemon.vitals().threads < before.threads + 40
        assert daemon.vitals().memory < before.memory + (64 << 20)
        assert daemon.metric("kvstored_half_open") <= 256
    finally:
        for sock in crowd:
            sock.close()
    await_that(lambda: daemon.vitals().descriptors < before.descriptors + 20, "the crowd's descriptors are back")


def test_without_descriptors_sessions_go_on_and_newcomers_come_later(daemon: Kvstored, ledger: Ledger):
    lease, chunks = daemon.lease(), ledger.chunks[:8]
    _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    waiting: list[socket.socket] = []
    with daemon.client("tcp", connections=1) as client, daemon.client("unix", connections=1, timeout=1.0) as newcomer:
        assert set(ledger.read(client, lease, chunks)) == {Got.HIT}
        try:
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (daemon.vitals().descriptors + 2, hard))
            for _ in range(20):
                waiting.append(daemon.raw())
            with pytest.raises(StoreError):
                newcomer.has(lease, [chunks[0].key])
            end = time.monotonic() + 1.5  # longer than it takes until the mounts' upkeep wants descriptors too
            while time.monotonic() < end:
                assert set(ledger.read(client, lease, chunks)) == {Got.HIT}
                fresh = ledger.new(ACME, 50_000, Meta())
                assert ledger.put(client, lease, fresh, Ack.DURABLE) is PutStatus.STORED
        finally:
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (hard, hard))
            for sock in waiting:
                sock.close()

        def comes_in() -> bool:
            try:
                return newcomer.has(lease, [chunks[0].key]) == [True]
            except StoreError:
                return False

        await_that(comes_in, "a newcomer gets in once there are descriptors")
        fresh = ledger.new(ACME, 50_000, Meta())
        assert ledger.put(client, lease, fresh, Ack.DURABLE) is PutStatus.STORED
    assert daemon.place(daemon.mounts[0])["state"] == "ok"
    assert not ledger.wrong


def test_a_stopped_store_is_left_at_the_deadline(daemon: Kvstored, ledger: Ledger):
    lease, chunk = daemon.lease(), ledger.chunks[0]
    with daemon.client("tcp", connections=1) as known, daemon.client("unix", connect_timeout=0.5) as fresh:
        assert ledger.read(known, lease, [chunk]) == [Got.HIT]
        daemon.signal(signal.SIGSTOP)
        try:
            for client in (known, fresh):
                for work in (
                    lambda client=client, until=0.0: fetch(client, lease, [(chunk.key, chunk.length)], until),
                    lambda client=client, until=0.0: client.has(lease, [chunk.key], 0, until),
                    lambda client=client, until=0.0: client.put(
                        lease, bytes(32), content(1, 4 << 20), Meta(), Ack.DURABLE, until
                    ),
                ):
                    until = time.monotonic() + 0.7
                    with pytest.raises((DeadlineExceeded, StoreUnavailable)):
                        work(until=until)
                    assert time.monotonic() < until + MARGIN
        finally:
            daemon.signal(signal.SIGCONT)
        assert ledger.read(known, lease, [chunk]) == [Got.HIT]
        assert ledger.read(fresh, lease, [chunk]) == [Got.HIT]


def test_the_breaker_opens_on_a_stopped_store_and_closes_again(daemon: Kvstored, ledger: Ledger):
    lease, chunk = daemon.lease(), ledger.chunks[0]
    pool_map = PoolMap(1, (Node("storage1", (daemon.tcp, daemon.unix), daemon.identity.public.hex()),))
    policy = Policy(failures=3, first=0.2, longest=0.5)
    with Pool(pool_map, daemon.connector, policy=policy, connect_timeout=0.2) as pool:

        def one(seconds: float) -> Got:
            target = memoryview(bytearray(chunk.length))
            (result,) = pool.get_into(lease, [chunk.key], [(0, target)], time.monotonic() + seconds)
            assert not result.hit or target == chunk.body()
            return result.status

        assert one(10) is Got.HIT
        daemon.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            while pool.stat()["storage1"]["breaker"] == State.CLOSED:
                assert one(0.2) is not Got.HIT
                assert time.monotonic() - began < 20
            answers = []
            began = time.monotonic()
            for _ in range(200):  # left alone, but for a probe now and then
                answers.append(one(0.2))
            assert Got.HIT not in answers
            assert time.monotonic() - began < 200 * 0.2 / 4, "an open breaker answers at once"
        finally:
            daemon.signal(signal.SIGCONT)
        await_that(lambda: one(5) is Got.HIT, "the store is asked again")
        assert pool.stat()["storage1"]["breaker"] == State.CLOSED


def test_a_store_that_hangs_within_a_chunk(daemon: Kvstored, ledger: Ledger):
    """Stopped while a large answer is on its way: the call ends, no target holds half a chunk, and all goes on."""
    lease, chunks = daemon.lease(), ledger.chunks[:24]
    rng = random.Random(5)
    with daemon.client("tcp", connections=2) as client, ThreadPoolExecutor(1) as thread:
        for _ in range(6):
            until = time.monotonic() + 1.0
            wanted = [(chunk.key, chunk.length) for chunk in chunks]
            coming = thread.submit(fetch_or_none, client, daemon, wanted, until)
            time.sleep(rng.uniform(0, 0.05))  # somewhere within the answer
            daemon.signal(signal.SIGSTOP)
            try:
                found = coming.result(1.0 + MARGIN)
            finally:
                daemon.signal(signal.SIGCONT)
            whole(chunks, found)
        assert set(ledger.read(client, lease, list(chunks))) == {Got.HIT}


def fetch_or_none(client: StoreClient, daemon: Kvstored, wanted: list[tuple[bytes, int]], until: float) -> list:  # type: ignore[type-arg]
    try:
        return fetch(client, daemon.lease(), wanted, until)
    except StoreError:
        return []


def whole(chunks: list[Chunk], found: list) -> None:  # type: ignore[type-arg]
    """Every target holds its chunk, or nothing."""
    for chunk, (result, data) in zip(chunks, found, strict=False):
        assert result.status is not Got.CORRUPT
        assert data == (chunk.body() if result.hit else bytes(chunk.length)), result


def test_nothing_of_these_crowds_is_left(daemon: Kvstored):
    await_that(lambda: daemon.metric("kvstored_sessions") == 0, "no session is left")
    assert daemon.metric("kvstored_half_open") == 0
    assert daemon.alive
    assert not [event for event in daemon.events if event["level"] == "error"]
