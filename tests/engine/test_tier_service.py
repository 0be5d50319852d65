"""The tier over a real kvstored, driven as the engine's scheduler drives it: look-ups, jobs, and no call that waits."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kvctl.connector import tier_load
from kvctl.connector.handle import Handle, cache_salt, salt_digest, sign
from kvctl.connector.keys import Identity, KeyLease, RootKey, write_lease
from kvctl.connector.pool import Pool
from kvctl.connector.tier_grants import Bearer
from kvctl.connector.tier_jobs import Done
from kvctl.connector.tier_options import read_options
from kvctl.connector.tier_restore import Answer, Chunk, Shape, Spot
from kvctl.connector.tier_service import Tier
from kvctl.types.chunks import Scope
from tests.engine.proxy import Proxy
from tests.store.daemon import Daemon, soon

ROW = 8192
TOKENS = 128
CHUNKS = 12
PROMPT = CHUNKS * TOKENS + 7
ROWS = 64
ASSUMED = 100.0  # tokens a second
DEADLINE = 2.0  # seconds: what a call that waits for a hung store would take


class World:
    """A store, a gateway, a tenant, and any number of tiers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("mount", "leases"):
            (folder / name).mkdir()
        self.daemon = Daemon(folder, module="kvctl.store.main").start()
        self.daemon.connector.save(folder / "engine.key")
        self.gateway = Identity.generate()
        self.lease = self.lend("acme")
        self.adapters: Any = None
        self.tiers: list[Tier] = []

    def lend(self, tenant: str, lasts: float = 3600) -> KeyLease:
        scope = Scope(tenant, "users", os.urandom(16))
        lease = KeyLease(RootKey(scope, os.urandom(32)), self.daemon.token(scope=scope), int(time.time() + lasts))
        write_lease(self.folder / "leases" / f"{tenant}.json", lease)
        return lease

    def tier(self, fingerprint: bytes = bytes(32), **changes: Any) -> "Driver":
        node = {"name": "one", "addresses": [self.daemon.unix], "public_key": self.daemon.identity.public.hex()}
        given = {
            "identity": str(self.folder / "engine.key"),
            "leases": str(self.folder / "leases"),
            "gateways": [self.gateway.public.hex()],
            "stores": [node],
            "assumed_tokens_per_second": ASSUMED,
            "deadline_ms": 5000,  # a busy machine is not a slow store
            **changes,
        }
        made = Tier(read_options(given), Shape(fingerprint, ROW, {0: TOKENS}, {0: 1}), ROWS, self.adapters)
        made.start()
        self.tiers.append(made)
        return Driver(made, self)

    def bearer(
        self, lease: KeyLease | None = None, *, lasts: float = 600, adapter: str | None = None, **more: Any
    ) -> Bearer:
        lease = lease or self.lease
        salt = cache_salt(lease.key.salt_key, lease.scope.domain)
        scope = lease.scope
        handle = Handle(
            tenant=scope.tenant,
            domain=scope.domain,
            epoch=scope.epoch,
            salt_digest=salt_digest(salt),
            expires_at=int(time.time() + lasts),
            **more,
        )
        return Bearer(sign(handle, self.gateway), salt, adapter)


def hashes(name: str = "prompt", count: int = CHUNKS) -> list[bytes]:
    return [f"{name} {at}".encode().ljust(32, b".") for at in range(count)]


