"""The report in its three forms, byte for byte as in golden/."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvctl.bench.store.cells import MIB, Cell, Op
from kvctl.bench.store.contestants import ALL
from kvctl.bench.store.figures import Sample, Scaled
from kvctl.bench.store.jobs import Taken
from kvctl.bench.store.report import document, render

GOLDEN = Path(__file__).with_name("golden")
GET = Cell(Op.GET, 2 * MIB, 4)
DURABLE = Cell(Op.DURABLE, 2 * MIB, 4)


def sample(
    name: str, cell: Cell, turn: int, wall: float, seal: float | None = 0.0, p99: float | None = 0.004
) -> Sample:
    return Sample(
        name, cell, turn, Taken(64, 64 * 2 * MIB, wall, 0.03, 0.02, seal, None if p99 is None else 0.002, p99)
    )


def made() -> dict[str, Any]:
    """Made-up numbers: one peer is missing, one failed, one target is missed."""
    names = ("raw-tcp", "kvstored-tcp", "redis", "nginx", "fio")
    samples = [
        *(sample("raw-tcp", GET, turn, 0.06 + 0.01 * turn) for turn in (1, 2, 3)),
        *(sample("kvstored-tcp", GET, turn, 0.10 + 0.01 * turn, None) for turn in (1, 2, 3)),
        sample("kvstored-tcp", DURABLE, 1, 0.2, None),
        sample("fio", DURABLE, 1, 0.25, p99=None),
    ]
    absent = {"redis": ("not installed", "no redis-server: ./dev peers"), "nginx": ("failed", "it ended with 1")}
    scale = Scaled(
        1_000_000, 120.5, 2.25, 9.5, 3.5, 0.0021, 0.0048, 64 * MIB, 100, 0.010, 0.0115, (0.0021,), ((0.01, 0.0115),)
    )
    conditions = {"date": "2027-03-01T09:00:00Z", "processor": "2 x Example 9000", "versions": {"python": "3.11.7"}}
    return document(conditions, [one for one in ALL if one.name in names], [GET, DURABLE], samples, absent, scale)


@pytest.mark.parametrize(("fmt", "file"), [("table", "store.txt"), ("markdown", "store.md"), ("json", "store.json")])
def test_the_report_is_as_recorded(fmt: str, file: str) -> None:
    assert render(made(), fmt) + "\n" == (GOLDEN / file).read_text()


def test_json_keeps_every_sample() -> None:
    found = json.loads(render(made(), "json"))
    assert (found["schema"], found["benchmark"]) == (1, "store")
    assert [one["wall"] for one in found["samples"] if one["contestant"] == "raw-tcp"] == pytest.approx(
        [0.07, 0.08, 0.09]
    )
    assert found["scale"]["has_times"] == [0.0021]


def test_an_absent_peer_has_a_row_and_no_number() -> None:
    rows = {row["contestant"]: row for row in made()["cells"] if row["op"] == "get"}
    assert rows["redis"]["absent"] == "not installed"
    assert rows["redis"]["figures"] is None
    (line,) = [line for line in render(made(), "table").splitlines() if "x4 redis" in line]
    assert "not installed" in line
    assert "0.00" not in line


def test_no_line_of_a_table_is_wider_than_a_terminal() -> None:
    text = render(made() | {"absent": {}}, "table")
    assert max(map(len, text.splitlines())) <= 100
