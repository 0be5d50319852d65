"""Percentiles, and when a sample is none of its cell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.bench.ttft.cells import Cell, Group, Way
from kvctl.bench.ttft.figures import spread
from tests.bench.ttft.made import GROUP, answer, book, sample

MISS, HOST, FLASH, MEMORY, SLOW = (Cell(way, GROUP) for way in (Way.MISS, Way.HOST, Way.FLASH, Way.MEMORY, Way.SLOW))


def test_percentiles_are_nearest_ranks():
    assert spread([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0, "count": 3}
    assert spread(range(1, 201)) == {"p50": 100, "p99": 198, "count": 200}


def test_nothing_measured_is_no_zero():
    assert spread([]) == {"p50": None, "p99": None, "count": 0}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=300))
def test_percentiles_are_values_that_were_measured(values):
    found = spread(values)
    assert {found["p50"], found["p99"]} <= set(values)
    assert min(values) <= found["p50"] <= found["p99"] <= max(values)


def test_a_cell_pools_its_rounds_and_sessions():
    made = book(Way.FLASH)
    computed = [answer()]
    for turn, seconds in enumerate((0.3, 0.1, 0.2)):
        made.add(FLASH, sample(answer(seconds, cached=1024), turn=turn, memory=0.0), computed)
    row = made.row(FLASH, "")
    assert (row["status"], row["rounds"], row["restored"]) == ("measured", 3, 1.0)
    assert row["first"] == {"p50": 0.2, "p99": 0.3, "count": 3}
    assert row["between"]["count"] == 6


@pytest.mark.parametrize(
    ("cell", "given", "why"),
    [
        (HOST, sample(answer(cached=1024, output=(1, 3))), "another output"),
        (SLOW, sample(answer(output=(1, 3))), "another output"),
        (MISS, sample(answer(cached=1024)), "taken from a cache"),
        (FLASH, sample(answer(cached=0)), "none of 1 x 1024 tokens was restored"),
        (FLASH, sample(answer(cached=1024), memory=1.0), "came from its memory"),
        (MEMORY, sample(answer(cached=1024), memory=0.0), "0 % of the store's reads"),
    ],
)
def test_what_is_no_sample_of_its_cell_fails_it_and_leaves_no_number(cell, given, why):
    made = book(cell.way)
    good = 0 if cell.way in (Way.MISS, Way.SLOW) else 1024
    made.add(cell, sample(answer(cached=good), memory=given.memory and 0.5), [answer()])
    made.add(cell, given, [answer()])
    row = made.row(cell, "")
    assert row["status"] == "failed"
    assert why in row["why"]
    assert "first" not in row


def test_a_failing_store_may_restore_nothing_at_all():
    made = book(Way.SLOW)
    made.add(SLOW, sample(answer(1.5)), [answer()])
    assert made.row(SLOW, "")["restored"] == 0


def test_a_cell_without_samples_says_why():
    assert book(Way.HOST).row(HOST, "the time was up") | {"name": ""} == {
        "name": "", "way": "host", "tokens": 1024, "sessions": 1, "status": "left out", "why": "the time was up",
    }  # fmt: skip


def test_cells_that_were_not_asked_for_are_not_kept():
    made = book(Way.HOST)
    made.add(MISS, sample(), [answer()])
    made.fail([Cell(Way.OBJECT, Group(8192, 1))], "no bucket")
    assert not made.samples
    assert not made.failures


def test_what_the_tier_decided_not_to_load_is_its_decision_and_no_restore():
    made = book(Way.FLASH)
    made.add(FLASH, sample(answer(1.5), reasons={"late": 1, "failed": 1}), [answer()])
    row = made.row(FLASH, "")
    assert row["status"] == "declined"
    assert row["why"].startswith("1 x not there when")
    made.add(FLASH, sample(answer(0.1, cached=1024), memory=0.0), [answer()])
    assert (made.row(FLASH, "")["status"], made.row(FLASH, "")["restored"]) == ("measured", 0.5)
    assert made.row(FLASH, "")["reasons"] == {"late": 1, "failed": 1}