class Driver:
    """What the engine's scheduler does with a tier; `memory` is its host tier."""

    def __init__(self, tier: Tier, world: World) -> None:
        self.tier = tier
        self.world = world
        self.memory = bytearray(ROWS * ROW)
        self.jobs = 0
        self.longest = 0.0
        self.counted: dict[tuple[str, tuple[str, ...]], float] = {}

    def timed(self, call: Callable[[], Any]) -> Any:
        begun = time.monotonic()
        result = call()
        self.longest = max(self.longest, time.monotonic() - begun)
        return result

    def row(self, at: int) -> memoryview:
        return memoryview(self.memory)[at * ROW : (at + 1) * ROW]

    def announce(self, name: str, bearer: Bearer | None = None, chain: Sequence[bytes] | None = None) -> None:
        chain = hashes() if chain is None else chain
        self.timed(lambda: self.tier.announce(name, PROMPT, chain, bearer or self.world.bearer()))

    def lookup(self, name: str, at: int) -> Answer:
        end = soon()
        while time.monotonic() < end:
            answer: Answer = self.timed(lambda: self.tier.lookup(name, Spot(0, at)))
            if answer is not Answer.RETRY:
                return answer
            time.sleep(0.002)  # a step of the engine
        raise AssertionError("RETRY for ever")

    def prefix(self, name: str, count: int = CHUNKS) -> int:
        """How many leading chunks are offered."""
        for at in range(count):
            if self.lookup(name, at) is not Answer.HIT:
                return at
        return count

    def chunks(self, positions: Sequence[int]) -> list[Chunk]:
        return [Chunk(b"engine %d" % at, Spot(0, at), self.row(at)) for at in positions]

    def done(self) -> Done:
        end = soon()
        while time.monotonic() < end:
            found = self.timed(self.tier.finished)
            if found:
                (only,) = found
                assert isinstance(only, Done)
                return only
            time.sleep(0.002)
        raise AssertionError("the job does not end")

    def store(self, name: str, positions: Sequence[int] = range(CHUNKS)) -> Done:
        for at in positions:
            self.row(at)[:] = plain(at)
        self.jobs += 1
        self.timed(lambda: self.tier.store(self.jobs, name, self.chunks(positions)))
        return self.done()

    def load(self, name: str, count: int) -> Done:
        self.memory[:] = b"\xee" * len(self.memory)
        self.jobs += 1
        self.timed(lambda: self.tier.load(self.jobs, name, self.chunks(range(count))))
        return self.done()

    def finish(self, name: str) -> None:
        self.timed(lambda: self.tier.finish(name))

    def count(self, name: str, *labels: str) -> float:
        for key, number in self.tier.stats()[0].items():
            assert number >= 0  # the engine's exporter takes its API server along when a counter goes down
            self.counted[key] = self.counted.get(key, 0) + number
        return self.counted.get((f"kvctl_tier_{name}", labels), 0)

    @property
    def up(self) -> bool:
        """Whether the store is asked."""
        counted, gauges = self.tier.stats()
        for key, number in counted.items():
            self.counted[key] = self.counted.get(key, 0) + number
        return gauges["kvctl_tier_store_up", ("one",)] == 1

    def restored(self, name: str, bearer: Bearer | None = None) -> int:
        """Chunks that a request gets, checked byte by byte."""
        self.announce(name, bearer)
        offered = self.prefix(name)
        got = 0
        if offered:
            done = self.load(name, offered)
            got = len(done.keys or ())
            assert all(self.row(at) == plain(at) for at in range(got))
        self.finish(name)
        return got


def plain(at: int) -> bytes:
    return bytes((at + 1,)) * ROW


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    if made.daemon.alive:
        made.daemon.signal(signal.SIGCONT)
    for tier in made.tiers:
        tier.close()
    if made.daemon.alive:
        made.daemon.stop()


@pytest.fixture
def full(world: World) -> World:
    """With all chunks of the prompt stored by a producer."""
    producer = world.tier(role="producer")
    producer.announce("first")
    assert producer.prefix("first") == 0
    assert producer.store("first").success
    producer.finish("first")
    assert (producer.count("stored_chunks"), producer.count("misses", "role")) == (CHUNKS, 1)
    return world


def test_what_one_engine_stored_another_loads(full: World):
    reader = full.tier(role="consumer")
    assert reader.restored("second") == CHUNKS
    assert reader.count("read_bytes") == reader.count("used_bytes") == CHUNKS * ROW
    assert reader.count("restored_tokens") == CHUNKS * TOKENS
    assert reader.count("saved_seconds") > reader.count("wait_seconds") > 0


def test_a_consumer_does_not_store_and_what_is_there_is_not_sent_again(full: World):
    reader = full.tier(role="consumer")
    reader.announce("r")
    assert not reader.store("r").success
    assert reader.count("unstored_chunks", "role") == CHUNKS
    both = full.tier()
    both.announce("r")
    assert both.store("r").success
    assert (both.count("known_chunks"), both.count("stored_chunks")) == (CHUNKS, 0)


def test_only_the_whole_beginning_that_is_there_is_offered(world: World):
    both = world.tier()
    both.announce("a")
    both.store("a", [*range(5), *range(7, CHUNKS)])
    both.announce("b")
    assert both.prefix("b") == 5
    assert both.lookup("b", 8) is Answer.HIT  # for caches that need the end alone


