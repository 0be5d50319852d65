"""How values look in tables."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.api import cells

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEXTS = st.text() | st.from_regex(cells.TIME, fullmatch=True)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.from_regex(cells.TIME, fullmatch=True),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(("name", "value", "kind"), [
    ("tenant", None, "none"), ("x", {}, "none"), ("go", True, "yesno"), ("quota_bytes", 5, "bytes"),
    ("maximum", 3600, "span"), ("read_age", 2.5, "span"), ("at", 1.8e9, "time"), ("at", 5, "num"), ("copies", 5, "num"),
    ("state", "active", "state"), ("ts", "2026-03-01T11:00:00.000Z", "time"), ("id", "a-20260301-0a0b0c0d", "id"),
    ("key", "ab" * 32, "hex"), ("data", {"a": 1}, "doc"), ("roles", ["a"], "list"), ("rows", [{"a": 1}], "doc"),
])  # fmt: skip
def test_the_kind_of_a_value(name, value, kind):
    assert cells.kind_of(name, value) == kind


@pytest.mark.parametrize(("value", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**40, "1.0 TiB")])
def test_sizes(value, words):
    assert cells.size(value) == words


@pytest.mark.parametrize(("value", "words"), [
    ("2026-03-01T11:58:00Z", "2 min ago"), ("2026-03-01T12:00:00Z", "0 s ago"), ("2026-03-03T12:00:00Z", "in 2 d"),
    ("2026-03-01T14:00:00+01:00", "in 1 h"),
])  # fmt: skip
def test_ages(value, words):
    assert cells.age(value, NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(3600, "1 h"), (5400, "90 min"), (30 * 86400, "30 d"), (0.2, "200 ms"), (0, "0 s")]
)
def test_spans(seconds, words):
    assert cells.span(seconds) == words


def test_a_time_without_a_zone_is_utc():
    assert cells.clock("2026-03-01T11:58:00") == "2026-03-01 11:58:00 UTC"
    assert cells.exact("2026-03-01T12:58:00+01:00") == "2026-03-01T11:58:00.000Z"


def test_a_column_of_numbers_is_one_though_its_first_is_not_known():
    assert cells.align([{"quota_bytes": None}, {"quota_bytes": 5}], "quota_bytes") == "num"


def test_how_far_is_not_known_before_a_store_has_chosen():
    assert cells.how_far({"progress": None}) is None
    assert cells.how_far({"progress": {"s1": {"chosen": 4, "moved": 1, "bytes": 0}}}) == (1, 4)
    assert cells.how_far({"steps": 3, "done": 2}) == (2, 3)


@given(st.sampled_from(["", "bytes", "state", "progress", "maximum", "ts", "at"]), ANYTHING)
def test_every_value_can_be_said(name, value):
    assert isinstance(cells.said(value, name), str)
    assert isinstance(cells.aligned(value, name), str)
