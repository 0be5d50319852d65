"""Status from what is stored. It reads no node, loads no inventory and imports neither parser nor check."""

import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvctl.state import fleet
from kvctl.state.database import Database
from kvctl.types.status import NodeStatus, StatusReport

RANK = {"drained": 1, "unseen": 2, "new": 3, "in-service": 4}


def status(directory: Path, runs: tuple[dict[str, Any], ...] = ()) -> StatusReport:
    """The fleet at a glance, worst first. `directory` is the site's state directory; `runs` are the newest runs."""
    with Database(directory).reading() as db:
        states = fleet.node_states(db) if db else {}
        seen = fleet.contacts(db) if db else {}
        findings = fleet.latest_findings(db) if db else []
    clock = time.time()
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for finding in findings:
        found[finding["node"]].append(finding)
    nodes = [node_status(name, state, seen.get(name, {}), found[name], clock) for name, state in states.items()]
    nodes.sort(key=lambda n: (not n.error, -n.critical, -n.faults, RANK[n.state], n.node))
    return StatusReport(
        site=directory.name,
        at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        nodes=tuple(nodes),
        runs=runs,
        next_command=next_command(nodes, runs),
        findings=tuple(f for f in findings if f["bad"]),
    )


def node_status(
    name: str, state: dict[str, Any], seen: dict[str, Any], findings: list[dict[str, Any]], clock: float
) -> NodeStatus:
    bad = [f for f in findings if f["bad"]]
    bad.sort(key=lambda f: (f["severity"] != "critical", f["verdict"] != "fail"))
    worst = f"{bad[0]['check']} {bad[0]['subject']}".strip() if bad else ""
    read = seen.get("read")
    return NodeStatus(
        node=name,
        role=state["role"],
        state="unseen" if read is None and state["state"] == "new" else state["state"],
        reason=state["reason"],
        faults=len(bad),
        critical=sum(f["severity"] == "critical" for f in bad),
        worst=worst,
        read_age=None if read is None else max(0.0, clock - read),
        error=seen.get("code") or "",
    )


def next_command(nodes: list[NodeStatus], runs: tuple[dict[str, Any], ...]) -> str:
    """The one command that moves things on from here."""
    if runs and runs[0]["state"] in ("running", "interrupted", "cancelled", "failed", "partial"):
        verb = "show" if runs[0]["state"] == "running" else "resume"
        if verb == "show" or any(n.faults or n.state == "drained" for n in nodes):
            return f"kvctl run {verb} {runs[0]['id']}"
    if not nodes or any(n.state == "unseen" for n in nodes):
        return "kvctl check"
    if any(n.faults for n in nodes):
        return "kvctl plan"
    if any(n.state in ("new", "drained") for n in nodes):
        return "kvctl provision"
    return "kvctl check"