@pytest.mark.parametrize("reason", ["no-handle", "malformed", "forged", "expired", "salt", "no-lease", "lora"])
def test_without_the_right_to_it_nothing_is_loaded_or_stored(full: World, reason: str):
    good = full.bearer()
    stranger = KeyLease(RootKey(Scope("other", "users", bytes(16)), bytes(32)), b"", 1 << 40)
    forger = Handle(
        tenant="acme",
        domain="users",
        epoch=full.lease.scope.epoch,
        salt_digest=salt_digest(good.salt or ""),
        expires_at=1 << 40,
    )
    bearers = {
        "no-handle": Bearer(None, good.salt),
        "malformed": Bearer({"tenant": "acme"}, good.salt),
        "forged": Bearer(sign(forger, Identity.generate()), good.salt),
        "expired": full.bearer(lasts=-1),
        "salt": Bearer(good.handle, "another"),
        "no-lease": full.bearer(stranger),
        "lora": Bearer(good.handle, good.salt, "/an/adapter"),
    }
    both = full.tier()
    both.announce("r", bearers[reason])
    assert both.prefix("r") == 0
    assert not both.store("r").success
    both.finish("r")
    assert both.count("misses", reason) == 1
    assert both.count("unstored_chunks", reason) == CHUNKS


def test_a_lease_that_is_over_or_taken_away_ends_reading_and_a_new_one_begins_it(full: World):
    both = full.tier()
    kept = full.lease
    path = full.folder / "leases" / "acme.json"
    write_lease(path, KeyLease(kept.key, kept.capability, int(time.time()) - 1))
    both.tier._leases.refresh()
    both.announce("over")
    assert both.prefix("over") == 0
    both.finish("over")
    assert both.count("misses", "lease-over") == 1
    path.unlink()
    both.tier._leases.refresh()
    assert both.restored("gone") == 0
    assert both.count("misses", "no-lease") == 1
    write_lease(path, kept)
    both.tier._leases.refresh()
    assert both.restored("back") == CHUNKS


def test_another_fingerprint_or_another_tenant_is_a_miss(full: World):
    assert full.tier(fingerprint=b"other weights".ljust(32)).restored("r") == 0
    other = full.lend("globex")
    both = full.tier()
    assert both.restored("theirs", full.bearer(other)) == 0
    assert both.restored("own") == CHUNKS


def test_a_site_without_a_gateway(full: World):
    single = {"gateways": [], "leases": None, "single_tenant": {"lease": str(full.folder / "leases" / "acme.json")}}
    both = full.tier(**single)
    assert both.restored("plain", Bearer(None, None)) == CHUNKS
    assert both.restored("salted", Bearer(None, full.bearer().salt)) == CHUNKS
    assert both.restored("other salt", Bearer(None, "other")) == 0


def test_chunks_that_another_engine_is_about_to_store_are_awaited(world: World):
    decode, prefill = world.tier(role="consumer"), world.tier(role="producer")
    decode.announce("r", world.bearer(await_until=time.time() + 30))
    for _ in range(50):
        assert decode.timed(lambda: decode.tier.lookup("r", Spot(0, 0))) is Answer.RETRY
        time.sleep(0.002)
    prefill.announce("r")
    assert prefill.store("r").success
    assert decode.prefix("r") == CHUNKS
    assert decode.load("r", CHUNKS).success


def test_waiting_for_another_engine_ends(full: World):
    decode = full.tier(role="consumer")
    begun = time.time()
    decode.announce("r", full.bearer(await_until=begun + 0.3), hashes("not stored"))
    assert decode.prefix("r") == 0
    assert time.time() >= begun + 0.3


def test_a_hung_store_costs_its_share_and_then_nothing(full: World):
    both = full.tier(deadline_ms=int(DEADLINE * 1000))
    assert both.restored("well") == CHUNKS
    both.tier.learning.prefilled(PROMPT, 0.4)
    full.daemon.signal(signal.SIGSTOP)
    asked = 0
    while both.up:
        assert both.restored(f"hung {asked}") == 0
        asked += 1
    assert both.restored("left alone") == 0
    assert both.longest < DEADLINE / 2
    assert both.count("misses", "late") + both.count("misses", "unreachable") == asked + 1
    assert both.count("lost_seconds") < asked * DEADLINE / 2  # its share is 0.1 s each
    full.daemon.signal(signal.SIGCONT)
    end = soon()
    while both.restored(f"again {time.monotonic()}") < CHUNKS:
        assert time.monotonic() < end
    assert both.up


