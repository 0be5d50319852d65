"""The counted deltas: dense, bounded, and honest about what they no longer have."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from kvctl.store.api import Record, Why
from kvctl.store.deltas import LEAST, Deltas
from kvctl.types.chunks import Meta, Scope, TierName

SCOPE = Scope("acme", "users", b"e" * 16)


def record(number: int) -> Record:
    return Record(number.to_bytes(32, "big"), 100 + number, bytes(16), 1000, Meta())


def numbers(told: dict) -> list[int]:
    return [row["n"] for row in told["deltas"]]


steps = st.lists(
    st.one_of(st.integers(1, 40).map(lambda n: ("put", n)), st.integers(0, 60).map(lambda n: ("resize", n)))
)


@given(steps, st.integers(0, 200), st.integers(1, 50))
def test_an_answer_has_all_behind_a_number_or_says_gap(todo, after, limit):
    deltas, kept, last, size = Deltas(LEAST), [], 0, LEAST
    for what, count in todo:
        if what == "resize":
            size = max(count, LEAST)
            deltas.resize(count)
            kept = kept[-size:]
        else:
            for _ in range(count):
                last += 1
                kept = [*kept, last][-size:]
                deltas.put(TierName.FLASH, SCOPE, record(last))
    told = deltas.read(deltas.boot, after, limit, 0)
    oldest = kept[0] if kept else last + 1
    assert told["first"] == oldest
    if oldest - 1 <= after <= last:
        assert not told["gap"]
        assert numbers(told) == [n for n in kept if n > after][:limit]
        assert [row["length"] for row in told["deltas"]] == [100 + n for n in numbers(told)]
        assert told["next"] == max([after, *numbers(told)])
    else:
        assert (told["gap"], told["deltas"], told["next"]) == (True, [], last)


def test_numbers_are_dense_from_many_threads():
    deltas = Deltas(10_000)

    def tell() -> None:
        for number in range(500):
            deltas.removed(TierName.DISK, SCOPE, record(number), Why.EVICTED)

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(deltas.read(deltas.boot, 0, 10_000, 0)) == list(range(1, 2001))


def test_another_run_has_another_name():
    assert Deltas().boot != Deltas().boot
