"""Whole runs with real Ansible on real sshds: their journal, their order, and what a cut leaves."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.remote import journal, supervisor
from kvctl.fleet.remote.journal import RunState, RunView, StepState
from kvctl.fleet.remote.locks import lock_node
from kvctl.fleet.remote.options import Options
from kvctl.types import codec
from kvctl.types.errors import LockedError, UsageError
from kvctl.types.plans import Plan, Step, Uncut

from .conftest import Fleet, await_true, free_port, marked
from .tree import playbooks

HOOKS = """
def observe(target, keys, *, run, cancel):
    return {key: "seen" for key in keys}

def finish(done):
    return {node: "" if what == "done" else "its checks fail" for node, what in done.touched.items()}
"""


@dataclass
class Site:
    fleet: Fleet
    root: Path
    options: Options
    number: int = 0

    def run_dir(self) -> Path:
        self.number += 1
        return self.root / "state" / "runs" / f"r-20260101-00000{self.number}-{os.getpid() % 10000:04d}"

    def step(self, name: str, node: str, **more: Any) -> Step:
        args = {"path": str(self.root / f"{name}.out"), "content": name, **more.pop("args", {})}
        fields: dict[str, Any] = {"role": "demo", "preconditions": {}, "changes": (), "because": (), **more}
        return Step(id=name, node=node, verb="apply", args=args, **fields)

    def wrote(self, name: str) -> bool:
        return (self.root / f"{name}.out").exists()


def plan(*steps: Step, desired: dict[str, dict[str, Any]] | None = None) -> Plan:
    return Plan("p-1", "hash", "test", "2026-01-01T00:00:00Z", {}, steps=steps, desired=desired or {})


@pytest.fixture
def site(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    (tmp_path / "runhooks.py").write_text(HOOKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    options = Options(
        state_dir=str(tmp_path / "state"),
        playbooks=str(playbooks(tmp_path)),
        targets=fleet.targets,
        observe="runhooks:observe",
    )
    made = Site(fleet, tmp_path, options)
    yield made
    for run_dir in journal.run_directories(tmp_path / "state"):
        supervisor.request_cancel(run_dir)
        await_true(lambda d=run_dir: journal.live_holder(d) is None, 40, "the supervisor's end")  # type: ignore[misc]
        left = marked(run_dir.name, name="KVCTL_RUN")
        assert left == [], f"left of {run_dir.name}: {left}"
        assert _masters(run_dir.name) == []


def _masters(run: str) -> list[str]:
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if run in line and "[mux]" in line]


def ended(handle: supervisor.RunHandle) -> RunView:
    return handle.wait(120)


def names(run_dir: Path) -> list[str]:
    return [str(event["event"]) for event in journal.read_events(run_dir)]


def test_run_does_its_steps_in_order_and_says_so(site: Site) -> None:
    run_dir = site.run_dir()
    steps = (site.step("s01", "n1"), site.step("s02", "n2"), site.step("s03", "n1"))
    handle = supervisor.start(run_dir, plan(*steps), replace(site.options, finish="runhooks:finish"))
    events = list(handle.events())
    view = ended(handle)
    assert view.state is RunState.FINISHED
    assert {step.id: step.state for step in view.steps.values()} == dict.fromkeys(("s01", "s02", "s03"), StepState.DONE)
    assert [change["task"] for change in view.steps["s01"].changed] == ["Write"]
    assert view.nodes["n1"].state == view.nodes["n2"].state == "returned"
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    order = [event["step"] for event in events if event["event"] == "step.started" and event["node"] == "n1"]
    assert order == ["s01", "s03"]
    assert events[-1]["event"] == "run.finished"


def test_failed_step_skips_its_node_alone_and_keeps_it_drained(site: Site) -> None:
    run_dir = site.run_dir()
    steps = (site.step("s01", "n1", args={"fail": True}), site.step("s02", "n1"), site.step("s03", "n2"))
    view = ended(supervisor.start(run_dir, plan(*steps), replace(site.options, finish="runhooks:finish")))
    assert view.state is RunState.PARTIAL
    assert view.steps["s01"].state is StepState.FAILED
    assert "the drive is on fire" in view.steps["s01"].error["why"]
    assert view.steps["s02"].state is StepState.SKIPPED
    assert view.steps["s03"].state is StepState.DONE
    assert not site.wrote("s02")
    assert (view.nodes["n1"].state, view.nodes["n1"].why) == ("drained", "its checks fail")
    # a resumed run retries what failed and leaves out what is done
    kept = json.loads((run_dir / "plan.json").read_text())
    del kept["steps"][0]["args"]["fail"]
    (run_dir / "plan.json").write_text(json.dumps(kept))
    again = ended(supervisor.resume(run_dir))
    assert again.state is RunState.FINISHED
    assert names(run_dir).count("step.started") == 4
    with pytest.raises(UsageError):
        supervisor.resume(run_dir)


def test_dead_node_does_not_hold_up_the_rest(site: Site) -> None:
    targets = {**site.fleet.targets, "n1": replace(site.fleet.targets["n1"], port=free_port())}
    run_dir = site.run_dir()
    steps = (site.step("s01", "n1"), site.step("s02", "n2"))
    view = ended(supervisor.start(run_dir, plan(*steps), replace(site.options, targets=targets)))
    assert view.state is RunState.PARTIAL
    assert view.nodes["n1"].state == "unreachable"
    assert view.steps["s01"].state is StepState.SKIPPED
    assert view.steps["s02"].state is StepState.DONE


def test_precondition_that_changed_stops_the_step_before_it_starts(site: Site) -> None:
    run_dir = site.run_dir()
    step = site.step("s01", "n1", preconditions={"nic.psid:eth0": "MT_1"})
    view = ended(supervisor.start(run_dir, plan(step), site.options))
    assert view.state is RunState.FAILED
    assert view.steps["s01"].error["code"] == "KV-RUN-021"
    assert "MT_1" in view.steps["s01"].error["why"]
    assert "step.started" not in names(run_dir)
    assert not site.wrote("s01")


def test_preconditions_are_read_by_the_probe(site: Site) -> None:
    machine_id = Path("/etc/machine-id").read_text().strip()
    run_dir = site.run_dir()
    steps = (
        site.step("s01", "n1", preconditions={"host.machine_id": machine_id}),
        site.step("s02", "n2", preconditions={"host.machine_id": "0" * 32}),
        site.step("s03", "n3", preconditions={"nic.psid:nosuch0": "MT_1"}),
    )
    options = replace(site.options, observe="kvctl.fleet.remote.observe:observe")
    view = ended(supervisor.start(run_dir, plan(*steps), options))
    assert view.steps["s01"].state is StepState.DONE
    assert view.steps["s02"].error["code"] == "KV-RUN-021"
    assert view.steps["s03"].error["code"] == "KV-RUN-022"


def test_canary_that_fails_stops_the_rest(site: Site) -> None:
    run_dir = site.run_dir()
    steps = (site.step("s01", "n1"), site.step("s02", "n2", args={"fail": True}), site.step("s03", "n3"))
    view = ended(supervisor.start(run_dir, plan(*steps), replace(site.options, canary=("n2",))))
    assert view.steps["s02"].state is StepState.FAILED
    assert {view.steps["s01"].state, view.steps["s03"].state} == {StepState.SKIPPED}
    assert "canary n2" in view.steps["s01"].why


def test_max_fail_stops_what_has_not_begun(site: Site) -> None:
    run_dir = site.run_dir()
    steps = (site.step("s01", "n1", args={"fail": True}), site.step("s02", "n2"), site.step("s03", "n3"))
    view = ended(supervisor.start(run_dir, plan(*steps), replace(site.options, max_fail=1, concurrency=1)))
    assert view.state is RunState.FAILED
    assert {view.steps["s02"].state, view.steps["s03"].state} == {StepState.SKIPPED}


def test_second_run_is_refused_with_the_firsts_name(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    first = site.run_dir()
    one = supervisor.start(first, plan(site.step("s01", "n1", args={"while_exists": str(gate)})), site.options)
    assert journal.load(first).state is RunState.RUNNING
    with pytest.raises(LockedError) as caught:
        supervisor.start(site.run_dir(), plan(site.step("s02", "n2")), site.options)
    assert caught.value.code == "KV-RUN-010"
    assert first.name in caught.value.why
    gate.unlink()
    assert ended(one).state is RunState.FINISHED


def test_node_that_another_run_holds_is_left_alone(site: Site) -> None:
    run_dir = site.run_dir()
    with lock_node(site.fleet.targets["n1"], "r-20250101-000000-zzzz"):
        view = ended(supervisor.start(run_dir, plan(site.step("s01", "n1"), site.step("s02", "n2")), site.options))
    assert view.steps["s01"].error["code"] == "KV-RUN-011"
    assert "r-20250101-000000-zzzz" in view.steps["s01"].error["why"]
    assert view.steps["s02"].state is StepState.DONE


def test_converge_runs_every_node_in_one_go(site: Site) -> None:
    desired = {
        node: {"demo": {"path": str(site.root / f"{node}.out"), "content": "x", "fail": node == "n2"}}
        for node in ("n1", "n2", "n3")
    }
    run_dir = site.run_dir()
    view = ended(supervisor.start(run_dir, plan(desired=desired), replace(site.options, converge=True)))
    assert view.state is RunState.PARTIAL
    assert {node: view.steps[f"converge-{node}"].state for node in desired} == {
        "n1": StepState.DONE,
        "n2": StepState.FAILED,
        "n3": StepState.DONE,
    }
    assert [change["task"] for change in view.steps["converge-n1"].changed] == ["Write"]
    desired["n2"]["demo"]["fail"] = False
    ended(supervisor.start(site.run_dir(), plan(desired=desired), replace(site.options, converge=True)))
    last = site.run_dir()
    view = ended(supervisor.start(last, plan(desired=desired), replace(site.options, converge=True)))
    assert view.state is RunState.FINISHED
    assert [step.changed for step in view.steps.values()] == [[], [], []]


@pytest.mark.parametrize("how", ["file", "signal"])
def test_a_run_is_cut_from_outside_too(site: Site, tmp_path: Path, how: str) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run_dir = site.run_dir()
    handle = supervisor.start(run_dir, plan(site.step("s01", "n1", args={"while_exists": str(gate)})), site.options)
    await_true(lambda: _at_work(run_dir.name, gate), 60, "the step to be at work")
    if how == "file":
        assert supervisor.request_cancel(run_dir)
    else:
        os.kill(handle.pid, signal.SIGTERM)
    view = handle.wait(30)
    assert view.state is RunState.CANCELLED
    assert view.steps["s01"].state is StepState.TODO
    assert marked(run_dir.name, name="KVCTL_RUN") == []


def test_cancel_cuts_the_run_and_resume_goes_on(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run_dir = site.run_dir()
    slow = site.step("s02", "n1", args={"while_exists": str(gate)})
    steps = (site.step("s01", "n1"), slow, site.step("s03", "n1"), site.step("s04", "n2"))
    handle = supervisor.start(run_dir, plan(*steps), replace(site.options, finish="runhooks:finish"))
    await_true(lambda: _at_work(run_dir.name, gate), 60, "the second step to be at work")
    await_true(lambda: "s04" in _finished(run_dir), 60, "the other node to be done")
    begun = time.monotonic()
    handle.cancel()
    view = handle.wait(30)
    assert time.monotonic() - begun < 30
    assert view.state is RunState.CANCELLED
    assert {step.id: step.state for step in view.steps.values()} == {
        "s01": StepState.DONE,
        "s02": StepState.TODO,
        "s03": StepState.TODO,
        "s04": StepState.DONE,
    }
    assert view.nodes["n1"].state == view.nodes["n2"].state == "drained"
    assert marked(run_dir.name, name="KVCTL_RUN") == []
    gate.unlink()
    view = ended(supervisor.resume(run_dir))
    assert view.state is RunState.FINISHED
    assert names(run_dir).count("step.finished") == 4
    assert view.nodes["n1"].state == view.nodes["n2"].state == "returned"  # n2 was done before, its checks were not


def _finished(run_dir: Path) -> list[str]:
    return [str(e["step"]) for e in journal.read_events(run_dir) if e["event"] == "step.finished"]


def _at_work(run: str, gate: Path) -> bool:
    return any(f"-e {gate}" in argv for _, argv in marked(run, name="KVCTL_RUN"))


def test_step_that_must_not_be_cut_keeps_its_identity_on_resume(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run_dir = site.run_dir()
    step = site.step("s01", "n1", uncut=Uncut.UNIT, args={"while_exists": str(gate)})
    handle = supervisor.start(run_dir, plan(step), site.options)
    await_true(lambda: _at_work(run_dir.name, gate), 60, "the step to be at work")
    handle.cancel()
    view = handle.wait(30)
    assert view.steps["s01"].state is StepState.RUNNING  # its unit may be at work on the node
    assert view.steps["s01"].unit == f"kvctl-{run_dir.name}-s01"
    gate.unlink()
    view = ended(supervisor.resume(run_dir))
    assert view.state is RunState.FINISHED
    assert names(run_dir).count("unit.started") == 1
    assert names(run_dir).count("unit.attached") == 1


_PARENT = """
import sys
from pathlib import Path
from kvctl.fleet.remote import supervisor
from kvctl.fleet.remote.options import Options
from kvctl.types import codec
from kvctl.types.plans import Plan
run_dir = Path(sys.argv[1])
plan = codec.from_json(Path(sys.argv[2]).read_bytes(), Plan)
options = codec.from_json(Path(sys.argv[3]).read_bytes(), Options)
handle = supervisor.start(run_dir, plan, options)
print("started", flush=True)
for event in handle.events():
    print(event["event"], flush=True)
