"""BufferPool: bounded, recycled, fair, and never a byte of another chunk."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.store.buffers import HEAD, PAGE, Buffer, BufferPool, class_size

MIB = 1 << 20


@given(st.integers(1, 80 * MIB))
def test_a_size_class_wastes_at_most_an_eighth(length: int) -> None:
    size = class_size(length)
    assert size % PAGE == 0
    assert length <= size <= max(2 * PAGE, length + length // 8 + PAGE)
    assert class_size(size) == size


def test_a_buffer_is_aligned_and_its_padding_is_zero() -> None:
    pool = BufferPool(MIB)
    first = taken(pool, 5000)
    first.whole[:] = b"x" * len(first.whole)
    first.release()
    again = taken(pool, 4500)
    assert len(again.head) == HEAD
    assert len(again.body) == 4500
    assert len(again.whole) == HEAD + 2 * PAGE
    assert bytes(again.whole[HEAD + 4500 :]) == bytes(2 * PAGE - 4500)
    assert pool.mapped == class_size(HEAD + 5000)  # the same memory


def test_memory_stays_below_the_limit_whatever_sizes_come() -> None:
    pool = BufferPool(8 * MIB)
    for length in (MIB, 3 * MIB, 100, 7 * MIB, 5000, 2 * MIB):
        buffers = []
        while (buffer := pool.take(length)) is not None:
            buffers.append(buffer)
        assert buffers
        assert pool.mapped <= pool.total
        for buffer in buffers:
            buffer.release()
    assert pool.in_use == 0


def test_more_than_the_pool_is_refused_at_once() -> None:
    assert BufferPool(MIB).take(MIB) is None


def test_a_taker_gets_the_buffer_that_another_releases() -> None:
    pool = BufferPool(2 * MIB)
    held = taken(pool, MIB)
    got: list[Buffer | None] = []
    thread = threading.Thread(target=lambda: got.append(pool.take(MIB, timeout=10)))
    thread.start()
    held.release()
    thread.join()
    assert got[0] is not None


def test_a_large_taker_is_not_starved_by_small_ones() -> None:
    pool = BufferPool(MIB)
    small = [taken(pool, 100 << 10) for _ in range(8)]
    started = threading.Event()
    got: list[Buffer | None] = []

    def large() -> None:
        started.set()
        got.append(pool.take(900 << 10, timeout=10))

    thread = threading.Thread(target=large)
    thread.start()
    started.wait()
    while not pool._waiting:
        threading.Event().wait(0.001)
    for buffer in small[:4]:
        buffer.release()
        assert pool.take(100 << 10) is None
    for buffer in small[4:]:
        buffer.release()
    thread.join()
    assert got[0] is not None


def test_a_cache_is_pressed_when_there_is_no_room() -> None:
    pool = BufferPool(2 * MIB)
    kept = [taken(pool, MIB)]

    def let_go(size: int) -> int:
        freed = sum(buffer.size for buffer in kept)
        while kept:
            kept.pop().release()
        return freed

    pool.on_pressure(let_go)
    assert pool.take(MIB) is not None
    assert kept == []


def test_counting_is_strict() -> None:
    pool = BufferPool(MIB)
    buffer = taken(pool, 10)
    buffer.retain().release()
    buffer.release()
    with pytest.raises(ValueError, match="more often"):
        buffer.release()
    with pytest.raises(ValueError, match="released"):
        buffer.retain()


def test_wiped_memory_is_zero_for_the_next_holder() -> None:
    pool = BufferPool(MIB)
    buffer = taken(pool, 4096)
    buffer.body[:] = b"s" * 4096
    buffer.wipe()
    assert bytes(buffer.body) == b"s" * 4096  # its readers still see it
    buffer.release()
    assert bytes(taken(pool, 4096).whole) == bytes(HEAD + 4096)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 300_000), st.booleans()), max_size=60))
def test_nothing_leaks(steps: list[tuple[int, bool]]) -> None:
    pool = BufferPool(MIB)
    held: list[Buffer] = []
    for length, let_go in steps:
        if let_go and held:
            held.pop(length % len(held)).release()
        elif (buffer := pool.take(length)) is not None:
            held.append(buffer)
        assert pool.in_use == sum(buffer.size for buffer in held) <= pool.mapped <= pool.total
    for buffer in held:
        buffer.release()
    assert pool.in_use == 0
    pool.close()
    assert pool.mapped == 0


def taken(pool: BufferPool, length: int) -> Buffer:
    buffer = pool.take(length)
    assert buffer is not None
    return buffer