def test_chunks_that_vanish_between_question_and_load_fail_for_this_request_alone(full: World):
    both = full.tier()
    both.announce("r")
    assert both.prefix("r") == CHUNKS
    full.daemon.stop()
    done = both.load("r", CHUNKS)
    assert (done.success, done.keys) == (False, ())
    assert all(both.row(at) == bytes(ROW) for at in range(CHUNKS))
    assert both.prefix("r") == 0
    both.finish("r")
    assert both.count("misses", "failed") == 1
    assert both.count("failed_chunks", "lost") == CHUNKS


@pytest.fixture
def proxied(full: World, tmp_path: Path) -> Iterator[tuple["Driver", Proxy]]:
    """A tier whose store is behind something that can spoil what comes back."""
    proxy = Proxy(tmp_path / "proxy.sock", Path(full.daemon.unix.removeprefix("unix:")))
    key = full.daemon.identity.public.hex()
    yield full.tier(stores=[{"name": "one", "addresses": [proxy.address], "public_key": key}]), proxy
    proxy.clear()
    proxy.close()


def heals(both: Driver) -> None:
    until(lambda: both.restored(f"healed {time.monotonic()}") == CHUNKS)
    assert both.up


def test_a_store_whose_chunks_are_damaged_is_left_alone_and_used_again_when_they_are_not(
    proxied: tuple[Driver, Proxy],
):
    both, proxy = proxied
    assert both.restored("well") == CHUNKS
    proxy.flips = True
    asked = 0
    while both.up:
        assert asked < 10
        assert both.restored(f"damaged {asked}") == 0
        asked += 1
    assert both.count("failed_chunks", "corrupt") > 0
    assert both.restored("left alone") == 0
    assert both.count("misses", "unreachable") == 1
    proxy.clear()
    heals(both)


def test_chunks_that_break_off_leave_what_came_before_them(proxied: tuple[Driver, Proxy]):
    both, proxy = proxied
    both.announce("r")
    assert both.prefix("r") == CHUNKS
    proxy.after(3, lambda: setattr(proxy, "flips", True))
    done = both.load("r", CHUNKS)
    assert not done.success
    got = len(done.keys or ())
    assert got < CHUNKS
    assert all(both.row(at) == plain(at) for at in range(got))
    assert all(both.row(at) in (plain(at), bytes(ROW)) for at in range(got, CHUNKS))
    both.finish("r")
    assert both.count("misses", "failed") == 1


class Holding(Proxy):
    """Answers pass, chunks only while the gate is open. A new gate holds nothing of what waits at the old one."""

    def __init__(self, path: Path, store: Path) -> None:
        super().__init__(path, store)
        self.gate = Event()
        self.held = 0  # chunks that came to a closed gate

    def _counted(self) -> None:
        gate = self.gate
        self.held += not gate.is_set()
        gate.wait()


RECOMPUTE = 4.0  # seconds of a prompt
MOST = RECOMPUTE / 5  # of them that may be waited


@pytest.fixture
def holding(full: World, tmp_path: Path) -> Iterator[tuple[Callable[..., Driver], Holding]]:
    """Makes tiers whose store answers every question and gives no chunk while the gate is closed."""
    proxy = Holding(tmp_path / "proxy.sock", Path(full.daemon.unix.removeprefix("unix:")))
    key = full.daemon.identity.public.hex()

    def tier(**changes: Any) -> Driver:
        made = full.tier(stores=[{"name": "one", "addresses": [proxy.address], "public_key": key}], **changes)
        made.tier.learning.prefilled(PROMPT, RECOMPUTE)
        return made

    gates = [proxy.gate]
    yield tier, proxy
    for gate in (*gates, proxy.gate):
        gate.set()
    proxy.close()


def found(both: Driver, *names: str) -> None:
    for name in names:
        until(lambda name=name: both.tier._requests[name].found is not None)  # type: ignore[misc]


