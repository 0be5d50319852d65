"""Runs as faces see them, from real journals."""

from pathlib import Path

import pytest

from kvctl.controller import runs
from kvctl.fleet.remote.journal import Journal
from kvctl.types.errors import ExitCode, UsageError

STEPS = [{"id": f"s0{i}", "node": f"n{i}", "role": "host", "verb": "apply"} for i in (1, 2)]
ERROR = {"code": "KV-RUN-020", "what": "something else changed", "why": "task X"}


def written(directory: Path, run: str, *events: tuple[str, dict[str, object]]) -> Path:
    with Journal(directory / "runs" / run) as log:
        log.append("run.started", plan="p-1", steps=STEPS)
        for name, data in events:
            log.append(name, **data)
    return directory / "runs" / run


DONE = [
    ("step.finished", {"step": "s01", "node": "n1", "changed": [{"task": "Write"}]}),
    ("step.finished", {"step": "s02", "node": "n2", "changed": []}),
]
FAILED = [("step.failed", {"step": "s02", "node": "n2", "error": ERROR})]
DEAD = [("node.unreachable", {"node": "n2", "why": "refused"})]
DRAINED = [("node.drained", {"node": "n2", "why": "net.mtu"})]


def end(state: str) -> list[tuple[str, dict[str, object]]]:
    return [("run.finished", {"state": state})]


@pytest.mark.parametrize(
    ("events", "code"),
    [
        (DONE + end("finished"), ExitCode.OK),
        (DONE + DRAINED + end("finished"), ExitCode.PARTIAL),
        (DONE + DEAD + end("finished"), ExitCode.PARTIAL),
        (DONE[:1] + FAILED + end("partial"), ExitCode.PARTIAL),
        (DONE[:1] + FAILED + end("failed"), ExitCode.PARTIAL),
        (FAILED + end("failed"), ExitCode.FAILED),
        (DONE[:1] + end("cancelled"), ExitCode.INTERRUPTED),
        (DONE[:1], ExitCode.INTERRUPTED),
    ],
    ids=["done", "drained", "dead", "partial", "failed-after-a-step", "failed", "cancelled", "killed"],
)
def test_the_exit_code_of_a_run(tmp_path: Path, events: list, code: ExitCode) -> None:
    written(tmp_path, "r-20260101-000000-abcd", *events)
    assert runs.show(tmp_path, "latest")["exit_code"] == code


def test_a_run_tells_what_was_done_and_why_the_rest_was_not(tmp_path: Path) -> None:
    written(tmp_path, "r-20260101-000000-abcd", *DONE[:1], *FAILED, *end("partial"))
    view = runs.show(tmp_path, "r-20260101-000000-abcd")
    assert (view["steps"], view["done"], view["failed"], view["not_done"], view["changed"]) == (2, 1, 1, 0, 1)
    assert [(s["id"], s["state"]) for s in view["steps_view"]] == [("s01", "done"), ("s02", "failed")]
    assert view["steps_view"][1]["why"] == "KV-RUN-020: something else changed: task X"


def test_the_newest_run_is_first_and_latest(tmp_path: Path) -> None:
    names = [f"r-202601{day:02d}-000000-abcd" for day in (3, 1, 2)]
    for name in names:
        written(tmp_path, name)
    assert [r["id"] for r in runs.newest(tmp_path, 2)] == sorted(names, reverse=True)[:2]
    assert runs.show(tmp_path, "latest")["id"] == max(names)


@pytest.mark.parametrize("name", ["latest", "r-20200101-000000-aaaa", "../x"])
def test_a_run_that_is_not_there_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        runs.find(tmp_path, name)
    assert (caught.value.code, caught.value.fix) == ("KV-RUN-001", "kvctl run ls lists the runs of this site")


def test_cancelling_a_run_that_nobody_carries_out_changes_nothing(tmp_path: Path) -> None:
    run = written(tmp_path, "r-20260101-000000-abcd", *DONE, *end("finished"))
    before = sorted(p.name for p in run.iterdir())
    assert runs.cancel(tmp_path, run.name)["state"] == "finished"
    assert sorted(p.name for p in run.iterdir()) == before
