import json
import os
from pathlib import Path

import pytest

from kvctl.bench.__main__ import main
from kvctl.bench.conditions import cpu_model
from kvctl.bench.fleet import converge_sizes, desired_state
from kvctl.types.errors import KvctlError, UsageError


@pytest.mark.parametrize(
    ("text", "hosts", "sizes"),
    [(None, 16, (4, 16)), (None, 50, (4, 16)), (None, 8, (4,)), (None, 2, (2,)), ("2, 8", 8, (2, 8)), ("4,4", 4, (4,))],
)
def test_sizes_of_converge(text: str | None, hosts: int, sizes: tuple[int, ...]) -> None:
    assert converge_sizes(text, hosts) == sizes


@pytest.mark.parametrize("text", ["", "0", "17", "4,", "x", "-1"])
def test_a_size_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        converge_sizes(text, 16)
    assert caught.value.code == "KV-BENCH-007"


def test_without_root_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["fleet"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "KV-BENCH-001" in said.err
    assert "root" in said.err


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--hosts", "0"]) == 2
    assert "--hosts" in capsys.readouterr().err


def test_the_newest_run_says_what_was_applied(tmp_path: Path) -> None:
    for run, value in (("r-20270301-090000-aaaa", "old"), ("r-20270301-090001-0000", "new")):
        (tmp_path / "site" / "runs" / run).mkdir(parents=True)
        plan = {"desired": {"storage1": {"host": value}}}
        (tmp_path / "site" / "runs" / run / "plan.json").write_text(json.dumps(plan))
    assert desired_state(tmp_path) == {"storage1": {"host": "new"}}


def test_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KvctlError) as caught:
        desired_state(tmp_path)
    assert caught.value.code == "KV-BENCH-006"


def test_the_processor_has_a_name_or_says_that_it_has_none() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 9B14\n") == "AMD EPYC 9B14"
    assert "no model name" in cpu_model("processor\t: 0\nBogoMIPS\t: 50.00\n")