def test_a_load_ends_when_it_is_due_whatever_is_fetched_ahead_and_writes_nothing_then(
    holding: tuple[Callable[..., Driver], Holding],
):
    make, proxy = holding
    both = make()
    queued = [f"queued {at}" for at in range(8)]
    for name in (*queued, "polled"):
        both.announce(name)
    found(both, *queued, "polled")
    assert both.prefix("polled") == CHUNKS
    assert not both.load("polled", CHUNKS).success
    both.memory[:] = b"\x55" * len(both.memory)  # the engine computes, and uses its rows for something else
    assert both.prefix("polled") == 0
    both.finish("polled")
    assert both.count("misses", "failed") == 1
    assert both.count("wait_seconds") <= RECOMPUTE / 2  # that, and a busy machine
    proxy.gate.set()
    for name in queued:
        both.finish(name)
    both.tier.close()
    assert both.memory == b"\x55" * len(both.memory)


def test_stuck_fetches_ahead_leave_connections_and_threads_to_loads(
    holding: tuple[Callable[..., Driver], Holding],
):
    make, proxy = holding
    both = make()
    queued = [f"queued {at}" for at in range(6)]
    for name in queued:
        both.announce(name)
    found(both, *queued)
    until(lambda: proxy.held >= 2)
    both.announce("polled")
    assert both.prefix("polled") == CHUNKS
    stuck, proxy.gate = proxy.gate, Event()
    proxy.gate.set()
    assert both.load("polled", CHUNKS).success
    assert all(both.row(at) == plain(at) for at in range(CHUNKS))
    assert both.count("prefetched_bytes") == 0
    stuck.set()


def test_nothing_more_is_fetched_ahead_for_a_request_that_the_engine_has_come_to(
    holding: tuple[Callable[..., Driver], Holding],
):
    make, proxy = holding
    both = make()
    both.announce("r")
    until(lambda: proxy.held == 1)
    assert both.prefix("r") == CHUNKS
    proxy.gate.set()
    until(lambda: both.count("prefetched_bytes") > 0)
    both.tier._aheads.drain()
    assert both.count("prefetched_bytes") == ROW


def test_an_engine_that_is_free_gets_each_chunk_once(full: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tier_load, "QUEUED", 30.0)  # however slow this machine is
    both = full.tier()
    both.announce("r")
    found(both, "r")
    assert both.prefix("r") == CHUNKS
    assert both.load("r", CHUNKS).success
    both.finish("r")
    both.tier._aheads.drain()
    assert both.count("read_bytes") == both.count("used_bytes") == CHUNKS * ROW
    assert both.count("prefetched_bytes") == 0


def test_a_load_that_no_thread_begins_in_time_is_called_off_and_never_writes(
    holding: tuple[Callable[..., Driver], Holding],
):
    make, proxy = holding
    both = make(workers=1, prefetch_bytes=0)
    both.tier.announce("long", 100 * PROMPT, hashes(), both.world.bearer())  # with so much more time to wait
    both.announce("short")
    assert both.prefix("long") == both.prefix("short") == CHUNKS
    both.tier.load(1, "long", both.chunks(range(CHUNKS)))
    until(lambda: proxy.held > 0)
    rows = range(CHUNKS, 2 * CHUNKS)
    both.memory[:] = b"\x55" * len(both.memory)
    both.tier.load(2, "short", [Chunk(b"", Spot(0, at - CHUNKS), both.row(at)) for at in rows])
    done = both.done()
    assert (done.number, done.success, done.keys) == (2, False, None)
    assert both.prefix("short") == 0
    both.finish("short")
    assert both.count("misses", "failed") == 1
    assert both.count("failed_chunks", "late") == CHUNKS
    assert both.count("wait_seconds") == both.count("lost_seconds") <= RECOMPUTE / 2
    proxy.gate.set()
    done = both.done()
    assert (done.number, done.success) == (1, True)
    both.tier.close()
    assert all(both.row(at) == b"\x55" * ROW for at in rows)


def test_a_request_waits_once_however_many_loads_it_has(holding: tuple[Callable[..., Driver], Holding]):
    make, _ = holding
    both = make(prefetch_bytes=0)
    both.announce("r")
    for half in (range(6), range(6, CHUNKS)):
        assert all(both.lookup("r", at) is Answer.HIT for at in half)
        both.tier.load(half.start, "r", both.chunks(half))
        assert not both.done().success
    assert MOST <= both.count("wait_seconds") < RECOMPUTE / 2


