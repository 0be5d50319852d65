"""A store under attack answers honest connectors rightly, closes the others with a reason, and does not grow."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.connector import wire
from kvctl.connector.receipt import Got
from kvctl.connector.wire import PutStatus, Refusal, Type
from kvctl.types.chunks import Ack, Meta
from tests.store.faults.hostile import Attacks
from tests.store.faults.ledger import Ledger
from tests.store.faults.rig import ACME, ZEN, Kvstored, await_that

SECONDS = float(os.environ.get("KVCTL_HOSTILE_SECONDS", "5"))  # 60 for a thorough run
SEED = int(os.environ.get("KVCTL_FAULT_SEED", "1"))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Kvstored]:
    made = Kvstored(tmp_path, ram="128MiB", limits={"frame_seconds": 2, "hello_seconds": 2})
    made.open()
    yield made
    made.end()


@pytest.fixture
def ledger(daemon: Kvstored) -> Ledger:
    """Of chunks of two tenants."""
    made = Ledger()
    with daemon.client() as client:
        for number in range(20):
            scope = ZEN if number % 2 else ACME
            chunk = made.new(scope, 150_000, Meta(position=number))
            assert made.put(client, daemon.lease(scope), chunk, Ack.DURABLE) is PutStatus.STORED
    return made


def test_honest_connectors_are_served_while_others_attack(daemon: Kvstored, ledger: Ledger):
    print(f"seed {SEED}; the long form: KVCTL_HOSTILE_SECONDS=60 pytest tests/store/faults/test_hostile_bytes.py")
    secret = [chunk.key for chunk in ledger.chunks if chunk.scope == ZEN]
    before = daemon.vitals()
    rounds = 0
    with Attacks(daemon, secret, SECONDS, SEED) as attacks:
        end = time.monotonic() + SECONDS
        with daemon.client("tcp") as tcp, daemon.client("unix") as unix:
            while time.monotonic() < end:
                client, scope = (tcp, ACME) if rounds % 2 else (unix, ZEN)
                mine = [chunk for chunk in ledger.chunks if chunk.scope == scope]
                assert set(ledger.read(client, daemon.lease(scope), mine[:10])) == {Got.HIT}
                fresh = ledger.new(scope, 30_000, Meta())
                assert ledger.put(client, daemon.lease(scope), fresh, Ack.DURABLE) is PutStatus.STORED
                rounds += 1
    print(f"{rounds} rounds of honest work beside {sum(attacks.said.values())} answers: {dict(attacks.said)}")
    assert not attacks.wrong
    assert not ledger.wrong
    for reason in ("malformed", "too_large", "bad_proof", "bad_capability", "not_attached", "foreign_miss"):
        assert attacks.said[reason], f"nothing was refused as {reason}: {attacks.said}"
    assert daemon.alive
    await_that(lambda: daemon.metric("kvstored_sessions") == 0, "every session is over")
    after = daemon.vitals()
    assert after.memory < (128 << 20) + (160 << 20)
    assert after.threads <= before.threads + 4
    assert after.descriptors <= before.descriptors + 8
    assert not [event for event in daemon.events if event["level"] == "error"]
    logged = {event.get("reason") for event in daemon.events if event["level"] == "warning"}
    logged |= {event.get("reason") for event in daemon.events}
    assert {"malformed", "too_large", "bad_proof", "bad_capability"} <= logged
    assert daemon.metric('kvstored_refusals_total{reason="internal"}') == 0
    ledger.audit(daemon, ledger.chunks)
    assert not ledger.wrong
    assert daemon.stop() == 0
    assert not daemon.noise


@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_a_frame_may_end_at_every_byte(daemon: Kvstored, ledger: Ledger, over: str):
    address = getattr(daemon, over)
    hello = wire.pack(Type.HELLO, 68) + wire.pack_hello(daemon.connector.public, bytes(32))
    for cut in range(1, len(hello)):
        sock = daemon.raw(address)
        sock.sendall(hello[:cut])
        sock.close()
    put = wire.pack_put(bytes(range(32)), Meta(), Ack.VISIBLE) + bytes(200)
    get = wire.pack_keys(Type.GET, [bytes(32)], 0)
    token = daemon.token()
    for kind, body in ((Type.PUT, put), (Type.GET, get), (Type.ATTACH, token)):
        frame = wire.pack(kind, len(body), request=1) + body
        step = 1 if over == "unix" else 7
        for cut in range(1, len(frame), step):
            raw = daemon.session(address)
            raw.sock.sendall(frame[:cut])
            raw.sock.close()
    with daemon.client(over) as client:
        assert client.has(daemon.lease(), [bytes(range(32))]) == [False], "part of a PUT became a chunk"
    ledger.audit(daemon, ledger.chunks)
    assert not ledger.wrong
    await_that(lambda: daemon.metric("kvstored_sessions") == 0, "every session is over")
    assert daemon.metric('kvstored_refusals_total{reason="internal"}') == 0


def test_a_capability_ends_within_a_session(daemon: Kvstored, ledger: Ledger):
    """What was allowed a moment ago is refused from the second of its end on, and the session lives."""
    raw = daemon.session(attach=False)
    assert raw.ask(Type.ATTACH, daemon.token(scope=ACME, lasts=1.5))[0].type is Type.ATTACHED
    mine = next(chunk for chunk in ledger.chunks if chunk.scope == ACME)

    def refused() -> bool:
        frame, body = raw.ask(Type.HAS, wire.pack_keys(Type.HAS, [mine.key]))
        return frame.type is Type.ERROR and wire.unpack_error(body).refusal is Refusal.EXPIRED

    await_that(refused, "the capability is over")
    assert raw.ask(Type.ATTACH, daemon.token(scope=ACME))[0].type is Type.ATTACHED
    assert not refused()
    raw.sock.close()
