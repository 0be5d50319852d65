"""Which cells a run has, and how they are named on the command line."""

import pytest

from kvctl.bench.ttft.cells import CHUNK, FULL, QUICK, Cell, Group, Part, Way, chosen, groups
from kvctl.types.errors import UsageError


def test_the_full_matrix_has_every_way_at_every_length_and_number_of_sessions():
    names = {cell.name for cell in FULL.cells()}
    for way in Way:
        assert {f"{way}/{tokens}x1" for tokens in (1024, 2048, 4096, 8192, 14336)} <= names
        assert {f"{way}/1024x{sessions}" for sessions in (1, 4, 16, 64)} <= names


def test_contexts_are_whole_chunks_so_that_a_hit_is_the_whole_context():
    assert all(group.tokens % CHUNK == 0 for plan in (FULL, QUICK) for group in plan.groups)


def test_one_session_of_the_shortest_context_is_measured_once():
    assert groups((1024, 2048), (1, 4)) == (Group(1024, 1), Group(2048, 1), Group(1024, 4))


def test_names_choose_cells_and_comparisons():
    cells, parts = chosen(FULL, "flash/*x64, restore")
    assert cells == {Cell(Way.FLASH, Group(1024, 64))}
    assert parts == {Part.RESTORE}
    assert chosen(FULL, None) == (frozenset(FULL.cells()), frozenset(Part))


def test_a_name_of_nothing_is_refused_and_says_where_the_names_are():
    with pytest.raises(UsageError, match="KV-BENCH-030") as told:
        chosen(FULL, "flash/*,tape/*")
    assert "tape" in told.value.what
    assert "--cells" in told.value.fix