def test_with_one_connection_nothing_is_fetched_ahead(holding: tuple[Callable[..., Driver], Holding]):
    make, proxy = holding
    both = make(connections=1)
    both.announce("queued")
    found(both, "queued")
    both.announce("polled")
    assert both.prefix("polled") == CHUNKS
    assert proxy.held == 0
    proxy.gate.set()
    assert both.load("polled", CHUNKS).success


def test_what_was_fetched_ahead_says_nothing_about_how_long_a_load_takes(full: World):
    both = full.tier()
    both.tier.learning.prefilled(PROMPT, RECOMPUTE)
    for name in ("one", "two", "three"):
        both.announce(name)
        until(lambda name=name: len(both.tier._requests[name].prefetched) == CHUNKS)  # type: ignore[misc]
        assert both.prefix(name) == CHUNKS
        assert both.load(name, CHUNKS).success
        both.finish(name)
        both.tier.drain()  # as when the engine empties its host tier
    assert both.tier.learning.decide(1 << 40, 0, PROMPT).why == "not measured yet"


@pytest.mark.parametrize("comes", [True, False])
def test_while_the_engine_does_not_look_it_does_not_wait(full: World, comes: bool):
    both = full.tier()
    both.tier.learning.prefilled(PROMPT, RECOMPUTE)
    full.daemon.signal(signal.SIGSTOP)
    both.announce("r")
    assert both.timed(lambda: both.tier.lookup("r", Spot(0, 0))) is Answer.RETRY
    if comes:
        full.daemon.signal(signal.SIGCONT)
        found(both, "r")
    time.sleep(MOST + 0.5)  # a step of the engine, longer than the request may wait
    assert both.prefix("r") == (CHUNKS if comes else 0)
    if comes:
        assert both.load("r", CHUNKS).success
    both.finish("r")
    waited = both.count("wait_seconds")
    assert 0 < waited <= MOST + 1e-6
    assert both.count("lost_seconds") == (0 if comes else waited)


class Contents:
    """Stands for Adapters: what each path holds now."""

    def __init__(self, **held: bytes) -> None:
        self.held = held

    def shape(self, path: str) -> Shape | None:
        found = self.held.get(path)
        return None if found is None else Shape(found.ljust(32, b"."), ROW, {0: TOKENS}, {0: 1})


def test_requests_with_an_adapter_find_what_was_stored_with_its_content(full: World):
    full.adapters = Contents(tuned=b"content")
    tuned = full.bearer(adapter="tuned")
    both = full.tier()
    assert both.restored("of the model", tuned) == 0
    both.announce("r", tuned)
    assert both.store("r").success
    both.finish("r")
    assert both.restored("again", tuned) == CHUNKS
    assert both.restored("plain") == CHUNKS
    full.adapters.held["tuned"] = b"trained on"
    assert both.restored("other content", tuned) == 0
    del full.adapters.held["tuned"]
    assert both.restored("nobody knows", tuned) == 0
    assert both.count("misses", "lora") == 1


def test_what_was_computed_while_an_adapter_changed_is_not_stored(full: World):
    full.adapters = Contents(tuned=b"content")
    both = full.tier()
    both.announce("r", full.bearer(adapter="tuned"))
    assert both.prefix("r") == 0
    full.adapters.held["tuned"] = b"trained on"
    assert not both.store("r").success
    assert both.count("unstored_chunks", "lora") == CHUNKS


ALICE, BOB = b"alice, a subject", b"bob, another one"


def seen(world: World, subject: bytes) -> float:
    """Chunks of which the store knows that this subject used them too."""
    boot = world.daemon.admin("GET", "/v1/deltas")[1]["boot"]
    told = world.daemon.admin("GET", f"/v1/deltas?boot={boot}")[1]
    return sum(delta["op"] == "seen" and delta["subject"] == subject.hex() for delta in told["deltas"])


