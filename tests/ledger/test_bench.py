"""The ledger's benchmark runs, and says what it measured under which conditions."""

import json

from click.testing import CliRunner

from kvctl.bench.__main__ import command
from kvctl.bench.ledger import CELLS, render


def test_it_measures_every_cell_of_every_contestant(tmp_path):
    argv = ["ledger", "--seconds", "0.05", "--directory", str(tmp_path), "-o", "json"]
    done = CliRunner().invoke(command, argv, standalone_mode=False)
    found = json.loads(done.stdout)
    assert len(found["rows"]) == 3 * len(CELLS)
    assert all(row["events_per_second"] > 0 and 0 < row["p50"] <= row["p99"] for row in found["rows"])
    assert found["conditions"]["bytes of an event"] == 200
    assert list(tmp_path.iterdir()) == []
    lines = render(found, "table").splitlines()
    assert lines[2].split() == ["contestant", "producers", "events", "a", "call", "events/s", "p50", "ms", "p99", "ms"]
    assert all(len(line) <= 100 for line in lines[:24])
