"""The whole store over real mounts: quotas, admission, eviction, expiry, leases, erasure, duplicates."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from kvctl.connector.wire import PutStatus
from kvctl.store.buffers import BufferPool
from kvctl.store.leases import Leases
from kvctl.store.ram import RamTier
from kvctl.store.segments.mount import MountConfig
from kvctl.store.segments.tier import SegmentsTier
from kvctl.store.space import Rules, Space
from kvctl.store.store import Slot, Store
from kvctl.types.chunks import Ack, Kind, Meta, Scope, TierName
from kvctl.types.errors import UsageError

MIB = 1 << 20
SCOPE = Scope("acme", "users", b"e" * 16)
OTHER = Scope("globex", "users", b"g" * 16)
ALICE, BOB = b"a" * 16, b"b" * 16


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Made:
    """A store over one mount, that can be closed and opened again."""

    def __init__(self, path: Path, capacity: int, rules: Rules, eviction: str = "lru") -> None:
        self.path, self.capacity, self.rules, self.eviction = path, capacity, rules, eviction
        self.clock = Clock()
        path.mkdir(exist_ok=True)
        self.store = self.open()

    def open(self) -> Store:
        pool = BufferPool(64 * MIB)
        ram = RamTier(16 * MIB, self.clock)
        pool.on_pressure(ram.evict)
        mounts = [MountConfig(self.path, self.capacity)]
        tier = SegmentsTier(TierName.FLASH, mounts, pool, ram, self.clock, segment_size=16 * MIB)
        leases = Leases(time.monotonic)
        space = Space([tier], leases, self.rules, self.eviction)
        self.store = Store([tier], pool, ram, leases, space, self.clock, self.path / "moves")
        return self.store

    def reopen(self) -> Store:
        self.store.close()
        return self.open()


def rules(**changes) -> Rules:
    return Rules(**{"quotas": {}, "default_quota": None, "second_touch_above": 1.0, "high": 0.8, "low": 0.6, **changes})


@pytest.fixture
def make(tmp_path):
    made: list[Made] = []

    def build(capacity: int = 256 * MIB, eviction: str = "lru", **changes) -> Made:
        made.append(Made(tmp_path / f"mount{len(made)}", capacity, rules(**changes), eviction))
        return made[-1]

    yield build
    for one in made:
        one.store.close()


def put(store: Store, key: bytes, data: bytes, *, scope: Scope = SCOPE, ack: Ack = Ack.DURABLE, **meta) -> PutStatus:
    slot = store.reserve(scope, key, len(data), Meta(**meta))
    if not isinstance(slot, Slot):
        return slot
    slot.body[:] = data
    return slot.commit(ack)


def get(store: Store, key: bytes, scope: Scope = SCOPE) -> bytes | None:
    reading = store.get(scope, key)
    if reading is None:
        return None
    with closing(reading):
        return b"".join(bytes(piece) for piece in reading.pieces())


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


def until(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


@pytest.mark.parametrize("ack", Ack)
def test_what_was_put_is_given_back_before_and_after_a_restart(make, ack):
    made, data = make(), os.urandom(3 * MIB + 17)
    assert put(made.store, name(1), data, ack=ack) is PutStatus.STORED
    assert made.store.has(SCOPE, [name(1), name(2)]) == [True, False]
    assert get(made.store, name(1)) == data
    assert get(made.reopen(), name(1)) == data


def test_another_scope_sees_nothing(make):
    store = make().store
    put(store, name(1), b"x" * 5000)
    assert store.has(OTHER, [name(1)]) == [False]
    assert get(store, name(1), OTHER) is None


def test_a_second_put_of_a_name_changes_nothing(make):
    store = make().store
    put(store, name(1), b"x" * 5000)
    assert put(store, name(1), b"y" * 5000) is PutStatus.EXISTS
    assert get(store, name(1)) == b"x" * 5000


def test_two_that_were_received_at_once_end_as_one(make):
    store = make().store
    first, second = (store.reserve(SCOPE, name(1), 4096, Meta()) for _ in range(2))
    first.body[:], second.body[:] = b"x" * 4096, b"y" * 4096
    assert [first.commit(Ack.DURABLE), second.commit(Ack.DURABLE)] == [PutStatus.STORED, PutStatus.EXISTS]
    assert get(store, name(1)) == b"x" * 4096
    assert store.stat()["tenants"] == {"acme": {"used": 4096, "quota": None}}


def test_an_aborted_put_leaves_nothing(make):
    made = make(default_quota=8192)
    made.store.reserve(SCOPE, name(1), 8000, Meta()).abort()
    assert made.store.has(SCOPE, [name(1)]) == [False]
    assert put(made.store, name(2), b"x" * 8000) is PutStatus.STORED
    assert made.store.pool.in_use == made.store.ram.counters()["ram_bytes"]


def test_a_quota_holds_within_five_percent_and_after_a_restart(make):
    made = make(quotas={"acme": 10 * MIB})
    statuses = [put(made.store, name(i), os.urandom(MIB)) for i in range(14)]
    stored = statuses.count(PutStatus.STORED)
    assert stored * MIB <= 10.5 * MIB
    assert stored >= 10
    assert statuses[-1] is PutStatus.QUOTA
    assert put(made.reopen(), name(99), os.urandom(MIB)) is PutStatus.QUOTA
    assert put(made.store, name(99), os.urandom(MIB), scope=OTHER) is PutStatus.STORED


def test_a_quota_is_free_again_after_erasure(make):
    made = make(quotas={"acme": 2 * MIB})
    assert [put(made.store, name(i), os.urandom(MIB)) for i in (1, 2, 3)][-1] is PutStatus.QUOTA
    made.store.erase_scope(SCOPE)
    assert put(made.store, name(3), os.urandom(MIB)) is PutStatus.STORED


def test_the_least_recently_used_leave_and_reads_go_on(make):
    made = make(capacity=40 * MIB)
    data = {name(i): os.urandom(MIB) for i in range(60)}
    for key, bytes_ in data.items():
        assert put(made.store, key, bytes_) is PutStatus.STORED
        assert get(made.store, name(0)) == data[name(0)]  # in use all the time
    until(lambda: made.store.stat()["tiers"][0]["used"] <= 0.8 * 40 * MIB)
    left = [key for key, there in zip(data, made.store.has(SCOPE, list(data)), strict=True) if there]
    assert name(0) in left
    assert name(59) in left
    assert name(1) not in left
    assert all(get(made.store, key) == data[key] for key in left)
    assert all(get(made.store, key) is None for key in data if key not in left)


def test_recency_survives_a_restart(make):
    made = make(capacity=40 * MIB)
    for i in range(20):
        put(made.store, name(i), os.urandom(MIB))
    made.clock.ahead = 100
    get(made.store, name(0))
    store = made.reopen()
    until(lambda: store.stat()["counters"]["counted"] == 1)
    for i in range(20, 34):
        put(store, name(i), os.urandom(MIB))
    until(lambda: store.stat()["tiers"][0]["used"] <= 0.8 * 40 * MIB)
    assert store.has(SCOPE, [name(0), name(1)]) == [True, False]


def test_leased_chunks_stay(make):
    made = make(capacity=40 * MIB)
    for i in range(5):
        put(made.store, name(i), os.urandom(MIB))
    assert all(made.store.has(SCOPE, [name(i) for i in range(5)], lease_ms=60_000))
    for i in range(5, 70):
        put(made.store, name(i), os.urandom(MIB))
    assert all(made.store.has(SCOPE, [name(i) for i in range(5)]))


def test_under_pressure_a_chunk_comes_in_at_its_second_put_and_common_ones_at_once(make):
    made = make(second_touch_above=0.0)
    assert put(made.store, name(1), b"x" * 5000) is PutStatus.NOT_ADMITTED
    assert put(made.store, name(1), b"x" * 5000) is PutStatus.STORED
    assert put(made.store, name(2), b"x" * 5000, kind=Kind.COMMON) is PutStatus.STORED


def test_an_expired_chunk_is_absent_at_once_and_its_space_returns(make):
    made = make()
    put(made.store, name(1), os.urandom(MIB), expires_at=int(time.time()) + 50)
    put(made.store, name(2), os.urandom(MIB))
    made.clock.ahead = 100
    assert made.store.has(SCOPE, [name(1), name(2)]) == [False, True]
    assert get(made.store, name(1)) is None
    assert put(made.store, name(3), b"x" * 100, expires_at=int(time.time()) + 50) is PutStatus.EXPIRED
    until(lambda: made.store.stat()["tenants"]["acme"]["used"] == MIB)


def test_a_clock_that_steps_back_does_not_bring_removed_chunks_back(make):
    made = make()
    put(made.store, name(1), os.urandom(MIB), expires_at=int(time.time()) + 50)
    made.clock.ahead = 100
    until(lambda: made.store.stat()["counters"].get("expired") == 1)
    made.clock.ahead = -1000
    assert get(made.store, name(1)) is None


def test_erasing_a_subject_leaves_the_others(make):
    made = make()
    data = {name(i): os.urandom(MIB) for i in range(6)}
    for at, (key, bytes_) in enumerate(data.items()):
        put(made.store, key, bytes_, subject=ALICE if at % 2 else BOB)
    removed = made.store.erase_subject("acme", None, ALICE)
    assert removed["flash"] == 3
    assert made.store.has(SCOPE, list(data)) == [True, False] * 3
    assert [get(made.store, key) for key in data] == [b if i % 2 == 0 else None for i, b in enumerate(data.values())]
    assert made.store.stat()["tenants"]["acme"]["used"] == 3 * MIB


def test_an_erasure_leaves_the_order_of_the_others_as_it_was(make):
    made = make(capacity=40 * MIB)
    for i in range(20):
        put(made.store, name(i), os.urandom(MIB), subject=ALICE if i in (5, 6) else BOB)
    get(made.store, name(0))
    made.store.erase_subject("acme", None, ALICE)
    for i in range(20, 36):
        put(made.store, name(i), os.urandom(MIB))
    until(lambda: made.store.stat()["tiers"][0]["used"] <= 0.8 * 40 * MIB)
    assert made.store.has(SCOPE, [name(0), name(1), name(35)]) == [True, False, True]


def test_no_subject_is_not_a_subject_to_erase(make):
    store = make().store
    put(store, name(1), b"x" * 5000)
    with pytest.raises(UsageError):
        store.erase_subject("acme", None, bytes(16))
    assert store.has(SCOPE, [name(1)]) == [True]


def test_a_listing_goes_on_where_it_stopped(make):
    store = make().store
    for scope in (SCOPE, OTHER):
        for i in range(5):
            put(store, name(i), b"x" * 5000, scope=scope)
    rows, after = [], ""
    while page := store.ls(None, None, after, 3):
        rows += page
        after = page[-1]["cursor"]
    assert [(row["tenant"], row["key"]) for row in rows] == [
        (tenant, name(i).hex()) for tenant in ("acme", "globex") for i in range(5)
    ]
    assert {row["tenant"] for row in store.ls("globex", None, "", 100)} == {"globex"}
    with pytest.raises(UsageError):
        store.ls(None, None, "nonsense", 3)


def test_a_drained_store_takes_nothing_new_and_still_reads(make):
    store = make().store
    put(store, name(1), b"x" * 5000)
    store.drain()
    assert put(store, name(2), b"x" * 5000) is PutStatus.BUSY
    assert get(store, name(1)) == b"x" * 5000
    store.resume()
    assert put(store, name(2), b"x" * 5000) is PutStatus.STORED