def until(true: Callable[[], bool]) -> None:
    end = soon()
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_store_is_told_who_used_what_was_stored_for_another(world: World):
    both = world.tier()
    both.announce("hers", world.bearer(subject=ALICE))
    assert both.store("hers").success
    both.finish("hers")
    his = world.bearer(subject=BOB)
    both.announce("his", his)
    assert both.prefix("his") == CHUNKS
    assert both.load("his", 5).success
    both.tier.matched("his", 5 * TOKENS)
    both.finish("his")
    until(lambda: seen(world, BOB) == 5)
    both.announce("computed", his)
    assert both.store("computed").success  # the same as hers, so it is there
    until(lambda: seen(world, BOB) == CHUNKS)
    assert seen(world, ALICE) == 0
    assert both.count("unnoted_chunks") == 0


def test_a_store_that_cannot_be_told_is_told_later(world: World):
    both = world.tier()
    both.announce("hers", world.bearer(subject=ALICE))
    assert both.store("hers").success
    both.finish("hers")
    both.announce("his", world.bearer(subject=BOB))
    assert both.prefix("his") == CHUNKS
    assert both.load("his", CHUNKS).success
    both.tier.matched("his", CHUNKS * TOKENS)
    world.daemon.stop()
    both.finish("his")
    until(lambda: len(both.tier._lineage._waiting) == 1)
    world.daemon.events.clear()
    world.daemon.start()
    until(lambda: seen(world, BOB) == CHUNKS)


def test_a_store_that_does_not_serve_the_tenant_is_left_out_and_others_hold_its_chunks(world: World, tmp_path: Path):
    (tmp_path / "abroad" / "mount").mkdir(parents=True)
    abroad = Daemon(tmp_path / "abroad", module="kvctl.store.main")
    abroad.connector, abroad.controller = world.daemon.connector, world.daemon.controller
    abroad.write()
    abroad.start()
    tenants = [{"tenant": "acme", "state": "suspended"}]
    assert abroad.admin("POST", "/v1/tenants", {"version": 1, "tenants": tenants})[0] == 200
    daemons = {"home": world.daemon, "abroad": abroad}
    nodes = [
        {"name": name, "addresses": [daemon.unix], "public_key": daemon.identity.public.hex()}
        for name, daemon in daemons.items()
    ]
    try:
        both = world.tier(stores=nodes, stripe=1)
        both.announce("r")
        assert both.store("r").success
        assert both.count("stored_chunks") == CHUNKS
        assert both.tier.stats()[1]["kvctl_tier_store_unserved", ("abroad",)] == 1
        assert world.tier(stores=nodes, stripe=1).restored("again") == CHUNKS
        assert abroad.metric('kvstored_tier_chunks{tier="flash"}') == 0
        assert abroad.admin("POST", "/v1/tenants", {"version": 2, "tenants": []})[0] == 200
        until(lambda: both.tier.stats()[1]["kvctl_tier_store_unserved", ("abroad",)] == 0)
    finally:
        abroad.stop()


def test_where_no_store_serves_the_tenant_the_reason_says_so(full: World):
    tenants = [{"tenant": "acme", "state": "suspended"}]
    assert full.daemon.admin("POST", "/v1/tenants", {"version": 1, "tenants": tenants})[0] == 200
    both = full.tier()
    assert both.restored("r") == 0
    assert both.count("misses", "unserved") == 1


def test_connections_are_ready_before_the_first_request(full: World):
    both = full.tier(connections=3)
    until(lambda: both.tier._pool.stat()["one"]["connects"] == 3)
    assert both.restored("r") == CHUNKS
    assert both.tier._pool.stat()["one"]["connects"] == 3


def test_the_predicted_recompute_of_every_request_is_counted(full: World):
    both = full.tier()
    both.restored("one")
    both.restored("two")
    assert both.count("recompute_seconds") == pytest.approx(2 * PROMPT / ASSUMED)


def test_loads_slower_than_computing_are_not_begun(full: World):
    both = full.tier()
    both.tier.learning.prefilled(PROMPT, 0.001)
    for _ in range(3):
        both.tier.learning.loaded(CHUNKS * ROW, 5.0)
    # So short a recompute leaves no time for the question either: it is asked while the request is in the queue.
    both.announce("r")
    end = soon()
    while both.tier._requests["r"].found is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    assert both.prefix("r") == 0
    both.finish("r")
    assert both.count("misses", "slower") == 1
    assert both.count("read_bytes") == 0


