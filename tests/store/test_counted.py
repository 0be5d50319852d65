"""What is counted is what lies on the media, whatever comes between two steps of a put, a move or a removal."""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvctl.connector.wire import PutStatus
from kvctl.store import space
from kvctl.store.api import Why
from kvctl.store.buffers import BufferPool
from kvctl.store.guard import Guard
from kvctl.store.leases import Leases
from kvctl.store.ram import RamTier
from kvctl.store.segments.mount import MountConfig
from kvctl.store.segments.tier import SegmentsTier
from kvctl.store.space import Rules, Space
from kvctl.store.store import Slot, Store
from kvctl.types.chunks import Ack, Meta, Scope, TierName

MIB = 1 << 20
SCOPE = Scope("acme", "users", b"e" * 16)
ALICE, BOB, NOBODY = b"a" * 16, b"b" * 16, b"n" * 16


class Made:
    """A store over flash and disk, with a clock of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ahead = 0.0
        self.moved = 0
        self.store = self.open()

    def open(self, first: Callable[[SegmentsTier], object] = lambda tier: None) -> Store:
        """`first`: done to each tier before a store is built over them."""
        pool = BufferPool(64 * MIB)
        ram = RamTier(16 * MIB, self.clock)
        pool.on_pressure(ram.evict)
        guard = Guard()
        self.flash, self.disk = (
            SegmentsTier(name, [self.mount(name)], pool, ram, self.clock, segment_size=16 * MIB, guard=guard)
            for name in (TierName.FLASH, TierName.DISK)
        )
        tiers = [self.flash, self.disk]
        for tier in tiers:
            first(tier)
        leases = Leases(time.monotonic)
        rules = Space(tiers, leases, Rules({}, None, 1.0, 0.9, 0.8), "lru", guard)
        self.store = Store(tiers, pool, ram, leases, rules, self.clock, self.root / "moves", guard)
        return self.store

    def mount(self, name: TierName) -> MountConfig:
        path = self.root / name
        path.mkdir(exist_ok=True)
        return MountConfig(path, 256 * MIB)

    def clock(self) -> float:
        return time.time() + self.ahead

    def put(self, number: int, size: int = 4000, ack: Ack = Ack.DURABLE, **meta: Any) -> PutStatus:
        slot = self.store.reserve(SCOPE, name(number), size, Meta(**meta))
        if not isinstance(slot, Slot):
            return slot
        slot.body[:] = os.urandom(size)
        return slot.commit(ack)

    def move(self, source: str = "flash", target: str = "disk") -> dict[str, Any]:
        self.moved += 1
        return self.store.move({"id": f"m{self.moved}", "source": source, "target": target}, lambda: False)

    def evict(self, tier: SegmentsTier) -> None:
        tier.flush()
        self.store.space._evict(tier, tier.stat().used)

    def on_media(self) -> int:
        return sum(record.length for tier in (self.flash, self.disk) for _, record in tier.walk())

    def counted(self) -> int:
        return int(self.store.stat()["tenants"].get("acme", {"used": 0})["used"])

    def check(self) -> None:
        """What is counted is what is there, and all of it can be evicted."""
        assert self.counted() == self.on_media()
        for tier in (self.flash, self.disk):
            self.evict(tier)
        assert (self.on_media(), self.store.stat()["tenants"]) == (0, {})


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def before(where: Any, what: str, act: Callable[[], object]) -> None:
    """Have something happen once, before a method's work."""
    _around(where, what, act, lambda: None)


def behind(where: Any, what: str, act: Callable[[], object]) -> None:
    """Have something happen once, when a method has done its work and nobody knows yet."""
    _around(where, what, lambda: None, act)


def _around(where: Any, what: str, first: Callable[[], object], then: Callable[[], object]) -> None:
    work = getattr(where, what)

    def hooked(*asked: Any, **more: Any) -> Any:
        setattr(where, what, work)
        first()
        found = work(*asked, **more)
        found = list(found) if isinstance(found, Iterator) else found
        then()
        return found

    setattr(where, what, hooked)


PLACE = {"before": before, "behind": behind}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    monkeypatch.setattr(space, "TICK", 600)  # what expires when is the test's to say
    site = Made(tmp_path)
    until(lambda: site.store.stat()["counters"]["counted"])
    yield site
    site.store.close()


