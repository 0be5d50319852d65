"""A run that is cut at any moment leaves nothing but declared units, says what it did, and can be finished."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

NODES = ("gpu1", "storage1", "storage2", "storage3")
FAULTS = {"storage1": "mtu", "storage2": "pfc-off", "storage3": "trust-pcp"}


def plant(lab):
    for node, fault in FAULTS.items():
        lab.kvctl("lab", "break", node, fault)


def processes_of(run):
    """This machine's processes, lab hosts included, that carry the run's mark; units that must not be cut aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environ = (path / "environ").read_bytes().split(b"\0")
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            group = (path / "cgroup").read_text()
        except OSError:
            continue
        marked = f"KVCTL_RUN={run}".encode() in environ or f"supervisor /{run}" in command or f"/{run}" in command
        if marked and f"kvctl-{run}-" not in group and int(path.name) != os.getpid():
            found.append(f"{path.name} {command}")
    return found


def await_clean(run, seconds=30):
    deadline = time.monotonic() + seconds
    while left := processes_of(run):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def newest_run(lab, after):
    """The id of the run that came after the first `after` ones; None while there is none."""
    runs = sorted((lab.state / "runs").glob("r-*"))
    return runs[-1].name if len(runs) > after else None


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
@pytest.mark.parametrize("turn", range(3))
def test_a_cut_run_leaves_nothing_and_is_finished_by_resume(lab, how, turn):
    moment = random.Random(f"{how}{turn}").uniform(1.0, 16.0)
    plant(lab)
    before = len(list((lab.state / "runs").glob("r-*")))
    process = lab.start("provision", "--yes")
    try:
        process.wait(moment)
    except Exception:  # noqa: BLE001 - still running, as intended
        process.send_signal(how)
    process.wait(60)
    run = newest_run(lab, before)
    if run is None:
        assert lab.kvctl("provision", "--yes", ok=(0,)).returncode == 0  # it was cut before a run began
        assert lab.bad() == []
        return
    await_clean(run)
    view = lab.json("run", "show", run, ok=(0,))
    assert view["state"] in ("cancelled", "interrupted", "finished")
    states = {s["id"]: s["state"] for s in view["steps_view"]}
    assert len(states) == view["steps"]
    assert set(states.values()) <= {"done", "todo", "running", "failed", "skipped"}
    if view["state"] != "finished":
        done = lab.json("run", "resume", run, ok=(0,))
        assert done["state"] == "finished"
        assert {s["state"] for s in done["steps_view"]} == {"done"}
    assert lab.bad() == []


def test_two_provisions_at_once(lab):
    plant(lab)
    first = lab.start("provision", "--yes")
    lock = lab.state / "provision.lock"
    deadline = time.monotonic() + 60
    second = None
    while time.monotonic() < deadline and first.poll() is None:
        if lock.exists() and lock.read_text().strip():
            second = lab.kvctl("provision", "--yes", ok=None)
            break
        time.sleep(0.1)
    assert first.wait(200) == 0
    assert second is not None
    assert second.returncode == 8
    assert "KV-RUN-010" in second.stderr
    assert lab.bad() == []


def test_cancel_from_another_terminal(lab):
    plant(lab)
    before = len(list((lab.state / "runs").glob("r-*")))
    first = lab.start("provision", "--yes")
    deadline = time.monotonic() + 60
    while (run := newest_run(lab, before)) is None or "step.started" not in journal(lab, run):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    lab.kvctl("run", "cancel", run)
    assert first.wait(60) == 130
    await_clean(run)
    view = lab.json("run", "show", run)
    assert view["state"] == "cancelled"
    assert lab.json("run", "resume", run, ok=(0,))["state"] == "finished"
    assert lab.bad() == []


def journal(lab, run):
    path = lab.state / "runs" / run / "journal.jsonl"
    return [json.loads(line)["event"] for line in path.read_text().splitlines()] if path.exists() else []


def test_runs_are_listed_newest_first(lab):
    runs = lab.json("run", "ls", ok=(0,))["runs"]
    assert [r["id"] for r in runs] == sorted((r["id"] for r in runs), reverse=True)
    assert "KV-RUN-001" in lab.kvctl("run", "show", "r-20200101-000000-aaaa", ok=(2,)).stderr


def test_status_works_beside_a_provision(lab):
    plant(lab)
    first = lab.start("provision", "--yes")
    seen = 0
    while first.poll() is None:
        assert lab.kvctl("status", ok=(0,)).stdout
        seen += 1
    assert first.returncode == 0
    assert seen > 3