def test_a_queued_request_is_fetched_ahead_and_what_is_not_used_is_given_back(full: World):
    both = full.tier()

    def fetched(name: str) -> None:
        end = soon()
        while len(both.tier._requests[name].prefetched) < CHUNKS:
            assert time.monotonic() < end
            time.sleep(0.002)

    both.announce("used")
    fetched("used")
    full.daemon.stop()
    assert both.prefix("used") == CHUNKS
    assert both.load("used", CHUNKS).success
    assert all(both.row(at) == plain(at) for at in range(CHUNKS))
    assert both.count("prefetched_bytes") == both.count("used_bytes") == CHUNKS * ROW
    assert both.count("wait_seconds") > 0
    full.daemon.events.clear()
    full.daemon.start()
    both.tier.drain()  # as when the engine empties its host tier
    both.announce("aborted")
    fetched("aborted")
    both.finish("aborted")
    end = soon()
    while both.tier.stats()[1]["kvctl_tier_scratch_bytes", ()]:
        assert time.monotonic() < end
        time.sleep(0.002)


def test_what_is_in_the_host_tier_is_neither_fetched_ahead_nor_taken_for_a_fast_prefill(full: World):
    both = full.tier()
    assert both.restored("loaded") == CHUNKS
    read = both.count("read_bytes")
    both.announce("again")
    end = soon()
    while both.tier._requests["again"].found is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    both.tier.matched("again", CHUNKS * TOKENS)
    both.tier.scheduled("again")
    both.tier.produced("again")
    both.finish("again")
    both.tier.close()
    assert both.count("read_bytes") == read
    assert both.tier.learning.rate is None


def test_only_what_is_not_in_the_host_tier_is_leased(full: World, monkeypatch: pytest.MonkeyPatch):
    both = full.tier(prefetch_bytes=0, lease_ms=777)
    asked: list[tuple[int, int, int]] = []
    real = Pool.has

    def has(pool: Pool, lease: KeyLease, chain: Sequence[bytes], first: int, lease_ms: int, until: float) -> list[bool]:
        asked.append((first, len(chain), lease_ms))
        return real(pool, lease, chain, first, lease_ms, until)

    monkeypatch.setattr(Pool, "has", has)
    assert both.restored("not here") == CHUNKS
    both.announce("here")
    assert both.prefix("here") == CHUNKS
    both.tier._residents.clear()
    both.tier._residents.add(hashes()[:5])
    both.announce("its beginning is here")
    assert both.prefix("its beginning is here") == CHUNKS
    assert asked == [(0, CHUNKS, 777), (0, CHUNKS, 0), (0, 5, 0), (5, CHUNKS, 777)]


def test_stores_on_their_way_leave_room_for_restores(full: World):
    both = full.tier(store_share=0.25)
    both.announce("r")
    full.daemon.signal(signal.SIGSTOP)
    for number in range(3):
        both.timed(lambda number=number: both.tier.store(number, "r", both.chunks(range(CHUNKS))))
    (refused, again) = both.tier.finished()
    assert {refused.number, again.number} == {1, 2}
    assert both.count("unstored_chunks", "pressure") == 2 * CHUNKS
    full.daemon.signal(signal.SIGCONT)
    assert both.done().success
    assert both.store("r").success


def test_drain_ends_when_no_thread_touches_the_host_tier(full: World):
    both = full.tier()
    both.announce("r")
    assert both.prefix("r") == CHUNKS
    for number in range(4):
        both.tier.load(number, "r", both.chunks(range(CHUNKS)))
    both.tier.drain()
    assert len(both.tier.finished()) == 4


def test_a_defect_of_the_tier_is_counted_and_a_miss(full: World, monkeypatch: pytest.MonkeyPatch):
    both = full.tier()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    both.announce("loaded")
    assert both.prefix("loaded") == CHUNKS
    monkeypatch.setattr(both.tier._loader, "_run", broken)
    assert not both.load("loaded", CHUNKS).success
    assert both.prefix("loaded") == 0  # not offered and failed again for ever
    both.finish("loaded")
    monkeypatch.setattr(both.tier._pool, "has", broken)
    both.announce("r")
    assert both.prefix("r") == 0
    assert not both.store("r").success
    both.finish("r")
    assert both.count("defects") == 3
    assert (both.count("misses", "failed"), both.count("misses", "defect")) == (1, 1)
