"""Peers that do not keep to the protocol: refused or closed and logged; never a wrong byte, never the daemon's end."""

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvctl.connector import wire
from kvctl.connector.keys import Identity
from kvctl.connector.wire import GetStatus, PutStatus, Refusal, Type
from kvctl.types.chunks import Ack, Meta
from tests.store.daemon import Daemon, Raw, key

HEADER = wire.HEADER.size
DATA = bytes(range(256)) * 1000
FUZZ_SECONDS = float(os.environ.get("KVCTL_FUZZ_SECONDS", "4"))  # 60 for a thorough run


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    limits = {"half_open": 60, "half_open_per_peer": 50, "sessions": 40, "hello_seconds": 1, "frame_seconds": 1}
    made = Daemon(tmp_path_factory.mktemp("d"), limits).start()
    raw = made.session()
    raw.ask(Type.PUT, wire.pack_put(key("canary"), Meta(), Ack.VISIBLE) + DATA)
    raw.sock.close()
    yield made
    assert made.stop() == 0
    assert not made.noise
    assert not [event for event in made.events if event["level"] == "error"]


@pytest.fixture(autouse=True)
def unharmed(daemon: Daemon) -> Iterator[None]:
    """After every attack an honest connector gets its bytes, and nothing is left over."""
    yield
    assert daemon.alive
    for address in (daemon.tcp, daemon.unix):
        raw = daemon.session(address)
        assert raw.get(key("canary"))[key("canary")] == (GetStatus.HIT, DATA)
        raw.sock.close()
    daemon.until_metric("kvstored_sessions", 0)
    daemon.until_metric("kvstored_half_open", 0)
    daemon.until_metric('kvstored_store_events{of="reserved"}', 0)


def frame(kind: int, body: bytes = b"", *, length: int | None = None, magic: bytes = b"kv", version: int = 1) -> bytes:
    size = len(body) if length is None else length
    return struct.pack("<2sBBHHIQ", magic, version, kind, 0, 0, 1, size) + body


HELLO = frame(Type.HELLO, bytes(68))
MALFORMED = [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Refusal.MALFORMED),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50), Refusal.MALFORMED),
    (frame(Type.HELLO, bytes(68), version=2), Refusal.VERSION),
    (frame(Type.HELLO, b"\2\3\1\0" + bytes(64)), Refusal.VERSION),
    (frame(Type.HELLO, b"\1\1\7\0" + bytes(64)), Refusal.MALFORMED),
    (frame(200, bytes(68)), Refusal.MALFORMED),
    (frame(Type.HELLO, length=2**64 - 1), Refusal.TOO_LARGE),
    (frame(Type.HELLO, length=4 << 30), Refusal.TOO_LARGE),
    (frame(Type.HELLO, bytes(67)), Refusal.MALFORMED),
    (frame(Type.PROVE, bytes(64)), Refusal.MALFORMED),
    (frame(Type.GET, bytes(36)), Refusal.MALFORMED),
    (frame(Type.HELLO, b"\1\1\1\0" + bytes(64)), Refusal.UNKNOWN_CONNECTOR),
]


@pytest.mark.parametrize(("sent", "refusal"), MALFORMED)
@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_what_is_no_hello_is_refused_with_its_reason(daemon: Daemon, over: str, sent: bytes, refusal: Refusal):
    raw = Raw(daemon.raw(getattr(daemon, over)))
    raw.sock.sendall(sent)
    assert raw.refusal() == (refusal, True)
    assert raw.closed()


IN_SESSION = [
    (frame(Type.PUT, length=4 << 30), Refusal.TOO_LARGE),
    (frame(Type.PUT, length=wire.PUT_HEAD.size + wire.MAX_CHUNK + 1), Refusal.TOO_LARGE),
    (frame(Type.PUT, length=2**63), Refusal.TOO_LARGE),
    (frame(Type.GET, length=2**64 - 1), Refusal.TOO_LARGE),
    (frame(Type.PUT, bytes(wire.PUT_HEAD.size)), Refusal.MALFORMED),
    (frame(Type.PUT, wire.PUT_HEAD.pack(bytes(32), 9, 0, 0, 0, 0, 0, bytes(16), bytes(16)) + b"x"), Refusal.MALFORMED),
    (frame(Type.HAS, bytes(37)), Refusal.MALFORMED),
    (frame(Type.HELLO, bytes(68)), Refusal.MALFORMED),
    (frame(Type.CHUNK, bytes(8)), Refusal.MALFORMED),
    (frame(Type.ERROR, bytes(2)), Refusal.MALFORMED),
    (frame(Type.STAT, magic=b"xx"), Refusal.MALFORMED),
    (struct.pack("<2sBBHHIQ", b"kv", 1, Type.STAT, 2000, 0, 1, 0), Refusal.MALFORMED),
    (struct.pack("<2sBBHHIQ", b"kv", 1, Type.STAT, 0, 1, 1, 0), Refusal.MALFORMED),
]


