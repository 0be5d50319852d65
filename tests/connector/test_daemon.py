"""The client and the pool against kvstored itself, over both kinds of socket."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.connector.capability import Operation
from kvctl.connector.client import StoreClient
from kvctl.connector.failures import StoreRefused, StoreUnavailable
from kvctl.connector.keys import Identity, KeyLease, RootKey
from kvctl.connector.placement import Node, PoolMap
from kvctl.connector.pool import Pool
from kvctl.connector.receipt import Got
from kvctl.connector.seal import OVERHEAD
from kvctl.connector.wire import PutStatus, Refusal
from kvctl.types.chunks import Ack, Meta, Scope
from tests.store.daemon import SCOPE, Daemon, key

LENGTH = 300_000


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("store")
    (folder / "mount").mkdir()
    made = Daemon(folder, module="kvctl.store.main")
    made.start()
    yield made
    made.stop()


@pytest.fixture(params=["tcp", "unix"])
def client(request: pytest.FixtureRequest, daemon: Daemon) -> Iterator[StoreClient]:
    address = daemon.tcp if request.param == "tcp" else daemon.unix
    with StoreClient(address, daemon.connector, daemon.identity.public) as made:
        yield made


def lease(daemon: Daemon, scope: Scope = SCOPE, root: bytes = b"r" * 32, **token: object) -> KeyLease:
    return KeyLease(RootKey(scope, root), daemon.token(scope=scope, **token), int(time.time()) + 3600)  # type: ignore[arg-type]


def names(request: pytest.FixtureRequest, count: int) -> list[bytes]:
    """Keys of one test alone."""
    return [key(f"{hash(request.node.name) & 0xFFFFFFFF:x}-{number}") for number in range(count)]


def plain(number: int) -> bytes:
    return bytes((number, 7, 9)) * (LENGTH // 3)


def test_durable_chunks_come_back(client: StoreClient, daemon: Daemon, request: pytest.FixtureRequest) -> None:
    some, mine = names(request, 6), lease(daemon)
    for number, name in enumerate(some[:5]):
        assert client.put(mine, name, plain(number), Meta(position=number), Ack.DURABLE) is PutStatus.STORED
    assert client.put(mine, some[0], plain(0)) is PutStatus.EXISTS
    assert client.has(mine, some, lease_ms=1000) == [True] * 5 + [False]
    wants = [(name, memoryview(bytearray(LENGTH))) for name in some]
    results = client.get_into(mine, wants)
    assert [result.status for result in results] == [Got.HIT] * 5 + [Got.MISS]
    assert [bytes(target) for _, target in wants[:5]] == [plain(number) for number in range(5)]
    assert client.touch(mine, some) == 5
    assert isinstance(client.stat(mine), dict)


def test_sealed_chunks_move(client: StoreClient, daemon: Daemon, request: pytest.FixtureRequest) -> None:
    (name,), mine = names(request, 1), lease(daemon)
    client.put(mine, name, plain(3))
    target = memoryview(bytearray(LENGTH + OVERHEAD))
    (result,) = client.get_sealed_into(mine, [(name, target)])
    assert result.length == LENGTH + OVERHEAD
    other = lease(daemon, Scope("rival", "users", bytes(16)), number=b"capability two..")
    assert client.put_sealed(other, name, target) is PutStatus.STORED


def test_another_scope_has_nothing_of_it(client: StoreClient, daemon: Daemon, request: pytest.FixtureRequest) -> None:
    (name,) = names(request, 1)
    client.put(lease(daemon), name, plain(1))
    other = lease(daemon, Scope("rival", "users", bytes(16)), number=b"capability two..")
    assert client.has(other, [name]) == [False]
    assert client.get_into(other, [(name, memoryview(bytearray(LENGTH)))])[0].status is Got.MISS


def test_what_the_capability_does_not_name_is_refused(client: StoreClient, daemon: Daemon) -> None:
    reader = lease(daemon, operations=frozenset({Operation.HAS, Operation.GET}), number=b"capability 3....")
    with pytest.raises(StoreRefused) as refused:
        client.put(reader, key("none"), plain(1))
    assert refused.value.refusal is Refusal.NOT_ALLOWED
    assert client.has(reader, [key("none")]) == [False]


def test_a_capability_of_another_connector_is_refused(client: StoreClient, daemon: Daemon) -> None:
    with pytest.raises(StoreRefused) as refused:
        client.has(lease(daemon, holder=Identity.generate().public), [key("none")])
    assert refused.value.refusal is Refusal.BAD_CAPABILITY


def test_a_renewed_capability_takes_over(client: StoreClient, daemon: Daemon) -> None:
    short = lease(daemon, lasts=-1, number=b"capability 4....")
    with pytest.raises(StoreRefused) as refused:
        client.has(short, [key("none")])
    assert refused.value.refusal in (Refusal.EXPIRED, Refusal.BAD_CAPABILITY)
    for number in (b"capability 5....", b"capability 6...."):
        assert client.has(lease(daemon, number=number), [key("none")]) == [False]
    assert client.counters.snapshot()["connects"] == 1


def test_a_stranger_is_not_let_in(daemon: Daemon) -> None:
    with StoreClient(daemon.tcp, Identity.generate(), daemon.identity.public) as stranger:
        with pytest.raises(StoreRefused) as refused:
            stranger.has(lease(daemon), [key("none")])
        assert refused.value.refusal in (Refusal.UNKNOWN_CONNECTOR, Refusal.BAD_PROOF)


def test_a_large_batch_over_several_connections(daemon: Daemon, request: pytest.FixtureRequest) -> None:
    length, some, mine = 2 << 20, names(request, 12), lease(daemon)
    with StoreClient(daemon.tcp, daemon.connector, daemon.identity.public) as client:
        for number, name in enumerate(some):
            client.put(mine, name, [bytes((number,)) * (length // 2)] * 2)
        wants = [(name, memoryview(bytearray(length))) for name in some]
        assert all(result.hit for result in client.get_into(mine, wants))
        assert [target[0] for _, target in wants] == [target[-1] for _, target in wants] == list(range(12))


def test_a_restarted_daemon_is_found_again_with_its_chunks(tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    daemon = Daemon(tmp_path, module="kvctl.store.main")
    daemon.start()
    try:
        with StoreClient(daemon.unix, daemon.connector, daemon.identity.public) as client:
            client.put(lease(daemon), key("kept"), plain(5), ack=Ack.DURABLE)
            daemon.stop()
            with pytest.raises(StoreUnavailable):
                client.has(lease(daemon), [key("kept")])
            daemon.events.clear()
            daemon.start()
            assert client.has(lease(daemon), [key("kept")]) == [True]
            target = memoryview(bytearray(LENGTH))
            assert client.get_into(lease(daemon), [(key("kept"), target)])[0].hit
            assert target == plain(5)
    finally:
        daemon.stop()


def test_a_pool_of_one(daemon: Daemon, request: pytest.FixtureRequest) -> None:
    chain, mine = names(request, 20), lease(daemon)
    pool_map = PoolMap(1, (Node("storage1", (daemon.tcp, daemon.unix), daemon.identity.public.hex()),))
    with Pool(pool_map, daemon.connector) as pool:
        items = [(position, plain(position), Meta(position=position)) for position in range(18)]
        assert [result.there for result in pool.put(mine, chain, items)] == [1] * 18
        assert pool.has(mine, chain) == [True] * 18 + [False] * 2
        wants = [(position, memoryview(bytearray(LENGTH))) for position in range(18)]
        assert all(result.hit for result in pool.get_into(mine, chain, wants))
        assert all(target == plain(position) for position, target in wants)