ACTS: dict[str, Callable[[Made], object]] = {
    "erase somebody who has nothing": lambda made: made.store.erase_subject("acme", None, NOBODY),
    "erase the subject": lambda made: made.store.erase_subject("acme", None, ALICE),
    "erase the scope": lambda made: made.store.erase_scope(SCOPE),
    "remove by name": lambda made: made.store.remove(SCOPE, [name(1)], Why.REMOVED),
    "evict from flash": lambda made: made.evict(made.flash),
    "evict from disk": lambda made: made.evict(made.disk),
    "scrub": lambda made: [made.store.scrub(tier, lambda: False) for tier in ("flash", "disk")],
    "erase and put again": lambda made: (made.store.erase_subject("acme", None, ALICE), made.put(1, 5000)),
    "expire": lambda made: (setattr(made, "ahead", 1000), made.store.space._look_after(made.flash)),
    "expire and put again": lambda made: (setattr(made, "ahead", 1000), made.put(1, 5000)),
}
PLACES = [
    (place, tier, what)
    for place in PLACE.values()
    for tier, what in (("disk", "write"), ("flash", "remove"), ("disk", "read"))
]


@pytest.mark.parametrize("act", ACTS)
def test_whatever_comes_between_the_steps_of_a_move(made: Made, act: str) -> None:
    for place, tier, what in PLACES:
        made.ahead = 0
        made.put(1, subject=ALICE, expires_at=int(time.time()) + 500)
        made.put(2, subject=BOB)
        place(getattr(made, tier), what, lambda: ACTS[act](made))
        made.move()
        made.check()


@pytest.mark.parametrize(
    ("what", "act"),
    [
        (what, act)
        for what in ("remove", "erase_keys", "erase_subject", "erase_scope", "expire")
        for act in ACTS
        if what != "remove" or not act.startswith("evict")  # one evicts at a time
    ],
)
def test_whatever_comes_behind_a_removal_that_nobody_was_told_of_yet(made: Made, what: str, act: str) -> None:
    removals: dict[str, Callable[[], object]] = {
        "remove": lambda: made.evict(made.flash),
        "erase_keys": lambda: made.store.remove(SCOPE, [name(1)], Why.ERASED),
        "erase_subject": lambda: made.store.erase_subject("acme", None, ALICE),
        "erase_scope": lambda: made.store.erase_scope(SCOPE),
        "expire": lambda: (setattr(made, "ahead", 1000), made.store.space._look_after(made.flash)),
    }
    made.put(1, subject=ALICE, expires_at=int(time.time()) + 500)
    made.put(2, subject=BOB)
    behind(made.flash, what, lambda: (ACTS[act](made), made.put(1, 6000, subject=BOB)))
    removals[what]()
    made.check()


@pytest.mark.parametrize("place", PLACE)
def test_a_chunk_that_comes_back_while_its_removal_is_counted(made: Made, place: str) -> None:
    """The one who removed it is told that nothing is there, and then something is."""
    made.put(1, subject=ALICE)
    behind(made.flash, "remove", lambda: PLACE[place](made.flash, "found", lambda: made.put(1, 6000)))
    made.evict(made.flash)
    assert made.store.has(SCOPE, [name(1)]) == [True]
    made.check()


@pytest.mark.parametrize("place", PLACE)
def test_a_removal_that_is_counted_while_the_chunk_is_handed_over_again(made: Made, place: str) -> None:
    made.put(1, subject=ALICE)
    coming, counted = threading.Event(), threading.Event()
    writer = threading.Thread(target=made.put, args=(1, 6000))

    def put_again() -> None:
        PLACE[place](made.flash, "write", lambda: (coming.set(), counted.wait(20)))
        writer.start()
        assert coming.wait(20)

    behind(made.flash, "remove", put_again)
    made.evict(made.flash)
    counted.set()
    writer.join()
    assert made.store.has(SCOPE, [name(1)]) == [True]
    made.check()


def test_a_copy_whose_source_stays_is_counted_as_well(made: Made) -> None:
    made.put(1)
    before(made.flash, "remove", lambda: made.store.has(SCOPE, [name(1)], lease_ms=60_000))
    behind(made.disk, "write", lambda: made.store.has(SCOPE, [name(1)], lease_ms=60_000))
    assert made.move()["skipped"] == {"leased": 1}
    assert made.counted() == made.on_media() == 8000


