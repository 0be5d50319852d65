"""Status from a real state file: worst first, ages, and the one command that comes next."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kvctl.controller.status import next_command, status
from kvctl.state import fleet
from kvctl.state.database import Database
from kvctl.types.status import NodeStatus


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def finding(node: str, check: str, severity: str = "critical", verdict: str = "fail") -> dict[str, object]:
    bad = verdict == "fail" or severity == "critical"
    base = {"check": check, "node": node, "subject": "rail0", "verdict": verdict, "severity": severity}
    return base | {"bad": bad, "why": "", "observed": "1500", "expected": "9000"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """storage1 is faulty, storage2 clean, storage3 stopped answering, gpu1 was never read."""
    directory = tmp_path / "oslo"
    nodes = {"storage1": "drained", "storage2": "in-service", "storage3": "in-service", "gpu1": "new"}
    seen = {"node": "", "seconds": 0.1, "document": "{}", "error_code": None, "error": None}
    dead = {"document": None, "error_code": "KV-SSH-001", "error": "refused"}
    with Database(directory).transaction() as db:
        fleet.set_node_states(
            db, [{"node": n, "role": "r", "state": s, "reason": "", "since": ago(600)} for n, s in nodes.items()]
        )
        fleet.add_observations(
            db,
            [seen | {"node": n, "collected_at": ago(300)} for n in ("storage1", "storage2", "storage3")]
            + [seen | dead | {"node": "storage3", "collected_at": ago(5)}],
        )
        findings = [
            finding("storage1", "host.clock", "warning"),
            finding("storage1", "net.mtu"),
            finding("storage2", "nic.part", "warning", "unknown"),
        ]
        fleet.add_check_run(db, ago(300), "0" * 64, ["storage1", "storage2", "storage3"], findings)
    return directory


def test_the_worst_node_comes_first_with_its_worst_finding(site: Path) -> None:
    report = status(site)
    assert [n.node for n in report.nodes] == ["storage3", "storage1", "gpu1", "storage2"]
    faulty = report.nodes[1]
    assert (faulty.worst, faulty.faults, faulty.critical) == ("net.mtu rail0", 2, 1)
    assert {f["check"] for f in report.findings} == {"net.mtu", "host.clock"}


def test_a_node_that_stopped_answering_keeps_the_age_of_what_it_last_said(site: Path) -> None:
    dead = status(site).nodes[0]
    assert dead.error == "KV-SSH-001"
    assert dead.read_age is not None
    assert 290 < dead.read_age < 400


def test_a_node_that_was_never_read_is_unseen_and_has_no_age(site: Path) -> None:
    unseen = next(n for n in status(site).nodes if n.node == "gpu1")
    assert (unseen.state, unseen.read_age) == ("unseen", None)


def test_without_state_there_is_nothing_and_the_next_command_reads_the_fleet(tmp_path: Path) -> None:
    begun = time.monotonic()
    report = status(tmp_path / "none")
    assert (report.nodes, report.next_command) == ((), "kvctl check")
    assert time.monotonic() - begun < 5
    assert not (tmp_path / "none").exists()


def node(state: str = "in-service", faults: int = 0) -> NodeStatus:
    return NodeStatus("a", "storage", state, "", faults, 0, "", 1.0)


@pytest.mark.parametrize(
    ("nodes", "runs", "command"),
    [
        ([node("unseen")], (), "kvctl check"),
        ([node(faults=1)], (), "kvctl plan"),
        ([node("new")], (), "kvctl provision"),
        ([node("drained")], (), "kvctl provision"),
        ([node()], (), "kvctl check"),
        ([node(faults=1)], ({"id": "r-1", "state": "running"},), "kvctl run show r-1"),
        ([node(faults=1)], ({"id": "r-1", "state": "interrupted"},), "kvctl run resume r-1"),
        ([node()], ({"id": "r-1", "state": "interrupted"},), "kvctl check"),
        ([node(faults=1)], ({"id": "r-1", "state": "finished"},), "kvctl plan"),
    ],
)
def test_the_next_command(nodes: list[NodeStatus], runs: tuple[dict[str, str], ...], command: str) -> None:
    assert next_command(nodes, runs) == command
