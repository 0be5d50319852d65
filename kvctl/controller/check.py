"""Check: facts to findings, stored so that status needs no node."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from kvctl.controller.observe import Observation, observe, stored
from kvctl.controller.site import Site
from kvctl.fleet.checks.run import run_checks
from kvctl.fleet.inventory.model import Node
from kvctl.state import fleet
from kvctl.types.facts import NodeFacts
from kvctl.types.findings import Finding
from kvctl.types.reports import CheckReport


def check(
    site: Site, nodes: tuple[Node, ...], switches: Mapping[str, Any] | None = None
) -> tuple[CheckReport, Observation]:
    """Read the nodes, judge them, store the findings."""
    previous = stored(site)
    seen = observe(site, nodes)
    # Pairs need both ends: a node that is not asked for now is judged against what it last said.
    facts = {n: f for n, f in previous.items() if site.inventory.node(n)} | seen.facts
    findings = judge(site, facts, previous, switches or {})
    wanted = {n.name for n in nodes}
    # What is said of a switch belongs to no node of the inventory and is kept.
    mine = tuple(f for f in findings if (f.node in seen.facts and f.node in wanted) or not site.inventory.node(f.node))
    report = CheckReport(
        site=site.inventory.site.name,
        at=seen.at,
        lab=site.inventory.site.lab,
        nodes=tuple(n.name for n in nodes),
        findings=mine,
        unreachable=seen.unreachable,
        seconds=seen.seconds,
    )
    store(site, report, seen)
    return report, seen


def judge(
    site: Site, facts: Mapping[str, NodeFacts], previous: Mapping[str, NodeFacts], switches: Mapping[str, Any]
) -> tuple[Finding, ...]:
    return run_checks(site.inventory, facts, today=datetime.now(UTC).date(), previous=previous, switches=switches)


def store(site: Site, report: CheckReport, seen: Observation) -> None:
    rows = [asdict(f) | {"bad": f.bad} for f in report.findings]
    with site.database.transaction() as db:
        fleet.add_check_run(db, report.at, site.loaded.sha256, seen.facts, rows)
        known = fleet.node_states(db)
        new = [n for n in site.inventory.nodes if n.name not in known]
        fleet.set_node_states(
            db, [{"node": n.name, "role": n.role, "state": "new", "reason": "", "since": report.at} for n in new]
        )
        fleet.forget_nodes(db, [n.name for n in site.inventory.nodes])
