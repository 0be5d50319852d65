"""The report in its forms: what it says, and what it does not make up."""

import json
from dataclasses import asdict

import pytest

from kvctl.bench.ttft import chart
from kvctl.bench.ttft.cells import Group, Way
from kvctl.bench.ttft.command import written
from kvctl.bench.ttft.report import render
from kvctl.bench.ttft.targets import rows
from tests.bench.ttft.made import between, document, measured, restores

CELLS = [
    measured(Way.MISS, Group(1024, 1), (1.0, 1.2)),
    measured(Way.MISS, Group(8192, 1), (10.0, 12.0)),
    measured(Way.FLASH, Group(1024, 1), (0.05, 0.06)),
    {"name": "flash/8192x1", "way": "flash", "tokens": 8192, "sessions": 1, "status": "failed", "why": "no answer"},
    measured(Way.FLASH, Group(1024, 4), (0.1, 0.2)),
]
JUDGED = [asdict(row) for row in rows(restores(memory=[0.2], recompute=[7.0], host=[0.1]), None, None)]


def line(text, begin):
    return next(line for line in text.splitlines() if line.startswith(begin))


def test_a_failed_cell_is_named_with_its_reason_and_has_no_number():
    text = render(document(CELLS), "markdown")
    assert line(text, "| store, flash") == "| store, flash | 50.0 / 60.0 | failed |"
    assert "- flash/8192x1: failed: no answer" in text


def test_rows_say_whether_they_hold():
    text = render(document(CELLS, JUDGED), "markdown")
    held = line(text, "| TTFT at 8192 tokens, from the store's memory: recompute")
    assert "| 35.00 | >= 30 | holds | restored 200, recompute 7000 | 1 |" in held
    assert "| - | >= 30 | not measured |" in line(text, "| TTFT at 8192 tokens, from flash: recompute")


def test_conditions_are_in_every_form():
    made = document(CELLS)
    assert "- versions, python: 3.11" in render(made, "markdown")
    assert "- processor: 2 x any" in render(made, "table")
    assert json.loads(render(made, "json")) == made


def test_lengths_and_sessions_are_tables_of_their_own():
    text = render(document(CELLS), "markdown")
    by_sessions = text.partition("by sessions at once")[2]
    assert line(by_sessions, "| store, flash") == "| store, flash | 50.0 / 60.0 | 100 / 200 |"


def test_a_restore_that_was_not_whole_is_told():
    part = measured(Way.DISK, Group(1024, 4), (0.1, 0.2)) | {"restored": 0.75, "reasons": {"late": 1, "failed": 1}}
    told = line(render(document([part]), "markdown"), "- disk/1024x4: 75 % of the tokens were restored")
    assert "1 x not there when" in told
    assert "failed" not in told


def test_a_failing_store_is_shown_beside_the_same_prompt_without_any():
    cells = [measured(Way.GONE, Group(1024, sessions), (1.0, 1.2)) | {"restored": 0.5} for sessions in (1, 4)]
    pairs = [{"way": "gone", "tokens": 1024, "degraded": value, "recompute": 2.0} for value in (1.0, 3.0, 2.2)]
    text = render(document(cells, samples={"failing": pairs}), "markdown")
    assert "| one of two stores gone, 1 x 1024 | 50 | 1.10 | 3 |" in text
    assert "| one of two stores gone, 4 x 1024 | 50 | - | 3 |" in text


def test_the_report_says_why_there_is_no_chart(tmp_path, monkeypatch):
    monkeypatch.setattr(chart.importlib.util, "find_spec", lambda name: None)
    written(document(CELLS), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ttft.json", "ttft.md"]
    assert "- chart: matplotlib is not installed" in (tmp_path / "ttft.md").read_text()


def test_the_chart_is_a_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="./dev peers installs it")
    written(document(CELLS, JUDGED), tmp_path)
    assert (tmp_path / "ttft.png").read_bytes().startswith(b"\x89PNG")
    assert "ttft.png" in (tmp_path / "ttft.md").read_text()
    assert "chart" not in json.loads((tmp_path / "ttft.json").read_text())["left_out"]


def test_restores_that_came_late_in_the_inter_token_comparison_are_told():
    samples = {"between": [{"known": 10, "recomputed": 0}, {"known": 10, "recomputed": 3}]}
    assert "3 of 20 known contexts were computed" in render(document(CELLS, samples=samples), "markdown")


def test_a_ratio_that_is_too_uneven_is_not_decided():
    row = asdict(rows(None, between(1.0, 1.0, 1.0, 1.2, 1.0, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0), None)[0])
    assert "| 1.00 (0.90 to 1.20) | <= 1.05 | not decided |" in render(document(CELLS, [row]), "markdown")