@pytest.mark.parametrize(("sent", "refusal"), IN_SESSION)
def test_a_bad_frame_ends_its_session_with_its_reason(daemon: Daemon, sent: bytes, refusal: Refusal):
    raw = daemon.session()
    raw.sock.sendall(sent)
    assert raw.refusal() == (refusal, True)
    assert raw.closed()


def test_a_long_body_is_not_taken_into_memory(daemon: Daemon):
    before = daemon.metric("process_resident_memory_bytes")
    rows = [daemon.session() for _ in range(20)]
    for raw in rows:
        raw.sock.sendall(frame(Type.PUT, bytes(1 << 20), length=1 << 40)[: 1 << 20])
    for raw in rows:
        assert raw.refusal() == (Refusal.TOO_LARGE, True)
    assert daemon.metric("process_resident_memory_bytes") - before < 32 << 20


def test_a_replayed_proof_is_refused(daemon: Daemon):
    proof = Raw(daemon.raw()).greet(daemon)
    raw = Raw(daemon.raw())
    raw.sock.sendall(wire.pack(Type.HELLO, 68) + wire.pack_hello(daemon.connector.public, bytes(32)))
    assert raw.frame()[0].type is Type.CHALLENGE
    raw.sock.sendall(wire.pack(Type.PROVE, 64) + proof)
    assert raw.refusal() == (Refusal.BAD_PROOF, True)


def test_a_stranger_with_anothers_public_key_is_refused(daemon: Daemon):
    raw, thief = Raw(daemon.raw()), Identity.generate()
    raw.sock.sendall(wire.pack(Type.HELLO, 68) + wire.pack_hello(daemon.connector.public, bytes(32)))
    _, challenge = raw.frame()
    text = wire.proof_text(wire.HELLO_LABEL, challenge[:32], challenge[32:], daemon.connector.public, bytes(32))
    raw.sock.sendall(wire.pack(Type.PROVE, 64) + thief.sign(text))
    assert raw.refusal() == (Refusal.BAD_PROOF, True)


def test_every_challenge_is_another(daemon: Daemon):
    seen = set()
    for _ in range(10):
        raw = Raw(daemon.raw())
        raw.sock.sendall(wire.pack(Type.HELLO, 68) + wire.pack_hello(daemon.connector.public, bytes(32)))
        seen.add(raw.frame()[1][32:])
        raw.sock.close()
    assert len(seen) == 10


@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_a_connection_may_close_at_any_byte(daemon: Daemon, over: str):
    nonce = bytes(32)
    hello = wire.pack(Type.HELLO, 68) + wire.pack_hello(daemon.connector.public, nonce)
    for cut in range(0, len(hello) + 1, 7):
        sock = daemon.raw(getattr(daemon, over))
        sock.sendall(hello[:cut])
        sock.close()
    put = frame(Type.PUT, wire.pack_put(key("cut"), Meta(), Ack.VISIBLE) + bytes(5000))
    for cut in [*range(1, HEADER + wire.PUT_HEAD.size + 2, 11), len(put) - 1]:
        raw = daemon.session(getattr(daemon, over))
        raw.sock.sendall(put[:cut])
        raw.sock.close()
    raw = daemon.session(getattr(daemon, over))
    raw.send(Type.HAS, wire.pack_keys(Type.HAS, [key("cut")]))
    assert raw.frame()[1] == b"\0"


def test_a_connection_may_be_reset_while_a_chunk_is_sent(daemon: Daemon):
    for cut in (0, 1, 27, 28, 5000):
        raw = daemon.session()
        raw.send(Type.GET, wire.pack_keys(Type.GET, [key("canary")] * 50))
        raw.receive(cut)
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.sock.close()


def test_random_bytes(daemon: Daemon):
    """Before and after the proof, alone and behind something valid. The seed is printed when it fails."""
    seed = random.randrange(1 << 32)
    print("seed", seed)  # noqa: T201
    rng = random.Random(seed)
    end = time.monotonic() + FUZZ_SECONDS
    valid = [
        HELLO,
        frame(Type.STAT),
        frame(Type.HAS, bytes(36)),
        frame(Type.GET, bytes(36)),
        frame(Type.TOUCH, bytes(32)),
    ]
    while time.monotonic() < end:
        address = rng.choice([daemon.tcp, daemon.unix])
        sock = daemon.raw(address) if rng.random() < 0.5 else daemon.session(address).sock
        sent = bytearray(b"".join(rng.choices(valid, k=rng.randrange(3))) + rng.randbytes(rng.randrange(300)))
        if rng.random() < 0.5 and sent:
            sent[rng.randrange(len(sent))] ^= 1 << rng.randrange(8)
        try:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except OSError:
            pass  # refused in the middle
        sock.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.integers(0, 40),
    slot=st.integers(0, 1100),
    flags=st.sampled_from([0, 1, 65535]),
    length=st.one_of(st.integers(0, 200), st.sampled_from([2**31, 2**32, 2**64 - 1])),
    body=st.binary(max_size=200),
)
def test_any_header_is_answered_or_ends_the_session(
    daemon: Daemon, kind: int, slot: int, flags: int, length: int, body: bytes
):
    raw = daemon.session()
    raw.sock.sendall(struct.pack("<2sBBHHIQ", b"kv", 1, kind, slot, flags, 1, length) + body)
    raw.sock.shutdown(socket.SHUT_WR)
    answers = 0
    try:
        while True:
            raw.frame()
            answers += 1
    except (EOFError, ConnectionError):
        assert answers < 20
    raw.sock.close()


