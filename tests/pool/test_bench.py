"""The benchmark of a lost node, small: it starts, kills, stops and judges stores of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvctl.bench.pool import command, parse_stripes, render
from kvctl.connector.placement import MAX_STRIPE
from kvctl.types.errors import UsageError


def run(*args: str) -> Result:
    return CliRunner().invoke(command, args, standalone_mode=False)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    size = (
        "--nodes",
        "2",
        "--prompts",
        "4",
        "--chunks",
        "8",
        "--stripes",
        "2,whole",
        "--calls",
        "5",
        "--deadline",
        "0.2",
    )
    place = tmp_path_factory.mktemp("bench")
    done = subprocess.run(
        [sys.executable, "-m", "kvctl.bench", "pool", *size, "-o", "json", "--directory", str(place)],
        capture_output=True, text=True, timeout=200, cwd=Path.cwd(), env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(place.iterdir()) == []
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_what_is_lost_is_what_the_map_says(found: dict[str, Any]) -> None:
    assert [(row["copies"], row["stripe"]) for row in found["loss"]] == [
        (1, "2"), (1, "whole prompt"), (2, "2"), (2, "whole prompt"),
    ]  # fmt: skip
    for row in found["loss"]:
        assert row["as_the_map_says"]
        assert row["lost"] == ["storage1", "storage2"]
        # Every chunk of one copy is lost with exactly one of the stores.
        assert row["measured"]["chunks"] == pytest.approx(1 / 2 if row["copies"] == 1 else 0)
    assert found["reads"]["wrong"] == 0
    assert found["reads"]["raised"] == []
    assert found["reads"]["hits"] > 0


def test_every_phase_is_timed_and_two_copies_find_everything(found: dict[str, Any]) -> None:
    phases = ["all up", "killed", "back", "hung", "resumed"]
    for copies in (1, 2):
        rows = [row for row in found["times"] if row["copies"] == copies]
        assert [(row["phase"], row["call"]) for row in rows] == [
            (phase, call) for phase in phases for call in ("has", "get")
        ]
        assert all(0 < row["p50"] <= row["p99"] <= row["longest"] for row in rows)
        whole = [row for row in rows if copies == 2 or row["phase"] in ("all up", "back", "resumed")]
        assert [row["found"] for row in whole] == [1.0] * len(whole)


@pytest.mark.parametrize("fmt", ["table", "markdown"])
def test_tables_fit_and_show_every_row(found: dict[str, Any], fmt: str) -> None:
    text = render(found, fmt)
    assert all(f"{copies}, {stripe}" in text for copies in (1, 2) for stripe in ("2", "whole prompt"))
    assert "wrong bytes" in text
    if fmt == "table":
        assert max(map(len, text.splitlines())) <= 100


def test_the_model_alone_starts_nothing() -> None:
    done = run("--model", "--chunks", "512", "--stripes", "8", "-o", "json")
    (one, two) = json.loads(done.stdout)["model"]
    assert one["model"] == {
        "chunks": pytest.approx(0.2),
        "broken": pytest.approx(1),
        "usable": pytest.approx(32, rel=1e-4),
    }
    assert two["model"] == {"chunks": 0, "broken": 0, "usable": 512}
    assert "usable prefix" in run("--model").stdout


def test_stripes() -> None:
    assert parse_stripes("1,16,whole") == [1, 16, MAX_STRIPE]
    for text in ("", "0", "4097", "x", "1,,2", "1.5"):
        with pytest.raises(UsageError, match="KV-BENCH-023"):
            parse_stripes(text)


def test_a_chunk_is_whole_keys() -> None:
    assert "KV-BENCH-023" in str(run("--bytes", "100").exception)