def test_a_write_that_fails_is_not_counted_even_when_its_end_is_told_before_it_is_handed_over(made: Made) -> None:
    class BrokenError(Exception): ...

    def breaks() -> None:
        raise BrokenError

    before(made.flash, "write", breaks)
    with pytest.raises(BrokenError):
        made.put(1)
    assert made.counted() == 0
    assert made.put(1) is PutStatus.STORED
    made.check()


def test_a_chunk_that_reading_puts_into_quarantine_is_not_counted_any_more(made: Made) -> None:
    made.put(1)
    made.put(2)
    made.flash.flush()
    made.store.ram.remove(SCOPE, [name(1)])
    (entry,) = (one for one in made.flash.entries() if one.record.key == name(1))
    with (made.root / "flash" / "segments" / f"{entry.place.segment:08d}.seg").open("r+b") as file:
        file.seek(entry.place.offset + 4096)
        file.write(bytes(8))
    made.flash.flush()
    reading = made.store.get(SCOPE, name(1))
    assert reading is not None
    list(reading.pieces())  # judged when it is complete
    reading.close()
    until(lambda: made.flash.quarantined())
    until(lambda: made.store.space._wake.set() or made.counted() == 4000)
    made.check()


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("place", ["before", "behind"])  # the look at what is there
def test_whatever_comes_before_a_restart_has_learned_what_is_there(made: Made, act: str, place: str) -> None:
    ends = int(time.time()) + 500
    for number, subject in ((2, BOB), (3, ALICE)):
        made.put(number, subject=subject, expires_at=ends)
    made.move()
    for number, subject in ((1, ALICE), (4, BOB), (5, ALICE)):
        made.put(number, subject=subject, expires_at=ends)
    made.store.close()
    looking, go_on = threading.Event(), threading.Event()
    made.open(lambda tier: PLACE[place](tier, "by_recency", lambda: (looking.set(), go_on.wait(20))))
    assert looking.wait(20)
    assert made.counted() == made.on_media() == 5 * 4000
    ACTS[act](made)
    made.put(6)
    made.move("disk", "flash")
    go_on.set()
    until(lambda: made.store.stat()["counters"]["counted"])
    made.check()


def test_a_storm(made: Made) -> None:
    """Every verb in threads of its own; then the media are counted."""
    faults: list[Exception] = []
    seen: Counter[str] = Counter()

    def run(what: str, times: int, act: Callable[[random.Random], object]) -> None:
        rnd = random.Random(what)
        try:
            for _ in range(times):
                act(rnd)
                seen[what] += 1
        except Exception as fault:  # noqa: BLE001  told by the test's own thread
            faults.append(fault)

    def put(rnd: random.Random) -> None:
        more = {"expires_at": int(time.time()) + 1} if rnd.random() < 0.2 else {}
        subject = rnd.choice([ALICE, BOB])
        made.put(rnd.randrange(60), rnd.randrange(500, 9000), rnd.choice(list(Ack)), subject=subject, **more)

    work: list[tuple[str, int, Callable[[random.Random], object]]] = [
        *((f"put {number}", 400, put) for number in range(3)),
        ("there", 12, lambda rnd: made.move("flash", "disk")),
        ("back", 12, lambda rnd: made.store.move({"id": f"b{rnd.random()}", "source": "disk", "target": "flash"}, nay)),
        ("erase a subject", 12, lambda rnd: made.store.erase_subject("acme", None, rnd.choice([ALICE, NOBODY]))),
        ("remove", 40, lambda rnd: made.store.remove(SCOPE, [name(rnd.randrange(60))], Why.REMOVED)),
        ("evict", 20, lambda rnd: made.store.space._evict(rnd.choice([made.flash, made.disk]), 20_000)),
        ("scrub", 5, lambda rnd: made.store.scrub("flash", nay)),
        ("erase the scope", 3, lambda rnd: made.store.erase_scope(SCOPE)),
    ]
    threads = [threading.Thread(target=run, args=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert seen == {what: times for what, times, _ in work}
    until(lambda: not made.flash.expire(1000) and not made.disk.expire(1000))
    until(lambda: made.counted() == made.on_media())
    made.check()


def nay() -> bool:
    return False
