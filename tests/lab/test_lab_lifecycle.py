"""`kvctl lab` leaves nothing behind, whatever happened: a clean end, a crash half way up, kill -9 of anything."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.fleet.lab import cgroups, guard, host, layout, lifecycle, loops, mounts, network, processes, state
from kvctl.types.errors import KvctlError, UsageError

pytestmark = pytest.mark.lab
NAME = "kvlife"
NODES = "storage=2"


def traces(lab: layout.Layout) -> dict[str, object]:
    """Everything of the machine that a lab changes."""
    return {
        "mounts": mounts.below(lab.directory),
        "namespaces": network.namespaces(NAME),
        "cgroups": cgroups.names(NAME),
        "loops": loops.attached(lab.directory),
        "inotify": lifecycle.INOTIFY.read_text(),
        "processes": [p for p in Path("/proc").glob("[0-9]*/cmdline") if mentions(p, str(lab.directory))],
        "files": lab.directory.exists() and sorted(lab.directory.iterdir()),
    }


def mentions(cmdline: Path, text: str) -> bool:
    try:
        return int(cmdline.parent.name) != os.getpid() and text in cmdline.read_text().replace("\0", " ")
    except OSError:
        return False


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[layout.Layout]:
    found = layout.from_environment({"KVCTL_LAB_NAME": NAME, "KVCTL_LAB_DIR": str(tmp_path / "lab")})
    before = {**traces(found), "files": False}
    yield found
    lifecycle.down(found, print)
    assert traces(found) == before


def up(lab: layout.Layout, nodes: str = NODES, clean: bool = True) -> None:
    lifecycle.up(lab, nodes, clean=clean, timeout=120, say=print)


def supervisors(lab: layout.Layout) -> list[processes.Started]:
    current = state.read(lab)
    assert current is not None
    return list(current.supervisors.values())


def test_up_can_be_repeated_and_changes_nothing(lab: layout.Layout) -> None:
    up(lab)
    first = supervisors(lab)
    up(lab)
    assert supervisors(lab) == first


def test_other_nodes_are_refused_while_a_lab_is_up(lab: layout.Layout) -> None:
    up(lab)
    with pytest.raises(UsageError) as caught:
        up(lab, "storage=3")
    assert caught.value.code == "KV-LAB-012"


def test_initial_faults_are_planted_once(lab: layout.Layout) -> None:
    up(lab, clean=False)
    assert {s.node: s.planted for s in lifecycle.status(lab)} == {
        "storage1": ("mtu", "lba-512"), "storage2": ("nic-firmware",),
    }  # fmt: skip
    lifecycle.mend_node(lab, "storage2", "", timeout=60, say=print)
    up(lab, clean=False)
    assert {s.node: s.planted for s in lifecycle.status(lab)}["storage2"] == ()


def test_down_after_kill_of_everything(lab: layout.Layout) -> None:
    up(lab)
    lifecycle.break_node(lab, "storage1", "cut")
    current = state.read(lab)
    assert current is not None
    for process in [*supervisors(lab), *current.watchers.values()]:
        assert processes.send(process, signal.SIGKILL)
    pids = [m for m in cgroups.members(lab.machine("storage1")) if m.pid != host.leader(lab, "storage1")]
    assert processes.send(pids[0], signal.SIGKILL)  # nspawn itself


def test_down_without_its_state(lab: layout.Layout) -> None:
    up(lab)
    text = json.loads(lab.state_file.read_text())
    lab.state_file.write_text("{")
    lifecycle.down(lab, print)
    lifecycle.INOTIFY.write_text(str(text["inotify_was"] or lifecycle.INOTIFY.read_text()))  # only the state knew it


def test_a_crash_half_way_up_can_be_continued(lab: layout.Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    real = host.start

    def crash(lab_: layout.Layout, node: object, *rest: object) -> object:
        if getattr(node, "name", "") == "storage2":
            raise KeyboardInterrupt
        return real(lab_, node, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(host, "start", crash)
    with pytest.raises(KeyboardInterrupt):
        up(lab)
    monkeypatch.undo()
    up(lab)
    assert {s.state for s in lifecycle.status(lab)} == {"running"}


def test_a_crash_half_way_up_can_be_taken_down(lab: layout.Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KvctlError("KV-LAB-007", "no guard")

    monkeypatch.setattr(guard, "attach", fail)
    with pytest.raises(KvctlError):
        up(lab)
    assert not any(cgroups.members(lab.machine(node)) for node in ("storage1", "storage2"))  # no guard, no process


def test_a_killed_up_command_can_be_taken_down(lab: layout.Layout) -> None:
    env = {**os.environ, "KVCTL_LAB_NAME": NAME, "KVCTL_LAB_DIR": str(lab.directory)}
    child = subprocess.Popen(
        [sys.executable, "-m", "kvctl", "lab", "up", "--nodes", NODES], env=env, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("storage1: booting"):
            child.kill()
            break
    child.wait()


def test_a_node_goes_off_and_on(lab: layout.Layout) -> None:
    up(lab)
    lifecycle.break_node(lab, "storage1", "off")
    assert {s.node: s.state for s in lifecycle.status(lab)} == {"storage1": "off", "storage2": "running"}
    lifecycle.power_on(lab, "storage1", timeout=60, say=print)
    assert {s.state for s in lifecycle.status(lab)} == {"running"}


def test_cut_takes_ssh_away_until_the_mtu_is_back(lab: layout.Layout) -> None:
    up(lab)
    lifecycle.break_node(lab, "storage1", "cut")
    address = lifecycle.node_named(lab, "storage1").address

    def answers() -> bool:
        return network.inside(NAME, lambda: lifecycle.banner(address))

    assert answers()
    network.set_link(lab, "storage1", "enp65s0f0np0", mtu=1500)
    deadline = time.monotonic() + 20  # the watcher hears of the change from the kernel
    while answers():
        assert time.monotonic() < deadline, "SSH still answers"
    network.set_link(lab, "storage1", "enp65s0f0np0", mtu=9000)
    lifecycle.power_on(lab, "storage1", timeout=20, say=print)  # waits for its banner
    assert answers()


def test_a_pulled_cable_takes_the_carrier_away(lab: layout.Layout) -> None:
    up(lab)
    lifecycle.break_node(lab, "storage2", "link-down")
    carrier = ["nsenter", f"--net=/run/netns/{NAME}-storage2", "ip", "-o", "link", "show", "enp65s0f0np0"]
    assert "NO-CARRIER" in subprocess.run(carrier, capture_output=True, text=True, check=True).stdout
    lifecycle.mend_node(lab, "storage2", "link-down", timeout=60, say=print)
    assert "NO-CARRIER" not in subprocess.run(carrier, capture_output=True, text=True, check=True).stdout


def test_a_fault_that_a_node_cannot_have_is_refused(lab: layout.Layout) -> None:
    up(lab, "gpu=1")
    with pytest.raises(UsageError) as caught:
        lifecycle.break_node(lab, "gpu1", "lba-512")
    assert caught.value.code == "KV-LAB-016"
    with pytest.raises(UsageError) as caught:
        lifecycle.break_node(lab, "gpu9", "mtu")
    assert caught.value.code == "KV-LAB-014"
