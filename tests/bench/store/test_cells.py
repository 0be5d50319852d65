from pathlib import Path

import pytest

from kvctl.bench.store.cells import (
    GIB,
    KIB,
    MIB,
    Cell,
    Op,
    Settings,
    parse_connections,
    parse_size,
    parse_sizes,
    size_text,
)
from kvctl.types.errors import UsageError


def settings(**changes: int) -> Settings:
    return Settings((256 * KIB, 16 * MIB), (1, 4), 5, Path("/tmp/x"), **changes)


def test_sizes_and_connections_are_read_once_each_in_order() -> None:
    assert parse_sizes("2MiB, 256KiB,2MiB") == (256 * KIB, 2 * MIB)
    assert parse_sizes("4096") == (4096,)
    assert parse_connections("4,1, 4") == (1, 4)


@pytest.mark.parametrize("text", ["", "2MB", "1KiB", "64MiB", "-1", "2MiB,", "x"])
def test_a_size_that_no_chunk_can_have_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sizes(text)
    assert caught.value.code == "KV-BENCH-010"


@pytest.mark.parametrize("text", ["", "0", "65", "1,", "x", "-1"])
def test_no_such_number_of_connections(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_connections(text)
    assert caught.value.code == "KV-BENCH-011"


def test_an_option_of_bytes_may_be_larger_than_a_chunk() -> None:
    assert parse_size("1GiB", 64 * GIB, "--bytes") == GIB
    with pytest.raises(UsageError) as caught:
        parse_size("1TiB", 64 * GIB, "--bytes")
    assert caught.value.where == "--bytes"


def test_every_connection_has_work_in_the_smallest_sample() -> None:
    small = settings(sample_bytes=MIB, set_bytes=MIB)
    assert small.limit(Cell(Op.GET, 16 * MIB, 4)) == 8
    assert small.chunks(16 * MIB) == 8
    assert settings().limit(Cell(Op.GET, 256 * KIB, 4)) == 1024
    assert settings().chunks(256 * KIB, cold=True) == 4096


def test_all_cells_are_there() -> None:
    cells = list(settings().cells())
    assert len(cells) == len(set(cells)) == 3 * 2 * 2
    assert cells[0].label == "get 256 KiB x1"


def test_sizes_are_said_in_the_largest_whole_unit() -> None:
    assert [size_text(size) for size in (4096, 2 * MIB, GIB, 1000)] == ["4 KiB", "2 MiB", "1 GiB", "1000 B"]