def test_a_slow_hello_is_cut_and_others_get_in(daemon: Daemon):
    slow = [daemon.raw() for _ in range(20)]
    began = time.monotonic()
    for sock in slow:
        sock.sendall(b"k")
    assert daemon.session().ask(Type.STAT)[0].type is Type.STATS
    refusals = [Raw(sock).refusal() for sock in slow]
    assert set(refusals) == {(Refusal.TIMEOUT, True)}
    assert time.monotonic() - began > 0.9


@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_a_frame_that_drips_is_cut(daemon: Daemon, over: str):
    raw = daemon.session(getattr(daemon, over))
    stop = threading.Event()

    def drip() -> None:
        try:
            while not stop.wait(0.05):
                raw.sock.sendall(b"k")
        except OSError:
            return  # it was cut

    raw.sock.sendall(frame(Type.PUT, wire.pack_put(key("drip"), Meta(), Ack.VISIBLE), length=5000))
    threading.Thread(target=drip, daemon=True).start()
    try:
        assert raw.refusal() == (Refusal.TIMEOUT, True)
    finally:
        stop.set()
    raw.sock.close()


def test_half_a_header_is_cut_and_an_idle_session_is_not(daemon: Daemon):
    idle, half = daemon.session(), daemon.session()
    half.sock.sendall(b"kv\1")
    assert half.refusal() == (Refusal.TIMEOUT, True)
    assert idle.ask(Type.STAT)[0].type is Type.STATS
    idle.sock.close()


@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_a_peer_that_does_not_read_is_cut(daemon: Daemon, over: str):
    raw = daemon.session(getattr(daemon, over))
    raw.ask(Type.PUT, wire.pack_put(key(f"large {over}"), Meta(), Ack.VISIBLE) + bytes(30 << 20))
    raw.send(Type.GET, wire.pack_keys(Type.GET, [key(f"large {over}")] * 8))
    daemon.until_metric("kvstored_sessions", 0)
    raw.sock.close()


def test_a_thousand_half_open_connections(daemon: Daemon):
    """One address has its own share; the oldest go first, memory and descriptors stay, and honest ones get in."""
    crowd = [daemon.raw() for _ in range(1000)]
    raw = daemon.session()
    assert raw.get(key("canary"))[key("canary")][0] is GetStatus.HIT
    assert daemon.session(daemon.unix).ask(Type.STAT)[0].type is Type.STATS
    assert daemon.metric("kvstored_half_open") <= 50
    assert daemon.metric("process_open_fds") < 150
    for sock in crowd:
        sock.close()
    raw.sock.close()
    assert daemon.metric('kvstored_refusals_total{reason="too_many"}') >= 900
    lines = [event for event in daemon.events if event.get("reason") == "too_many"]
    assert len(lines) < 100, "a flood of refusals is a flood of log lines"


def test_sessions_beyond_the_limit_are_told(daemon: Daemon):
    held = [daemon.session() for _ in range(40)]
    raw = Raw(daemon.raw())
    with pytest.raises(AssertionError):
        raw.greet(daemon)
    assert raw.closed()
    for one in held:
        assert one.ask(Type.STAT)[0].type is Type.STATS
        one.sock.close()


def test_a_body_of_another_put_is_never_served(daemon: Daemon):
    """A PUT cut in the middle leaves nothing; the next one of that name is whole."""
    raw = daemon.session()
    raw.sock.sendall(
        frame(Type.PUT, wire.pack_put(key("half"), Meta(), Ack.VISIBLE) + b"A" * 3000, length=wire.PUT_HEAD.size + 6000)
    )
    raw.sock.close()
    again = daemon.session()
    body = wire.pack_put(key("half"), Meta(), Ack.VISIBLE) + b"B" * 6000
    assert wire.NUMBER.unpack(again.ask(Type.PUT, body)[1])[0] == PutStatus.STORED
    assert again.get(key("half"))[key("half")] == (GetStatus.HIT, b"B" * 6000)
    again.sock.close()
