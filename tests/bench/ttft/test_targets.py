"""What must hold: ratios of medians, and what is no pass."""

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.bench.ttft.cells import Way
from kvctl.bench.ttft.targets import bound, interval, rows
from tests.bench.ttft.made import between, pair, restores


def named(found, *words):
    (row,) = (row for row in found if all(word in row.name for word in words))
    return row


def test_a_restore_is_judged_by_medians_against_the_recompute():
    found = rows(restores(memory=[0.1, 0.9, 0.2], recompute=[6.0, 7.0, 9.0]), None, None)
    row = named(found, "memory", "recompute / restored")
    assert row.ratio == pytest.approx(35.0)
    assert row.holds is True
    assert row.repetitions == 3
    assert row.medians == {"restored": 0.2, "recompute": 7.0}


def test_the_first_restore_after_a_start_is_a_row_of_its_own():
    found = rows(restores(memory=[0.1], first=[0.5], recompute=[7.0], host=[0.05]), None, None)
    assert named(found, "memory", "recompute / restored").ratio == pytest.approx(70)
    first = named(found, "first after an engine's start", "recompute / restored")
    assert (first.ratio, first.holds) == (pytest.approx(14), False)


def test_the_bound_is_a_host_hit_the_bytes_at_the_share_of_plain_sockets_and_the_grace():
    assert bound(0.1, 210_000_000, 3e9) == pytest.approx(0.1 + 0.1 + 0.06)
    made = restores(memory=[0.1], host=[0.04], recompute=[7.0])
    row = named(rows(made, None, None), "memory", "host tier + bytes")
    assert row.ratio == pytest.approx(0.1 / bound(0.04, made.size, 3e9))
    assert row.holds is (row.ratio <= 1)


def test_what_was_not_measured_does_not_hold():
    for row in rows(restores(memory=[0.1]), None, None):
        assert row.ratio is None
        assert row.holds is None


def test_a_comparison_that_failed_has_no_ratio():
    made = restores(memory=[0.1], recompute=[7.0], host=[0.05])
    made.failed = "another output"
    assert all(row.ratio is None and row.why == "another output" for row in rows(made, None, None))


def windows(*ratios):
    """With the given ratios to what is beside them, under a load that rises evenly."""
    found = [1.0]
    for at, ratio in enumerate(ratios):
        found += [(1.5 + at) * ratio, 2.0 + at]
    return between(*found)


@pytest.mark.parametrize(
    ("ratios", "holds"),
    [
        ([1.0, 1.01, 1.02, 1.03, 1.04], True),
        ([1.06, 1.07, 1.1, 1.2, 3.0], False),
        ([0.9, 1.0, 1.02, 1.03, 1.2], None),  # who knows
        ([1.0, 1.0, 1.0, 1.0], None),  # too few
        ([0.5, 1.0, 1.0, 1.01, 1.02, 1.02, 1.03, 1.9], True),  # a burst in one window says nothing
    ],
)
def test_inter_token_latency_is_judged_by_windows_side_by_side_and_not_by_noise(ratios, holds):
    (row,) = rows(None, windows(*ratios), None)
    assert row.ratio == pytest.approx(median(ratios))
    assert row.holds is holds
    assert row.repetitions == len(ratios)


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=40))
def test_the_interval_holds_the_median(values):
    low, high = interval(values)
    assert low <= median(values) <= high


def test_an_interval_misses_the_median_in_one_of_ten_cases_at_most():
    ones = random.Random(7)
    missed = 0
    for _ in range(2000):
        low, high = interval([ones.random() for _ in range(9)])
        missed += not low <= 0.5 <= high
    assert 0.02 < missed / 2000 < 0.1


def test_an_inter_token_comparison_that_failed_has_no_ratio():
    made = windows(1.0, 1.0)
    made.failed = "another output"
    assert all((row.ratio, row.holds, row.why) == (None, None, "another output") for row in rows(None, made, None))


def test_a_failing_store_is_judged_at_each_length_of_4096_tokens_and_more():
    class Found:
        pairs = (
            pair(Way.GONE, 9.0, 1.0, 1024),
            pair(Way.GONE, 1.2, 1.0),
            pair(Way.GONE, 2.6, 2.0, 8192),
            pair(Way.STOPPED, 0.9, 1.0),
        )

    found = rows(None, None, Found())
    assert [(row.ratio, row.holds) for row in found] == [
        (pytest.approx(1.2), True), (pytest.approx(1.3), False), (pytest.approx(0.9), True),
    ]  # fmt: skip
    assert "one of two stores gone" in found[0].name
