"""Narrowing for any rows: nothing is made up, nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from kvctl.tui.narrow import Narrow
from kvctl.tui.tables import Column, Level, Row, Table, never, of

TABLE = Table(
    "t", (Column("a", 5, of("a")), Column("b", 5, of("b"))), str, lambda ask: [], never, lambda doc: Level("x")
)
VALUES = st.none() | st.integers() | st.text("abc", max_size=3)
ROWS = st.lists(st.tuples(VALUES, VALUES, st.booleans()), max_size=12).map(
    lambda found: [Row(str(n), (str(a), str(b)), (a, b), bad, {}) for n, (a, b, bad) in enumerate(found)]
)


@given(ROWS, st.text("abcN!", max_size=2), st.sampled_from(["", "a", "b", "gone"]), st.booleans())
def test_a_filter_and_its_inverse_share_the_rows_between_them(rows, text, sort, down):
    text = text.replace("!", "")
    with_it = Narrow(text, sort=sort, down=down).rows(TABLE, rows)
    without = Narrow(f"!{text}", sort=sort, down=down).rows(TABLE, rows)
    if text:
        assert sorted(r.key for r in with_it + without) == sorted(r.key for r in rows)
    else:
        assert {r.key for r in with_it} == {r.key for r in without} == {r.key for r in rows}


@given(ROWS, st.booleans())
def test_what_is_not_known_comes_last_whichever_way_it_is_sorted(rows, down):
    values = [row.values[0] for row in Narrow(sort="a", down=down).rows(TABLE, rows)]
    known = [value for value in values if value is not None]
    assert values == known + [None] * (len(values) - len(known))
    numbers = [value for value in known if isinstance(value, int)]
    assert numbers == sorted(numbers, reverse=down)


@given(ROWS)
def test_faults_only(rows):
    assert Narrow(faults=True).rows(TABLE, rows) == [row for row in rows if row.fault]
