"""One step through ansible-runner against a real sshd: what it reports, and what it leaves behind."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.remote.ansible import Play, StepOutcome, control_directory, end_masters, environment, run_play
from kvctl.fleet.remote.processes import descendants, end_all
from kvctl.fleet.remote.target import Target, resolve

from .conftest import Sshd, await_true, free_port, marked
from .tree import playbooks

RUN = "r-20260101-000000-t001"


@pytest.fixture
def run_dir(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "runs" / RUN
    directory.mkdir(parents=True)
    yield directory
    end_masters(directory)
    end_all(lambda: [pid for pid, _ in marked(RUN, name="KVCTL_RUN")])


@pytest.fixture
def targets(sshd: Sshd, tmp_path: Path) -> dict[str, Target]:
    return resolve(sshd.inventory("n1", "n2"), tmp_path / "state")


def play(role: str, args: dict[str, Any], **more: Any) -> Play:
    extra = {
        "kvctl_run": RUN,
        "kvctl_step": "s01",
        "kvctl_role": role,
        "kvctl_verb": "apply",
        "kvctl_args": args,
        "kvctl_hosts": ["n1"],
    }
    return Play(run=RUN, label="s01", playbook="step.yml", hosts=("n1",), extra=extra, role=role, **more)


def test_change_is_reported_once_with_its_diff(run_dir: Path, targets: dict[str, Target], tmp_path: Path) -> None:
    tree, path = playbooks(tmp_path), tmp_path / "out"
    args = {"path": str(path), "content": "new\n"}
    first = run_play(play("demo", args), targets, run_dir=run_dir, playbooks=tree)
    assert (first.ok, first.error) == (True, None)
    assert [(task.host, task.role, task.task) for task in first.changed] == [("n1", "demo", "Write")]
    assert "new" in first.changed[0].diff
    assert path.read_text() == "new\n"
    second = run_play(play("demo", args), targets, run_dir=run_dir, playbooks=tree)
    assert (second.ok, second.changed) == (True, ())
    # only the log stays: neither arguments nor inventory nor runner's record of the environment
    assert [entry.name for entry in (run_dir / "steps").iterdir()] == ["s01.log"]
    assert (run_dir / "steps" / "s01.log").stat().st_mode & 0o777 == 0o600


def test_check_mode_changes_nothing(run_dir: Path, targets: dict[str, Target], tmp_path: Path) -> None:
    path = tmp_path / "out"
    args = {"path": str(path), "content": "new\n"}
    outcome = run_play(play("demo", args, check=True), targets, run_dir=run_dir, playbooks=playbooks(tmp_path))
    assert outcome.ok
    assert [task.task for task in outcome.changed] == ["Write"]
    assert not path.exists()


def test_failure_carries_the_roles_message(run_dir: Path, targets: dict[str, Target], tmp_path: Path) -> None:
    args = {"path": str(tmp_path / "out"), "content": "x", "fail": True}
    outcome = run_play(play("demo", args), targets, run_dir=run_dir, playbooks=playbooks(tmp_path))
    assert not outcome.ok
    assert outcome.error is not None
    assert outcome.error.code == "KV-RUN-023"
    assert "the drive is on fire" in outcome.failed["n1"]


def test_change_of_another_role_fails_the_step(run_dir: Path, targets: dict[str, Target], tmp_path: Path) -> None:
    args = {"path": str(tmp_path / "out"), "content": "x"}
    outcome = run_play(play("stray", args), targets, run_dir=run_dir, playbooks=playbooks(tmp_path))
    assert not outcome.ok
    assert outcome.error is not None
    assert outcome.error.code == "KV-RUN-020"
    assert "demo" in outcome.error.why


def test_unreachable_node_is_told_apart(run_dir: Path, targets: dict[str, Target], tmp_path: Path) -> None:
    moved = Path(targets["n1"].config + "-moved")
    port = free_port()
    moved.write_text(Path(targets["n1"].config).read_text().replace(f"Port {targets['n1'].port}", f"Port {port}"))
    gone = {"n1": replace(targets["n1"], port=port, config=str(moved))}
    args = {"path": str(tmp_path / "out"), "content": "x"}
    outcome = run_play(play("demo", args), gone, run_dir=run_dir, playbooks=playbooks(tmp_path))
    assert set(outcome.unreachable) == {"n1"}
    assert outcome.failed == {}
    assert outcome.error is not None
    assert outcome.error.code == "KV-SSH-001"


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_cut_step_leaves_no_process_here(run_dir: Path, targets: dict[str, Target], tmp_path: Path, how: str) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    args = {"path": str(tmp_path / "out"), "content": "x", "while_exists": str(gate)}
    cancel = threading.Event()
    seen: list[StepOutcome] = []

    def work() -> None:
        one = play("demo", args, timeout=8.0 if how == "timeout" else 120.0)
        seen.append(run_play(one, targets, run_dir=run_dir, playbooks=playbooks(tmp_path), cancel=cancel))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        if how == "cancel":
            await_true(lambda: bool(_waiting(gate)), 60, "the task to be at work on the node")
            cancel.set()
        begun = time.monotonic()
        thread.join(40)
        assert not thread.is_alive()
        assert time.monotonic() - begun < (15 if how == "cancel" else 25)
        (outcome,) = seen
        assert outcome.status == ("cancelled" if how == "cancel" else "timeout")
        assert outcome.error is not None
        assert outcome.error.code == ("KV-RUN-025" if how == "cancel" else "KV-RUN-024")
        assert [pid for pid in descendants(_me()) if _is_ansible(pid)] == []
    finally:
        gate.unlink()
        thread.join(30)


def _me() -> int:
    import os

    return os.getpid()


def _waiting(gate: Path) -> list[tuple[int, str]]:
    return [one for one in marked(RUN, name="KVCTL_RUN") if f"-e {gate}" in one[1] and "ansible" not in one[1]]


def _is_ansible(pid: int) -> bool:
    try:
        return b"ansible-playbook" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_environment_is_small_and_without_the_users_secrets(
    run_dir: Path, targets: dict[str, Target], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    env = environment(play("demo", {}), targets, run_dir, tmp_path, tmp_path)
    assert "hunter2" not in env.values()
    assert {name for name in env if not name.startswith(("ANSIBLE_", "KVCTL_"))} <= {
        "PATH",
        "HOME",
        "LANG",
        "PYTHONPATH",
        "SSH_AUTH_SOCK",
    }
    assert env["ANSIBLE_HOST_KEY_CHECKING"] == "True"


def test_long_run_directory_gets_a_short_control_path(tmp_path: Path) -> None:
    run_dir = tmp_path / ("x" * 60) / RUN
    run_dir.mkdir(parents=True)
    path = control_directory(run_dir)
    try:
        assert len(str(path)) < 80
        assert path.stat().st_mode & 0o777 == 0o700
    finally:
        path.rmdir()
