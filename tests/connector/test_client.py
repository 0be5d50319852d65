"""The client over real sockets against a store that misbehaves."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.connector import client as client_module
from kvctl.connector import wire
from kvctl.connector.client import StoreClient
from kvctl.connector.failures import DeadlineExceeded, StoreRefused, StoreUnavailable
from kvctl.connector.keys import Identity
from kvctl.connector.receipt import Got
from kvctl.connector.seal import OVERHEAD
from kvctl.connector.wire import GetStatus, PutStatus, Refusal, Type
from kvctl.types.chunks import Ack, Kind, Meta
from tests.connector.standin import StandIn, key, key_lease, running

LEASE = key_lease()
SOON = 0.4  # seconds a hung store gets
AT_MOST = 5.0  # seconds after which a call has plainly ignored its deadline of SOON


@pytest.fixture(params=["tcp", "unix"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StandIn]:
    address = "tcp:127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/s"
    with running(address) as made:
        yield made


@pytest.fixture
def client(store: StandIn) -> Iterator[StoreClient]:
    with StoreClient(store.address, Identity.generate(), store.identity.public) as made:
        yield made


def data(number: int, length: int = 5000) -> bytes:
    return bytes((number + at) % 251 for at in range(length))


def fill(client: StoreClient, count: int, length: int = 5000) -> None:
    for number in range(count):
        assert client.put(LEASE, key(number), data(number, length)) is PutStatus.STORED


def targets(count: int, length: int = 5000) -> list[tuple[bytes, memoryview]]:
    return [(key(number), memoryview(bytearray(b"\xaa" * length))) for number in range(count)]


def statuses(client: StoreClient, wants: list[tuple[bytes, memoryview]], seconds: float = 20) -> list[Got]:
    return [result.status for result in client.get_into(LEASE, wants, time.monotonic() + seconds)]


class TestRoundTrip:
    def test_what_was_put_is_what_is_got(self, client: StoreClient) -> None:
        fill(client, 5)
        wants = targets(6)
        assert statuses(client, wants) == [Got.HIT] * 5 + [Got.MISS]
        assert [bytes(target) for _, target in wants[:5]] == [data(number) for number in range(5)]
        assert client.has(LEASE, [key(4), key(5)]) == [True, False]

    def test_the_store_sees_only_sealed_bytes_and_the_meta(self, client: StoreClient, store: StandIn) -> None:
        meta = Meta(2**33, b"s" * 16, b"m" * 16, Kind.COMMON, 7, 1234)
        client.put(LEASE, key(1), b"secret" * 100, meta, Ack.DURABLE)
        sealed, kept = store.chunks[key(1)]
        assert kept == meta
        assert len(sealed) == 600 + OVERHEAD
        assert b"secret" not in sealed

    def test_pieces_are_one_chunk(self, client: StoreClient) -> None:
        client.put(LEASE, key(0), [data(0)[:10], data(0)[10:4000], data(0)[4000:]])
        wants = targets(1)
        assert statuses(client, wants) == [Got.HIT]
        assert wants[0][1] == data(0)

    def test_a_second_put_changes_nothing(self, client: StoreClient) -> None:
        fill(client, 1)
        assert client.put(LEASE, key(0), b"other") is PutStatus.EXISTS
        assert client.counters.snapshot()["puts_exists"] == 1

    def test_every_put_status_reaches_the_caller(self, client: StoreClient, store: StandIn) -> None:
        for status in PutStatus:
            store.faults.put = status
            assert client.put(LEASE, key(int(status)), b"x") is status

    def test_sealed_bytes_move_unopened(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 2)
        sealed = [store.chunks[key(number)][0] for number in range(2)]
        wants = [(key(number), memoryview(bytearray(6000))) for number in range(2)]
        results = client.get_sealed_into(LEASE, wants)
        assert [bytes(target[: result.length]) for (_, target), result in zip(wants, results, strict=True)] == sealed
        assert client.put_sealed(LEASE, key(9), sealed[0]) is PutStatus.STORED

    def test_a_sealed_chunk_that_does_not_fit_is_no_hit_and_the_next_one_is(self, client: StoreClient) -> None:
        fill(client, 2)
        wants = [(key(0), memoryview(bytearray(10))), (key(1), memoryview(bytearray(6000)))]
        assert [result.status for result in client.get_sealed_into(LEASE, wants)] == [Got.CORRUPT, Got.HIT]

    def test_touch_and_stat(self, client: StoreClient) -> None:
        fill(client, 3)
        assert client.touch(LEASE, [key(0), key(2), key(8)]) == 2
        assert client.stat(LEASE) == {"chunks": 3}

    def test_a_store_that_does_not_know_lineage_is_asked_once(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 1)
        store.faults.refuse = {Type.LINEAGE: (Refusal.MALFORMED, wire.FATAL)}
        assert [client.lineage(LEASE, b"s" * 16, [key(0)]) for _ in range(2)] == [None, None]
        assert [kind for kind, _, _ in store.requests].count(Type.LINEAGE) == 1
        assert client.has(LEASE, [key(0)]) == [True]

    def test_a_large_batch_goes_over_several_connections_and_comes_back_in_order(
        self, client: StoreClient, store: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client_module, "SHARE", 10_000)
        fill(client, 11)
        wants = targets(12)
        assert statuses(client, wants) == [Got.HIT] * 11 + [Got.MISS]
        assert [bytes(target) for _, target in wants[:11]] == [data(number) for number in range(11)]
        assert [kind for kind, _, _ in store.requests].count(Type.GET) == 4
        assert store.accepted <= 4

    @pytest.mark.parametrize("cores", [1, 8])
    def test_large_chunks_are_opened_here_or_by_other_threads(
        self, client: StoreClient, monkeypatch: pytest.MonkeyPatch, cores: int
    ) -> None:
        monkeypatch.setattr(client_module, "CORES", cores)
        length = client_module.AHEAD + 17
        for number in range(4):
            client.put(LEASE, key(number), bytes((number,)) * length)
        wants = targets(4, length)
        assert statuses(client, wants) == [Got.HIT] * 4
        assert [target[0] for _, target in wants] == [target[-1] for _, target in wants] == [0, 1, 2, 3]

    def test_more_keys_than_the_store_takes_at_once(self, client: StoreClient, store: StandIn) -> None:
        store.key_limit = 3
        fill(client, 8)
        assert statuses(client, targets(9)) == [Got.HIT] * 8 + [Got.MISS]
        assert client.has(LEASE, [key(number) for number in range(9)]) == [True] * 8 + [False]
        assert client.touch(LEASE, [key(number) for number in range(9)]) == 8
        asked = [len(body) for kind, _, body in store.requests if kind in (Type.GET, Type.HAS)]
        assert max(asked) == 4 + 3 * 32

    def test_a_chunk_larger_than_the_store_takes_is_not_sent(self, client: StoreClient, store: StandIn) -> None:
        store.chunk_limit = 1000
        with pytest.raises(ValueError, match="takes 1 to 1000"):
            client.put(LEASE, key(0), bytes(1000))
        assert client.has(LEASE, [key(0)]) == [False]

    def test_nothing_asked_is_nothing_sent(self, client: StoreClient, store: StandIn) -> None:
        assert client.get_into(LEASE, []) == []
        assert store.accepted == 0

    def test_many_threads_share_few_connections(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 8)
        wrong: list[int] = []

        def work(number: int) -> None:
            for _ in range(20):
                wants = targets(8)
                if statuses(client, wants) != [Got.HIT] * 8 or wants[number][1] != data(number):
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert store.accepted <= 4


class TestAttach:
    def test_a_token_is_attached_once_a_connection(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 3)
        assert [kind for kind, _, _ in store.requests].count(Type.ATTACH) == 1

    def test_a_renewed_token_takes_its_slot_over(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 1)
        client.has(key_lease(token=b"n" * 80), [key(0)])
        client.has(key_lease("other"), [key(0)])
        attached = [(slot, body) for kind, slot, body in store.requests if kind is Type.ATTACH]
        assert attached == [(0, b"t" * 80), (0, b"n" * 80), (1, b"t" * 80)]

    def test_more_scopes_than_slots(self, client: StoreClient, store: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wire, "MAX_SLOTS", 2)
        for tenant in ("one", "two", "one", "three", "one", "two"):
            client.has(key_lease(tenant), [key(0)])
        attached = [slot for kind, slot, _ in store.requests if kind is Type.ATTACH]
        asked = [slot for kind, slot, _ in store.requests if kind is Type.HAS]
        assert attached == [0, 1, 1, 1]
        assert asked == [0, 1, 0, 1, 0, 1]

    def test_a_refused_slot_is_attached_again(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 1)
        store.faults.refuse[Type.HAS] = (Refusal.EXPIRED, 0)
        with pytest.raises(StoreRefused) as refused:
            client.has(LEASE, [key(0)])
        assert refused.value.refusal is Refusal.EXPIRED
        store.faults.refuse.clear()
        assert client.has(LEASE, [key(0)]) == [True]
        assert [kind for kind, _, _ in store.requests].count(Type.ATTACH) == 2
        assert store.accepted == 1

    def test_a_token_that_is_refused_is_tried_anew(self, client: StoreClient, store: StandIn) -> None:
        store.faults.refuse[Type.ATTACH] = (Refusal.BAD_CAPABILITY, 0)
        with pytest.raises(StoreRefused, match="bad_capability"):
            client.has(LEASE, [key(0)])
        store.faults.refuse.clear()
        assert client.has(LEASE, [key(0)]) == [False]


class TestDamage:
    def test_any_order_is_right(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 4)
        store.faults.reverse = True
        wants = targets(4)
        assert statuses(client, wants) == [Got.HIT] * 4
        assert [bytes(target) for _, target in wants] == [data(number) for number in range(4)]

    def test_a_flipped_bit_is_corrupt_and_leaves_zeros(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 3)
        store.faults.flip = {key(1)}
        wants = targets(3)
        assert statuses(client, wants) == [Got.HIT, Got.CORRUPT, Got.HIT]
        assert wants[1][1] == bytes(5000)
        assert client.counters.snapshot()["corrupt"] == 1

    def test_another_chunk_under_this_name_is_corrupt(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 2)
        store.faults.swap = {key(0): key(1)}
        assert statuses(client, targets(2)) == [Got.CORRUPT, Got.HIT]

    def test_another_length_is_corrupt(self, client: StoreClient) -> None:
        fill(client, 1)
        assert statuses(client, targets(1, 4999)) == [Got.CORRUPT]

    def test_a_key_of_another_root_opens_nothing(self, client: StoreClient) -> None:
        fill(client, 1)
        results = client.get_into(key_lease(root=b"q" * 32), targets(1))
        assert [result.status for result in results] == [Got.CORRUPT]

    def test_every_reason_of_the_store_is_told_apart(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 4)
        store.faults.statuses = {key(0): GetStatus.BUSY, key(1): GetStatus.DEADLINE, key(2): GetStatus.MISS}
        assert statuses(client, targets(4)) == [Got.BUSY, Got.DEADLINE, Got.MISS, Got.HIT]
        numbers = client.counters.snapshot()
        assert [numbers[name] for name in ("busy", "deadline", "miss", "hits")] == [1, 1, 1, 1]
        assert numbers["read_bytes"] == 5000 + OVERHEAD

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            wire.pack(Type.BITMAP, 1, request=77) + b"\0",  # to another request
            wire.pack(Type.TOUCHED, 4, request=2) + bytes(4),  # of another type
            wire.pack(Type.BITMAP, 2, request=2) + bytes(2),  # of another length
            wire.pack(Type.BITMAP, 1, request=2) + b"\xff",  # with bits of no key
            wire.HEADER.pack(b"kv", 1, Type.BITMAP, 0, 0, 2, 2**40),
            wire.HEADER.pack(b"kv", 9, Type.BITMAP, 0, 0, 2, 1),
        ],
    )
    def test_what_is_no_answer_ends_the_connection(self, client: StoreClient, store: StandIn, answer: bytes) -> None:
        store.faults.instead[Type.HAS] = answer
        with pytest.raises(StoreUnavailable):
            client.has(LEASE, [key(0)])
        store.faults.instead.clear()
        assert client.has(LEASE, [key(0)]) == [False]
        assert store.accepted == 2

    @pytest.mark.parametrize("status", [99, GetStatus.MISS])
    def test_a_chunk_that_contradicts_itself_ends_the_connection(
        self, client: StoreClient, store: StandIn, status: int
    ) -> None:
        body = wire.CHUNK_HEAD.pack(0, status) + b"bytes"
        store.faults.instead[Type.GET] = wire.pack(Type.CHUNK, len(body), request=2) + body
        with pytest.raises(StoreUnavailable, match="protocol"):
            client.get_into(LEASE, targets(1))

    def test_a_chunk_sent_twice_ends_the_connection(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 3)
        store.faults.repeat = True
        assert statuses(client, targets(3)) == [Got.HIT, Got.LOST, Got.LOST]
        store.faults.repeat = False
        assert statuses(client, targets(3)) == [Got.HIT] * 3
        assert store.accepted == 2


class TestAway:
    def test_a_close_within_a_chunk_loses_that_chunk_and_no_other(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 3)
        store.faults.statuses = {key(0): GetStatus.MISS}
        store.faults.close_after = 2000
        wants = targets(3)
        assert statuses(client, wants) == [Got.MISS, Got.LOST, Got.LOST]
        assert wants[1][1] == b"\xaa" * 5000
        store.faults.close_after = None
        assert statuses(client, targets(3)) == [Got.MISS, Got.HIT, Got.HIT]

    def test_a_batch_of_which_nothing_came_is_an_error(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 2)
        store.faults.close_after = 2000
        with pytest.raises(StoreUnavailable):
            client.get_into(LEASE, targets(2))

    def test_a_restarted_store_is_found_again(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 2)
        store.hang_up()
        assert statuses(client, targets(2)) == [Got.HIT] * 2
        assert client.counters.snapshot()["reconnects"] == 1

    def test_nobody_there(self, tmp_path: Path) -> None:
        for address in ("tcp:127.0.0.1:1", f"unix:{tmp_path}/nothing"):
            with (
                StoreClient(address, Identity.generate(), b"k" * 32) as client,
                pytest.raises(StoreUnavailable),
            ):
                client.has(LEASE, [key(0)])

    def test_the_next_address_is_tried(self, store: StandIn, tmp_path: Path) -> None:
        addresses = (f"unix:{tmp_path}/nothing", store.address)
        with StoreClient(addresses, Identity.generate(), store.identity.public) as client:
            assert client.has(LEASE, [key(0)]) == [False]

    def test_closing_while_others_fetch_ends_their_calls_whole(
        self, store: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client_module, "SHARE", 10_000)
        monkeypatch.setattr(client_module, "AHEAD", 1)
        wrong: list[object] = []
        fetched = threading.Event()

        def work(client: StoreClient) -> None:
            while True:
                wants = targets(12)
                try:
                    results = client.get_into(LEASE, wants)
                except StoreUnavailable:
                    return
                fetched.set()
                if any(
                    result.hit and target != data(at)
                    for at, (result, (_, target)) in enumerate(zip(results, wants, strict=True))
                ):
                    wrong.append(results)

        for _ in range(5):
            client = StoreClient(store.address, Identity.generate(), store.identity.public)
            if not store.chunks:
                fill(client, 12)
            fetched.clear()
            threads = [threading.Thread(target=work, args=(client,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            assert fetched.wait(20)
            client.close()
            for thread in threads:
                thread.join(20)
            assert not any(thread.is_alive() for thread in threads)
        assert wrong == []

    def test_a_closed_client_says_so(self, client: StoreClient) -> None:
        client.has(LEASE, [key(0)])
        client.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            client.has(LEASE, [key(0)])


class TestProof:
    def test_a_store_with_another_key(self, store: StandIn) -> None:
        with (
            StoreClient(store.address, Identity.generate(), Identity.generate().public) as client,
            pytest.raises(StoreUnavailable, match="another key"),
        ):
            client.has(LEASE, [key(0)])

    def test_a_store_that_cannot_prove_its_key(self, client: StoreClient, store: StandIn) -> None:
        store.faults.wrong_proof = True
        with pytest.raises(StoreUnavailable, match="does not hold"):
            client.has(LEASE, [key(0)])
        assert store.requests == []  # no token went to it

    def test_a_connector_that_the_store_does_not_know(self, client: StoreClient, store: StandIn) -> None:
        store.connectors = set()
        with pytest.raises(StoreRefused) as refused:
            client.has(LEASE, [key(0)])
        assert refused.value.refusal is Refusal.UNKNOWN_CONNECTOR


class TestDeadlines:
    @pytest.fixture(autouse=True)
    def bounded(self) -> Iterator[None]:
        begun = time.monotonic()
        yield
        assert time.monotonic() - begun < AT_MOST

    @pytest.mark.parametrize("kind", [Type.ATTACH, Type.HAS])
    def test_a_request_that_is_never_answered(self, client: StoreClient, store: StandIn, kind: Type) -> None:
        store.faults.stall = {kind}
        with pytest.raises(DeadlineExceeded):
            client.has(LEASE, [key(0)], deadline=time.monotonic() + SOON)

    def test_a_store_that_takes_no_bytes(self, client: StoreClient, store: StandIn) -> None:
        store.faults.stall = {Type.PUT}
        with pytest.raises(DeadlineExceeded):
            client.put(LEASE, key(0), bytes(60 << 20), deadline=time.monotonic() + SOON)

    def test_one_byte_at_a_time_within_a_chunk(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 3)
        store.faults.statuses = {key(0): GetStatus.MISS}
        store.faults.drip_after = 100
        wants = targets(3)
        assert statuses(client, wants, 3 * SOON) == [Got.MISS, Got.LATE, Got.LATE]
        assert wants[1][1] == b"\xaa" * 5000
        store.faults.drip_after = None
        assert statuses(client, wants) == [Got.MISS, Got.HIT, Got.HIT]

    def test_a_batch_of_which_nothing_came_in_time(self, client: StoreClient, store: StandIn) -> None:
        fill(client, 1)
        store.faults.stall = {Type.GET}
        with pytest.raises(DeadlineExceeded):
            client.get_into(LEASE, targets(1), time.monotonic() + SOON)

    def test_a_store_that_accepts_and_is_silent(self, store: StandIn) -> None:
        store.faults.silent = True
        identity = Identity.generate()
        with StoreClient(store.address, identity, store.identity.public, connect_timeout=SOON) as client:
            with pytest.raises(StoreUnavailable, match="no session within"):
                client.has(LEASE, [key(0)])
            with pytest.raises(DeadlineExceeded):
                client.has(LEASE, [key(0)], deadline=time.monotonic() + SOON / 4)

    def test_all_connections_at_work(self, store: StandIn) -> None:
        with StoreClient(store.address, Identity.generate(), store.identity.public, connections=1) as client:
            fill(client, 1)
            store.faults.stall = {Type.GET}

            def wait_in_vain() -> None:
                with pytest.raises(DeadlineExceeded):
                    client.get_into(LEASE, targets(1), time.monotonic() + 2)

            late = threading.Thread(target=wait_in_vain)
            late.start()
            while store.requests[-1][0] is not Type.GET:
                late.join(0.01)
            with pytest.raises(DeadlineExceeded, match="at work"):
                client.has(LEASE, [key(0)], deadline=time.monotonic() + SOON)
            late.join()

    def test_a_deadline_that_is_past(self, client: StoreClient) -> None:
        with pytest.raises(DeadlineExceeded):
            client.has(LEASE, [key(0)], deadline=time.monotonic() - 1)

    def test_the_store_hears_of_a_shorter_time_than_the_caller_gives(self, client: StoreClient, store: StandIn) -> None:
        client.get_into(LEASE, targets(1), time.monotonic() + 10)
        granted, _ = wire.unpack_keys(Type.GET, store.requests[-1][2])
        assert 5000 < granted <= 9950


class TestRefusals:
    def test_a_refusal_keeps_the_connection(self, client: StoreClient, store: StandIn) -> None:
        store.faults.refuse[Type.PUT] = (Refusal.NOT_ALLOWED, 0)
        with pytest.raises(StoreRefused, match="not_allowed: as the test says"):
            client.put(LEASE, key(0), b"x" * 1000)
        store.faults.refuse.clear()
        fill(client, 1)
        assert store.accepted == 1
        assert client.counters.snapshot()["refusals"] == 1

    def test_a_fatal_refusal_ends_it(self, client: StoreClient, store: StandIn) -> None:
        store.faults.refuse[Type.HAS] = (Refusal.DRAINING, wire.FATAL)
        with pytest.raises(StoreRefused, match="draining"):
            client.has(LEASE, [key(0)])
        store.faults.refuse.clear()
        client.has(LEASE, [key(0)])
        assert store.accepted == 2


def test_a_child_after_fork_has_its_own_connections(client: StoreClient, store: StandIn) -> None:
    fill(client, 2)
    child = os.fork()
    if not child:
        good = False
        try:
            good = statuses(client, targets(2)) == [Got.HIT] * 2
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert statuses(client, targets(2)) == [Got.HIT] * 2
    assert store.accepted == 2


def test_a_target_of_the_wrong_kind_costs_no_connection(store: StandIn) -> None:
    with StoreClient(store.address, Identity.generate(), store.identity.public, connections=1) as client:
        with pytest.raises(AttributeError):
            client.get_into(LEASE, [(key(0), bytearray(10))])  # type: ignore[list-item]
        assert client.has(LEASE, [key(0)], deadline=time.monotonic() + 5) == [False]


def test_a_connection_that_hangs_while_it_is_made_ready_keeps_no_other_from_work(store: StandIn) -> None:
    """One of a store's two addresses takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = (store.address, f"tcp:127.0.0.1:{silent.getsockname()[1]}")
        with StoreClient(addresses, Identity.generate(), store.identity.public, connections=2) as client:
            warming = threading.Thread(target=client.warm, args=(LEASE,))
            warming.start()
            end = time.monotonic() + AT_MOST
            while not store.requests and time.monotonic() < end:
                time.sleep(0.005)
            assert client.has(LEASE, [key(0)], deadline=time.monotonic() + SOON) == [False]
            warming.join()
