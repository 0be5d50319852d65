"""Reading ahead of GETs: what a lease was given for is in memory soon, counted as what it is, and never too much."""

import os
import time
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from kvctl.store.ahead import CHUNKS, SECONDS, Ahead
from kvctl.store.api import Record
from kvctl.store.buffers import BufferPool, NoRoomError
from kvctl.store.ram import RamTier
from kvctl.store.store import Store
from kvctl.types.chunks import Meta
from tests.store.test_space import MIB, OTHER, SCOPE, Made, get, make, name, put, until

assert make  # the fixture
LEASE_MS = 10_000


def stored(made: Made, count: int, size: int = MIB) -> list[bytes]:
    """Chunks on the medium, and nothing of them in memory."""
    data = [os.urandom(size) for _ in range(count)]
    for number, body in enumerate(data):
        put(made.store, name(number), body)
    made.reopen()
    return data


def in_memory(store: Store, count: int) -> list[bool]:
    return [store.ram.holds(SCOPE, name(number)) for number in range(count)]


def reads(store: Store) -> tuple[int, int]:
    return store.ram.hits, store.ram.misses


def test_what_is_leased_is_read_ahead_and_is_no_hit_of_memory_the_first_time(make):
    made = make()
    data = stored(made, 3)
    assert made.store.has(SCOPE, [name(number) for number in range(4)], LEASE_MS) == [True, True, True, False]
    until(lambda: all(in_memory(made.store, 3)))
    assert [get(made.store, name(number)) for number in range(3)] == data
    assert reads(made.store) == (0, 3)
    assert get(made.store, name(0)) == data[0]
    assert reads(made.store) == (1, 3)
    assert made.store.stat()["counters"].items() >= {"read_ahead": 3, "read_ahead_asked": 3}.items()


def test_a_question_without_a_lease_reads_nothing(make):
    made = make()
    stored(made, 2)
    assert all(made.store.has(SCOPE, [name(0), name(1)]))
    made.store.flush()
    assert in_memory(made.store, 2) == [False, False]


def test_who_asks_while_it_is_being_read_has_it_from_the_same_read(make):
    made = make()
    data = stored(made, 8, 3 * MIB + 5)
    made.store.has(SCOPE, [name(number) for number in range(8)], LEASE_MS)
    assert [get(made.store, name(number)) for number in range(8)] == data


def test_only_a_part_of_the_memory_is_filled_for_who_has_not_asked(make):
    made = make()
    stored(made, 12)
    made.store.has(SCOPE, [name(number) for number in range(12)], LEASE_MS)
    until(lambda: sum(in_memory(made.store, 12)) >= 4)  # a quarter of 16 MiB
    made.store.has(SCOPE, [name(number) for number in range(12)], LEASE_MS)
    assert in_memory(made.store, 12) == [True] * 4 + [False] * 8
    get(made.store, name(0))  # room for one more
    made.store.has(SCOPE, [name(number) for number in range(12)], LEASE_MS)
    until(lambda: in_memory(made.store, 12) == [True] * 5 + [False] * 7)


def test_what_was_read_ahead_and_is_erased_is_gone(make):
    made = make()
    stored(made, 3)
    made.store.has(SCOPE, [name(number) for number in range(3)], LEASE_MS)
    made.store.erase_scope(SCOPE)
    assert in_memory(made.store, 3) == [False] * 3
    assert [get(made.store, name(number)) for number in range(3)] == [None] * 3
    assert made.store.has(SCOPE, [name(number) for number in range(3)], LEASE_MS) == [False] * 3


@dataclass
class Medium:
    """A tier as far as reading ahead goes; None: no memory is free."""

    sizes: dict[bytes, int | None]
    fetched: list[bytes] = field(default_factory=list)

    def fetch(self, scope, key):
        size = self.sizes[key]
        if size is None:
            raise NoRoomError("no memory")
        self.fetched.append(key)
        return size


@pytest.fixture
def ram():
    return RamTier(16 * MIB, time.time)


def test_what_nobody_asks_for_counts_for_a_while_and_no_longer(ram):
    now = 50.0
    ahead = Ahead(ram, 2 * MIB, lambda: now)
    medium = Medium({name(number): MIB for number in range(6)})
    places = [(medium, name(number)) for number in range(6)]
    ahead.read(SCOPE, places)
    ahead.read(SCOPE, places)
    assert medium.fetched == [name(0), name(1)]
    now += SECONDS
    ahead.read(SCOPE, places[2:])
    assert medium.fetched == [name(0), name(1), name(2), name(3)]
    assert [ahead.asked(SCOPE, name(number)) for number in range(5)] == [False, False, True, True, False]
    assert not ahead.asked(SCOPE, name(2))
    assert not ahead.asked(OTHER, name(3))


def test_without_memory_or_with_nothing_to_read_it_goes_no_further(ram):
    ahead = Ahead(ram)
    medium = Medium({name(0): 0, name(1): MIB, name(2): None, name(3): MIB})
    ahead.read(SCOPE, [(medium, name(number)) for number in range(4)])
    assert medium.fetched == [name(0), name(1)]
    assert [ahead.asked(SCOPE, name(number)) for number in range(4)] == [False, True, False, False]


def test_many_small_ones_are_not_all_read_ahead(ram):
    medium = Medium({name(number): 4096 for number in range(1000)})
    Ahead(ram).read(SCOPE, [(medium, name(number)) for number in range(1000)])
    assert medium.fetched == [name(number) for number in range(CHUNKS)]


def test_what_memory_has_is_not_read(ram):
    pool = BufferPool(MIB)
    buffer = pool.take(4096)
    ram.insert(SCOPE, Record(name(0), 4096, b"", 0, Meta()), buffer)
    medium = Medium({name(0): 4096, name(1): 4096})
    Ahead(ram).read(SCOPE, [(medium, name(0)), (medium, name(1))])
    assert medium.fetched == [name(1)]
    with closing(ram):
        buffer.release()
