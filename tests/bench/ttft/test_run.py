"""A run: stages that fail leave the others their turn; and one cell on a real engine and a real store."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvctl.bench.ttft.cells import QUICK, Cell, Group, Part, Way, chosen
from kvctl.bench.ttft.clock import Clock
from kvctl.bench.ttft.matrix import caught
from kvctl.bench.ttft.run import INTERRUPTED, OVER, Run
from kvctl.types.errors import KvctlError
from tests.bench.ttft.made import GROUP, answer, book, sample
from tests.engine.serving import ROOT, engine_home


class Stages(Run):
    """A run whose stages are made up."""

    def _matrix(self, site, clock):
        raise KvctlError("KV-BENCH-012", "engine failed", why="it ended with 1")

    def _comparisons(self, site, clock):
        raise KvctlError("KV-BENCH-012", "raw failed", why="no port")

    def _failing(self, site, clock):
        cell = Cell(Way.GONE, Group(4096, 1))
        self.book.add(cell, sample(answer(1.0, tokens=4096)), [answer()])


def test_a_stage_that_fails_is_failed_cells_and_the_next_has_its_turn():
    cells, parts = chosen(QUICK, "flash/4096x1,gone/*,restore")
    run = Stages(Path("/engine"), Path("/work"), QUICK, cells, parts, Clock.of(1))
    run.measure(None)
    document = run.document({}, "")
    rows = {row["name"]: row for row in document["cells"]}
    assert (rows["flash/4096x1"]["status"], rows["flash/4096x1"]["why"]) == (
        "failed",
        "engine failed: it ended with 1",
    )
    assert rows["gone/4096x1"]["status"] == "measured"
    assert (rows["gone/1024x1"]["status"], rows["gone/1024x1"]["why"]) == ("left out", OVER)
    assert document["left_out"] == {"comparisons": "failed: raw failed: no port"}
    assert document["rows"] == []


def test_a_run_that_is_interrupted_reports_what_it_has():
    class Stopped(Stages):
        def _matrix(self, site, clock):
            self.book.add(Cell(Way.HOST, GROUP), sample(answer(cached=1024)), [answer()])
            raise KeyboardInterrupt

    cells, _ = chosen(QUICK, "host/*x1,gone/4096x1")
    run = Stopped(Path("/engine"), Path("/work"), QUICK, cells, frozenset(), Clock.of(1))
    run.measure(None)
    rows = {row["name"]: row for row in run.document({}, "")["cells"]}
    assert rows["host/1024x1"]["status"] == "measured"
    assert rows["host/4096x1"]["why"] == rows["gone/4096x1"]["why"] == INTERRUPTED


def test_what_raises_fails_its_cells_alone():
    made = book(Way.HOST, Way.DISK)
    with caught(made, [Cell(Way.DISK, GROUP)]):
        raise KvctlError("KV-BENCH-032", "the stores did not get there", why="a move")
    assert made.failures == {Cell(Way.DISK, GROUP): "the stores did not get there: a move"}


def test_time_is_dealt_out_by_weight():
    whole = Clock(time.monotonic() + 90)
    assert whole.share(1, 2).end == pytest.approx(time.monotonic() + 30, abs=1)
    assert whole.share(1, 0).end == pytest.approx(whole.end, abs=1)
    assert Clock(time.monotonic() - 1).over
    assert not whole.over


def test_every_part_can_be_left_out():
    assert chosen(QUICK, "host/*")[1] == frozenset()
    assert Part.BETWEEN in chosen(QUICK, "betw?en")[1]


@pytest.mark.engine
def test_one_cell_on_a_real_engine(tmp_path):
    engine_home()
    command = [sys.executable, "-m", "kvctl.bench", "ttft", "--quick", "--only", "memory/1024x1", "-o", "json"]
    command += ["--directory", str(tmp_path / "work"), "--report", str(tmp_path / "report")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    (cell,) = json.loads(done.stdout)["cells"]
    assert (cell["status"], cell["restored"], cell["first"]["count"]) == ("measured", 1.0, 1)
    assert 0 < cell["first"]["p50"] < 60
    assert json.loads((tmp_path / "report" / "ttft.json").read_text())["cells"] == [cell]
    assert not (tmp_path / "work").exists()
