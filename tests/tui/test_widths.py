"""Columns in any terminal: what names a row is whole while there is room, and nothing goes over the edge."""

from hypothesis import given
from hypothesis import strategies as st

from kvctl.tui.pages import PAGES
from kvctl.tui.widths import SMALLEST, shared

TABLES = [table for level in PAGES.values() for table in level.tables]


@st.composite
def wanted(draw):
    table = draw(st.sampled_from(TABLES))
    sizes = {column.name: draw(st.integers(len(column.name) + 1, 90)) for column in table.columns}
    return list(enumerate(table.columns)), sizes


@given(wanted(), st.integers(60, 300))
def test_what_is_shown_fits_and_the_name_is_whole(case, room):
    columns, sizes = case
    found = shared(columns, sizes, room)
    assert sum(size for _, _, size in found) + len(found) <= room
    first = found[0]
    assert first[:2] == columns[0]
    others = sum(SMALLEST + 1 for _ in found[1:])
    assert first[2] == sizes[first[1].name] or first[2] >= room - 1 - others
    assert [n for n, _, _ in found] == sorted(n for n, _, _ in found)
    kept = {column.name for _, column, _ in found}
    assert kept >= {column.name for _, column in columns if not column.rank}


@given(wanted())
def test_with_room_for_all_every_column_is_whole(case):
    columns, sizes = case
    room = sum(sizes.values()) + len(sizes)
    assert {column.name: size for _, column, size in shared(columns, sizes, room)} == sizes
