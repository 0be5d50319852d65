"""Locks end with their holder, and name it while it lives."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kvctl.fleet.remote import ssh
from kvctl.fleet.remote.locks import lock_controller, lock_node
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import LockedError

from .conftest import await_true


def test_second_controller_is_told_who_has_it(tmp_path: Path) -> None:
    with lock_controller(tmp_path, "r-1"):
        with pytest.raises(LockedError) as caught:
            lock_controller(tmp_path, "r-2")
        assert caught.value.code == "KV-RUN-010"
        assert "r-1" in caught.value.why
        assert "kvctl run cancel r-1" in caught.value.fix
        assert int(caught.value.exit_code) == 8
    lock_controller(tmp_path, "r-2").release()


def test_controllers_lock_ends_with_a_killed_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kvctl.fleet.remote.locks import lock_controller;"
        "lock = lock_controller(Path(sys.argv[1]), 'r-1'); print('held', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockedError):
        lock_controller(tmp_path, "r-2")
    holder.kill()
    holder.wait()
    lock_controller(tmp_path, "r-2").release()


@pytest.mark.parametrize("transport", ["paramiko", "system"])
def test_node_lock_names_its_holder_and_ends_with_its_channel(target: Target, tmp_path: Path, transport: str) -> None:
    path = str(tmp_path / "node" / "lock")
    over = replace(target, transport=transport)
    lock = lock_node(over, "r-20260101-000000-aaaa", path=path)
    assert lock.held
    assert json.loads(Path(path).read_text())["run"] == "r-20260101-000000-aaaa"
    with pytest.raises(LockedError) as caught:
        lock_node(target, "r-20260101-000000-bbbb", path=path)
    assert caught.value.code == "KV-RUN-011"
    assert "r-20260101-000000-aaaa" in caught.value.why
    lock.release()
    assert not lock.held
    await_true(lambda: Path(path).read_text() == "", 10, "the holder on the node to end")
    lock_node(target, "r-20260101-000000-bbbb", path=path).release()


def test_cut_connection_is_noticed(target: Target, tmp_path: Path) -> None:
    path = str(tmp_path / "node" / "lock")
    lock = lock_node(target, "r-20260101-000000-aaaa", path=path)
    lock.session.abort()
    await_true(lambda: not lock.held, 10, "the loss to be seen")
    lock.release()
    await_true(lambda: Path(path).read_text() == "", 10, "the holder on the node to end")


def test_unit_of_another_run_keeps_the_node(target: Target, tmp_path: Path) -> None:
    units = (
        "kvctl-class@eth0.service loaded active exited Class\n"
        "kvctl-r-20260101-000000-aaaa-s04.service loaded {state} running Flash\n"
    )
    for state, run, free in (
        ("active", "r-20260101-000000-bbbb", False),
        ("active", "r-20260101-000000-aaaa", True),
        ("failed", "r-20260101-000000-bbbb", True),
    ):
        with ssh.connect(target, timeout=10):
            taken = _with_units(target, tmp_path, units.format(state=state), run)
        assert (taken == "") is free, (state, run, taken)
        assert free or "kvctl-r-20260101-000000-aaaa-s04.service" in taken


def _with_units(target: Target, tmp_path: Path, units: str, run: str) -> str:
    """Run the lock's own script where systemctl lists `units`, as a node with that unit would."""
    from kvctl.fleet.remote import locks

    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "systemctl").write_text(f"#!/bin/sh\ncat <<'EOF'\n{units}EOF\n")
    (tools / "systemctl").chmod(0o755)
    argv = [sys.executable, "-c", locks._SCRIPT, "{}", run, str(tmp_path / "lock")]
    done = subprocess.run(
        argv, input="", capture_output=True, text=True, check=True, env={"PATH": f"{tools}:/usr/bin:/bin"}
    )
    return done.stdout.strip().removeprefix("locked")
