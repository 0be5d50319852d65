"""Nodes that only a network namespace of the controller reaches, as the lab's are."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kvctl.fleet.remote import ssh, trust
from kvctl.fleet.remote.ansible import Play, end_masters, run_play
from kvctl.fleet.remote.collect import Program, collect
from kvctl.fleet.remote.target import Target

from .conftest import SSHD, listening, run_sshd
from .tree import playbooks

DOCUMENT = '{"schema": 1, "host": {}}'
RUN = "r-20260101-000000-ns01"


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Target]:
    """A node whose sshd listens on the loopback of a namespace of its own."""
    if SSHD is None or os.getuid() != 0:
        pytest.skip("needs root and an sshd (network namespaces): run as root with openssh-server installed")
    name = f"kvctl-test-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        with run_sshd(tmp_path / "sshd", netns=name) as server:
            assert not listening(server.port)  # not from here
            yield server.target(tmp_path / "state", netns=name)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.parametrize("transport", ["paramiko", "system"])
def test_facts_come_through_the_namespace(inside: Target, transport: str) -> None:
    before = Path("/proc/thread-self/ns/net").readlink()
    program = Program(f"printf %s '{DOCUMENT}'", b"")
    names = [f"n{i}" for i in range(1, 5)] if transport == "paramiko" else ["n1"]
    targets = [replace(inside, node=name, transport=transport) for name in names]
    found = collect(targets, timeout=20, program=program)
    assert {one.error for one in found.values()} == {None}
    assert Path("/proc/thread-self/ns/net").readlink() == before
    assert namespaces() == {before}


def namespaces() -> set[Path]:
    """Where this process's threads are; one may end meanwhile."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):
            found.add((task / "ns/net").readlink())
    return found


def test_host_keys_are_scanned_through_the_namespace(inside: Target) -> None:
    assert {key.type for key in trust.scan(inside)} == {"ssh-ed25519"}


def test_session_and_ansible_work_through_the_namespace(inside: Target, tmp_path: Path) -> None:
    with ssh.connect(inside, timeout=10) as session:
        assert session.run("ip -br link | wc -l", timeout=10).out.strip() == b"1"
    run_dir = tmp_path / "runs" / RUN
    extra = {
        "kvctl_run": RUN,
        "kvctl_step": "s01",
        "kvctl_role": "demo",
        "kvctl_verb": "apply",
        "kvctl_args": {"path": str(tmp_path / "out"), "content": "in"},
        "kvctl_hosts": ["n1"],
    }
    play = Play(run=RUN, label="s01", playbook="step.yml", hosts=("n1",), extra=extra, role="demo")
    try:
        outcome = run_play(play, {"n1": inside}, run_dir=run_dir, playbooks=playbooks(tmp_path))
    finally:
        end_masters(run_dir)
    assert (outcome.ok, outcome.error) == (True, None)
    assert (tmp_path / "out").read_text() == "in"
