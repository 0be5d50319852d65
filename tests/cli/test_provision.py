"""What is asked before anything is changed, and the plan as a diff."""

import io
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kvctl.cli.plan import as_diff
from kvctl.cli.provision import confirm
from kvctl.types.errors import ExitCode, UsageError
from kvctl.types.plans import Change, Plan, Step

STEP = Step(
    "s01", "a", "roce", "apply", {}, {}, (Change("rail0", "net.mtu", "1500", "9000\x1b"),), ("net.mtu",), cuts_ssh=True
)
PLAN = Plan("p-1", "", "oslo", "", {"a": "t", "b": "t"}, steps=(STEP,), desired={"a": {}, "b": {}})


def test_a_diff_has_each_value_before_and_after() -> None:
    assert as_diff(PLAN).splitlines() == [
        "s01 a roce [may cut SSH (reverts unless confirmed)]",
        "- rail0 net.mtu: 1500",
        "+ rail0 net.mtu: 9000?",
    ]


def test_without_a_terminal_and_without_yes_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for converge in (False, True):
        with pytest.raises(UsageError) as caught:
            confirm(PLAN, converge, yes=False, site="oslo")
        assert caught.value.code == "KV-CLI-004"
    confirm(PLAN, converge=False, yes=True, site="oslo")


def test_a_dry_run_in_json_is_one_document_on_stdout_even_when_no_node_answers(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(f"site: {{name: t}}\nnodes:\n- {{name: a, address: 127.0.0.1, port: {port}, role: storage}}\n")
    argv = [sys.executable, "-m", "kvctl", "provision", "-i", str(inventory), "--dry-run", "-o", "json"]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "KVCTL_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == ExitCode.UNREACHABLE, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["plan"]["unreachable"]) == ("kvctl.plan/1", ["a"])


def test_no_steps_is_no_question() -> None:
    confirm(Plan("p-1", "", "oslo", "", {"a": "t"}), converge=False, yes=False, site="oslo")