"""


@pytest.mark.parametrize("seed", range(2))
def test_killed_command_line_leaves_nothing_after_thirty_seconds(site: Site, tmp_path: Path, seed: int) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run_dir = site.run_dir()
    steps = (
        site.step("s01", "n1"),
        site.step("s02", "n1", args={"while_exists": str(gate)}),
        site.step("s03", "n2", args={"while_exists": str(gate)}),
        site.step("s04", "n3", args={"sleep": 1}),
    )
    (tmp_path / "plan").write_bytes(codec.to_json(plan(*steps)))
    (tmp_path / "options").write_bytes(codec.to_json(site.options))
    argv = [sys.executable, "-c", _PARENT, str(run_dir), str(tmp_path / "plan"), str(tmp_path / "options")]
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "started\n"
    stop = random.Random(seed).randrange(1, 9)
    for _ in range(stop):  # a moment of the run that differs by seed
        if not parent.stdout.readline():
            break
    parent.kill()
    parent.wait()
    killed = time.monotonic()
    await_true(lambda: journal.live_holder(run_dir) is None, 30, "the supervisor's end")
    await_true(lambda: not marked(run_dir.name, name="KVCTL_RUN"), 30 - (time.monotonic() - killed), "no process")
    assert not site.fleet.commands()
    view = journal.load(run_dir)
    assert view.state is RunState.CANCELLED
    assert view.cancel_requested
    gate.unlink()
    assert ended(supervisor.resume(run_dir)).state is RunState.FINISHED
    assert all(site.wrote(step.id) for step in steps)


def test_killed_supervisor_is_seen_as_interrupted_and_its_workers_end(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run_dir = site.run_dir()
    handle = supervisor.start(run_dir, plan(site.step("s01", "n1", args={"while_exists": str(gate)})), site.options)
    await_true(lambda: _at_work(run_dir.name, gate), 60, "the step to be at work")
    os.kill(handle.pid, signal.SIGKILL)
    view = handle.wait(10)
    assert view.state is RunState.INTERRUPTED
    assert view.steps["s01"].state is StepState.RUNNING
    await_true(lambda: not _here(run_dir.name), 30, "ansible's end on the controller")
    # the gate stays shut for what the dead supervisor left on the node: the resumed run must end that itself
    left = [pid for pid, _ in marked(run_dir.name, name="KVCTL_RUN")]
    again = supervisor.resume(run_dir)
    await_true(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), 30, "the old task's end")
    gate.unlink()
    assert ended(again).state is RunState.FINISHED
    assert "run.swept" in names(run_dir)


def _here(run: str) -> list[tuple[int, str]]:
    return [one for one in marked(run, name="KVCTL_RUN") if "ansible-playbook" in one[1] or "remote.runner" in one[1]]


def test_detached_run_outlives_the_process_that_started_it(site: Site, tmp_path: Path) -> None:
    run_dir = site.run_dir()
    (tmp_path / "plan").write_bytes(codec.to_json(plan(site.step("s01", "n1"))))
    (tmp_path / "options").write_bytes(codec.to_json(replace(site.options, detached=True)))
    argv = [sys.executable, "-c", _PARENT, str(run_dir), str(tmp_path / "plan"), str(tmp_path / "options")]
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "started\n"
    parent.kill()
    parent.wait()
    with contextlib.suppress(subprocess.TimeoutExpired):
        await_true(lambda: journal.live_holder(run_dir) is None, 60, "the run's end")
    assert journal.load(run_dir).state is RunState.FINISHED


def test_supervisor_imports_neither_database_nor_command_line() -> None:
    code = (
        "import sys, kvctl.fleet.remote.supervisor;"
        "print([name for name in ('duckdb', 'click', 'textual', 'fastapi') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
