"""Every way in which a tier lets a chunk go, against a hold; what a daemon's verbs reach is in test_governance."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Record, Removal, State, Why
from kvctl.store.buffers import BufferPool
from kvctl.store.guard import Guard
from kvctl.store.holds import Hold, HoldSet
from kvctl.store.leases import Leases
from kvctl.store.move import move
from kvctl.store.ram import RamTier
from kvctl.store.segments import tier as segments
from kvctl.store.segments.mount import MountConfig
from kvctl.store.segments.tier import SegmentsTier
from kvctl.store.space import Rules, Space
from kvctl.types.chunks import TierName
from tests.store.s3.made import MIB, NOW, SCOPE, chunk, get, put

ALICE = b"a" * 16
HELD = {"subject": ALICE}


class Site:
    """Two tiers under one guard, and a clock."""

    def __init__(self, root: Path) -> None:
        self.now = NOW
        self.root = root
        self.guard = Guard()
        self.version = 0
        self.pool = BufferPool(64 * MIB)
        self.flash, self.disk = self.open(TierName.FLASH), self.open(TierName.DISK)

    def open(self, name: TierName) -> SegmentsTier:
        path = self.root / name
        path.mkdir(exist_ok=True)
        ram = RamTier(MIB, lambda: self.now)
        mounts = [MountConfig(path, 64 * MIB)]
        return SegmentsTier(name, mounts, self.pool, ram, lambda: self.now, segment_size=16 * MIB, guard=self.guard)

    def hold(self, *, on: bool = True) -> None:
        self.version += 1
        holds = (Hold(id="h", tenant=SCOPE.tenant, subject=ALICE.hex()),) if on else ()
        self.guard.holds.replace(HoldSet(version=self.version, holds=holds))

    def close(self) -> None:
        self.flash.close()
        self.disk.close()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(segments, "COMMIT_SECONDS", 600)  # what is committed when is the test's to say
    made = Site(tmp_path)
    yield made
    made.close()


def stored(site: Site, number: int, **meta: object) -> tuple[Record, bytes]:
    made = chunk(number, 20_000, **meta)
    assert put(site.flash, *made) is PutStatus.STORED
    return made


def test_remove_and_the_three_erasures(site: Site) -> None:
    record, data = stored(site, 1, **HELD)
    other, _ = stored(site, 2)
    site.hold()
    keys = [record.key, other.key]
    for removal, run in (
        (Removal(Why.EVICTED), lambda removal: site.flash.remove(SCOPE, [record.key], removal)),
        (Removal(Why.ERASED), lambda removal: site.flash.erase_subject(SCOPE, ALICE, removal)),
        (Removal(Why.REMOVED), lambda removal: site.flash.erase_keys(SCOPE, [record.key], removal)),
    ):
        assert run(removal) == 0
        assert (removal.held, removal.gone) == ({(SCOPE, record.key)}, [])
    removal = Removal(Why.ERASED)
    assert site.flash.erase_scope(SCOPE, removal) == 1
    assert site.flash.has(SCOPE, keys) == [True, False]
    assert get(site.flash, record.key) == data
    site.hold(on=False)
    assert site.flash.erase_scope(SCOPE) == 1
    assert site.flash.found(SCOPE, record.key) is None


def test_erasing_a_whole_scope_of_many_held_ones_ends(site: Site) -> None:
    made = [stored(site, number, **(HELD if number % 2 else {})) for number in range(40)]
    site.hold()
    assert site.flash.erase_scope(SCOPE) == 20
    assert site.flash.has(SCOPE, [record.key for record, _ in made]) == [bool(n % 2) for n in range(40)]


def test_the_sweep_of_expired_ones_passes_over_held_ones(site: Site) -> None:
    held = [stored(site, number, expires_at=NOW + 10, **HELD)[0] for number in range(6)]
    others = [stored(site, number, expires_at=NOW + 20)[0] for number in range(6, 12)]
    site.flash.flush()
    site.hold()
    site.now = NOW + 100
    gone = [record for _ in range(8) for _, record in site.flash.expire(2)]
    assert {record.key for record in gone} == {record.key for record in others}
    assert {site.flash.found(SCOPE, record.key).state for record in held} == {State.EXPIRED}  # type: ignore[union-attr]
    assert site.flash.has(SCOPE, [record.key for record in held]) == [False] * 6
    site.hold(on=False)
    assert len([one for _ in range(8) for one in site.flash.expire(2)]) == 6


def test_a_put_over_an_expired_one(site: Site) -> None:
    record, _ = stored(site, 1, expires_at=NOW + 10, **HELD)
    site.flash.flush()
    site.now = NOW + 100
    site.hold()
    again = Record(record.key, 500, bytes(16), site.now, chunk(1)[0].meta)
    assert put(site.flash, again, bytes(500)) is PutStatus.EXISTS
    assert site.flash.found(SCOPE, record.key).record == record  # type: ignore[union-attr]


@pytest.mark.parametrize("committed", [True, False])
def test_a_put_over_an_expired_one_that_is_under_way_when_the_hold_comes(site: Site, committed: bool) -> None:
    record, _ = stored(site, 1, expires_at=NOW + 10, **HELD)
    if committed:
        site.flash.flush()
    site.now = NOW + 100
    again, data = chunk(1, 30_000)
    again = Record(record.key, again.length, again.checksum, site.now, again.meta)
    if committed:  # the new record is in a segment, and not in the index, when the hold comes
        assert put(site.flash, again, data) is PutStatus.STORED
        site.hold()
    else:
        site.hold()
        put(site.flash, again, data)
    site.flash.flush()
    assert site.flash.found(SCOPE, record.key).record == record  # type: ignore[union-attr]
    site.now = NOW
    assert get(site.flash, record.key) == chunk(1, 20_000)[1]


def test_replay_keeps_a_held_one_that_expired(site: Site) -> None:
    record, data = stored(site, 1, expires_at=NOW + 10, **HELD)
    other, _ = stored(site, 2, expires_at=NOW + 10)
    site.hold()
    site.now = NOW + 100
    crashed = site.root / "crashed"
    crashed.mkdir()
    for file in (site.root / "flash").rglob("*"):  # as a crash leaves it: in segments, not in the index
        if file.is_file() and file.name != "lock":
            target = crashed / file.relative_to(site.root / "flash")
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(file.read_bytes())
    ram = RamTier(0, lambda: site.now)
    again = SegmentsTier(
        TierName.FLASH, [MountConfig(crashed, 64 * MIB)], site.pool, ram, lambda: site.now, segment_size=16 * MIB,
        guard=site.guard,
    )  # fmt: skip
    assert again.stat().counters["replayed"] == 2
    found = again.found(SCOPE, record.key)
    assert found is not None
    assert (found.record, found.state) == (record, State.EXPIRED)
    assert again.found(SCOPE, other.key) is None
    site.now = NOW
    assert get(again, record.key) == data
    again.close()


def test_a_hold_that_comes_between_the_copy_and_the_removal_of_a_move(site: Site) -> None:
    record, data = stored(site, 1, **HELD)
    looks = iter([False])

    def is_held(scope: object, record: Record) -> bool:
        site.hold()
        return next(looks)

    done = move(
        site.flash, site.disk, [(SCOPE, record.key)], journal=site.root / "journal", stop=lambda: False,
        pool=site.pool, is_held=is_held, clock=lambda: site.now,
    )  # fmt: skip
    assert (done.moved, done.skipped) == (0, {"held": 1})
    assert get(site.flash, record.key) == get(site.disk, record.key) == data
    site.hold(on=False)
    done = move(
        site.flash, site.disk, [], journal=site.root / "journal", stop=lambda: False, pool=site.pool,
        clock=lambda: site.now,
    )  # fmt: skip
    assert done.moved == 1


def test_a_copy_that_is_the_last_one_is_kept_by_a_hold(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    record, data = stored(site, 1, **HELD)
    settled: list[bytes] = []
    removed = site.disk.record

    def vanishes(scope: object, key: bytes) -> Record | None:
        found = removed(SCOPE, key)
        if found is not None and site.version == 0:  # the source is erased behind the copy, and then held
            site.flash.erase_subject(SCOPE, ALICE)
            site.hold()
        return found

    monkeypatch.setattr(site.disk, "record", vanishes)
    done = move(
        site.flash, site.disk, [(SCOPE, record.key)], journal=site.root / "journal", stop=lambda: False,
        pool=site.pool, on_settled=lambda scope, key: settled.append(key), clock=lambda: site.now,
    )  # fmt: skip
    assert done.moved == 0
    assert settled == [record.key]
    assert get(site.disk, record.key) == data


def test_a_hold_that_comes_between_the_evictor_s_choice_and_the_removal(site: Site) -> None:
    made = [stored(site, number, **HELD) for number in range(4)]
    site.flash.flush()
    rules = Rules({}, None, 1.0, 0.9, 0.8)
    space = Space([site.flash], Leases(time.monotonic), rules, "lru", site.guard)
    end = time.monotonic() + 10
    while not space.counters()["counted"] and time.monotonic() < end:
        time.sleep(0.01)
    before = space.tenants()
    remove = site.flash.remove

    def held_first(*asked: object) -> int:
        site.hold()
        return remove(*asked)  # type: ignore[arg-type]

    site.flash.remove = held_first  # type: ignore[method-assign]
    space._evict(site.flash, 2 * MIB)
    assert site.flash.has(SCOPE, [record.key for record, _ in made]) == [True] * 4
    assert space.tenants() == before
    assert space.counters()["evicted"] == 0
    site.flash.remove = remove  # type: ignore[method-assign]
    site.hold(on=False)
    space._evict(site.flash, 2 * MIB)
    assert site.flash.has(SCOPE, [record.key for record, _ in made]) == [False] * 4
    space.close()
