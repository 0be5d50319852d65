"""What a connector gets from a real kvstored, over TCP and over a unix socket."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.connector import wire
from kvctl.connector.capability import READ, Limits
from kvctl.connector.wire import GetStatus, PutStatus, Refusal, Type
from kvctl.types.chunks import Ack, Meta, Scope
from tests.store.daemon import SCOPE, Daemon, Raw, key, soon

BIG = 5 << 20  # several pieces


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("d"), quotas={"small": 4096}).start()
    yield made
    assert made.stop() == 0
    assert not made.noise


def put(raw: Raw, name: bytes, data: bytes, ack: Ack = Ack.VISIBLE) -> PutStatus:
    frame, body = raw.ask(Type.PUT, wire.pack_put(name, Meta(), ack) + data)
    assert frame.type is Type.PUT_DONE
    return PutStatus(wire.NUMBER.unpack(body)[0])


@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_a_chunk_comes_back_as_it_was_sent(daemon: Daemon, over: str):
    connection, slot = daemon.connection(getattr(daemon, over))
    name, data = key(f"round {over}"), os.urandom(BIG + 1)
    assert connection.put(slot, name, memoryview(data), Meta(), Ack.DURABLE, soon()) is PutStatus.STORED
    assert connection.put(slot, name, memoryview(b"other"), Meta(), Ack.VISIBLE, soon()) is PutStatus.EXISTS
    assert connection.has(slot, [key("nothing"), name], 0, soon()) == [False, True]
    assert connection.touch(slot, [key("nothing"), name], soon()) == 1
    assert connection.stat(slot, soon())["chunks"] >= 1
    raw = daemon.session(getattr(daemon, over))
    found = raw.get(key("nothing"), name, key("neither"), name[:31] + b"x")
    assert found[name] == (GetStatus.HIT, data)
    assert {status for status, data in found.values() if not data} == {GetStatus.MISS}
    connection.close()


def test_many_sessions_at_once_get_their_own_bytes(daemon: Daemon):
    wrong = []

    def work(number: int) -> None:
        raw = daemon.session(daemon.unix if number % 2 else daemon.tcp)
        for turn in range(10):
            name, data = key(f"own {number} {turn}"), os.urandom(100_000 + number)
            if put(raw, name, data) is not PutStatus.STORED or raw.get(name)[name] != (GetStatus.HIT, data):
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_another_scope_has_other_chunks(daemon: Daemon):
    raw = daemon.session()
    name = key("mine alone")
    assert put(raw, name, b"sealed") is PutStatus.STORED
    other = daemon.token(scope=Scope("rival", "users", SCOPE.epoch), number=b"capability two..")
    raw.ask(Type.ATTACH, other, slot=1)
    raw.send(Type.HAS, wire.pack_keys(Type.HAS, [name]), slot=1)
    assert raw.frame()[1] == b"\0"


def test_an_answer_carries_the_request_and_slot(daemon: Daemon):
    raw = daemon.session()
    raw.ask(Type.ATTACH, daemon.token(), slot=7)
    frame, _ = raw.ask(Type.STAT, slot=7)
    assert (frame.type, frame.slot, frame.request) == (Type.STATS, 7, raw.request)


def test_a_refused_put_leaves_the_session_in_step(daemon: Daemon):
    raw = daemon.session()
    raw.ask(Type.ATTACH, daemon.token(scope=Scope("small", "d", SCOPE.epoch)), slot=1)
    _, body = raw.ask(Type.PUT, wire.pack_put(key("q"), Meta(), Ack.VISIBLE) + bytes(1 << 20), slot=1)
    assert wire.NUMBER.unpack(body)[0] == PutStatus.QUOTA
    raw.ask(Type.ATTACH, daemon.token(operations=READ), slot=2)
    raw.send(Type.PUT, wire.pack_put(key("q"), Meta(), Ack.VISIBLE) + bytes(1 << 20), slot=2)
    assert raw.refusal() == (Refusal.NOT_ALLOWED, False)
    assert raw.ask(Type.STAT)[0].type is Type.STATS


def test_a_capability_is_judged_by_signer_holder_time_and_operation(daemon: Daemon):
    raw = daemon.session(attach=False)
    frame, _ = raw.ask(Type.STAT, slot=3)
    assert frame.type is Type.ERROR
    stranger = daemon.identity
    cases = {
        Refusal.BAD_CAPABILITY: [
            daemon.token(signer=stranger),
            daemon.token(holder=stranger.public),
            daemon.token()[:-1],
            bytes(200),
            b"\xff" * 64 + daemon.token()[64:],
        ],
        Refusal.EXPIRED: [daemon.token(lasts=-5)],
    }
    for refusal, tokens in cases.items():
        for token in tokens:
            raw.send(Type.ATTACH, token)
            assert raw.refusal() == (refusal, False)
            raw.send(Type.STAT)
            assert raw.refusal() == (Refusal.NOT_ATTACHED, False)


def test_a_refused_token_takes_the_old_one_out_of_its_slot(daemon: Daemon):
    raw = daemon.session()
    raw.send(Type.ATTACH, daemon.token(lasts=-5))
    assert raw.refusal() == (Refusal.EXPIRED, False)
    raw.send(Type.STAT)
    assert raw.refusal() == (Refusal.NOT_ATTACHED, False)


def test_a_capability_ends_within_a_session(daemon: Daemon):
    raw = daemon.session(attach=False)
    assert raw.ask(Type.ATTACH, daemon.token(lasts=2))[0].type is Type.ATTACHED
    end = soon()
    while raw.ask(Type.STAT)[0].type is Type.STATS:
        assert soon() - end < 10, "the capability never ended"
        threading.Event().wait(0.05)
    raw.send(Type.STAT)
    assert raw.refusal() == (Refusal.EXPIRED, False)


def test_limits_of_a_capability(daemon: Daemon):
    raw = daemon.session(attach=False)
    raw.ask(Type.ATTACH, daemon.token(limits=Limits(chunk=1000, keys=2)))
    raw.send(Type.HAS, wire.pack_keys(Type.HAS, [key("a"), key("b"), key("c")]))
    assert raw.refusal() == (Refusal.NOT_ALLOWED, False)
    raw.send(Type.PUT, wire.pack_put(key("a"), Meta(), Ack.VISIBLE) + bytes(1001))
    assert raw.refusal() == (Refusal.NOT_ALLOWED, False)
    assert put(raw, key("within"), bytes(1000)) is PutStatus.STORED


def test_time_that_is_up_is_said_for_each_chunk(daemon: Daemon):
    raw = daemon.session()
    names = [key(f"late {number}") for number in range(40)]
    for name in names:
        put(raw, name, bytes(4 << 20))
    raw.send(Type.GET, wire.pack_keys(Type.GET, names, 30))
    threading.Event().wait(0.2)  # the store waits for this peer while its time runs out
    statuses = []
    for _ in names:
        frame, body = raw.frame()
        assert frame.type is Type.CHUNK
        statuses.append(GetStatus(wire.CHUNK_HEAD.unpack(body[: wire.CHUNK_HEAD.size])[1]))
    assert statuses[0] is GetStatus.HIT
    assert statuses[-1] is GetStatus.DEADLINE
    assert statuses == sorted(statuses)
    assert raw.ask(Type.STAT)[0].type is Type.STATS


def test_a_chunk_that_cannot_be_read_is_a_miss_and_one_without_memory_busy(daemon: Daemon):
    raw = daemon.session()
    for name in ("gone", "full", "well"):
        put(raw, key(name), bytes(3 << 20))
    found = raw.get(key("gone"), key("full"), key("well"))
    assert found[key("gone")] == (GetStatus.MISS, b"")
    assert found[key("full")] == (GetStatus.BUSY, b"")
    assert found[key("well")][0] is GetStatus.HIT


def test_a_chunk_that_breaks_on_the_way_ends_the_session_and_nothing_else(daemon: Daemon):
    raw, other = daemon.session(), daemon.session()
    put(raw, key("torn"), bytes(3 << 20))
    raw.send(Type.GET, wire.pack_keys(Type.GET, [key("torn")]))
    frame = wire.unpack(raw.receive(wire.HEADER.size))
    with pytest.raises((EOFError, ConnectionError)):
        raw.receive(frame.length)
    daemon.event("chunk not read to its end", connector="gpu1")
    assert other.ask(Type.STAT)[0].type is Type.STATS


def test_a_defect_of_the_store_is_told_logged_and_survived(daemon: Daemon):
    raw = daemon.session()
    raw.send(Type.GET, wire.pack_keys(Type.GET, [key("boom")]))
    frame, body = raw.frame()
    error = wire.unpack_error(body)
    assert (frame.type, error.refusal, frame.flags) == (Type.ERROR, Refusal.INTERNAL, wire.FATAL)
    event = daemon.event("session fault")
    assert event["id"] in error.why
    assert "RuntimeError: a defect" in event["trace"]
    assert raw.closed()
    assert daemon.session().ask(Type.STAT)[0].type is Type.STATS


def test_a_writer_that_waits_for_its_disk_holds_nobody_up(daemon: Daemon):
    writer, reader = daemon.session(), daemon.session()
    writer.send(Type.PUT, wire.pack_put(key("wait"), Meta(), Ack.DURABLE) + bytes(1000))
    for _ in range(20):
        assert reader.ask(Type.STAT)[0].type is Type.STATS
    daemon.gate.touch()
    assert wire.NUMBER.unpack(writer.frame()[1])[0] == PutStatus.STORED


def test_no_token_or_key_is_in_the_log(daemon: Daemon):
    raw = daemon.session()
    secret = os.urandom(48).hex().encode()
    raw.send(Type.ATTACH, bytes(64) + secret)
    raw.refusal()
    daemon.event("request refused", reason="bad_capability")
    assert secret.decode() not in str(daemon.events)


def test_requests_chunks_and_bytes_are_counted(daemon: Daemon, tmp_path: Path):
    before = daemon.metric('kvstored_bytes_total{op="get"}')
    raw = daemon.session()
    put(raw, key("counted"), bytes(12345))
    raw.get(key("counted"), key("absent"))
    daemon.until_metric('kvstored_bytes_total{op="get"}', before + 12345)
    assert daemon.metric('kvstored_chunks_total{op="get",status="hit"}') >= 1
    assert daemon.metric('kvstored_requests_total{op="get",status="ok"}') >= 1
    assert daemon.metric('kvstored_request_seconds_count{op="get"}') >= 1
    assert daemon.metric("kvstored_sessions") >= 1
    assert daemon.metric("process_resident_memory_bytes") > 1e6
