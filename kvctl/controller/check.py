"""Check: facts to findings, stored so that status needs no node."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from kvctl.controller.kept import kept
from kvctl.controller.observe import Observation, observe
from kvctl.controller.site import Site
from kvctl.fleet.checks.run import run_checks
from kvctl.fleet.facts.build import node_facts
from kvctl.fleet.inventory.model import Node
from kvctl.state import fleet
from kvctl.types.facts import NodeFacts
from kvctl.types.reports import CheckReport


def check(
    site: Site, nodes: tuple[Node, ...], switches: Mapping[str, Any] | None = None
) -> tuple[CheckReport, Observation]:
    """Read the nodes, judge them, store what was seen and found in one transaction."""
    seen = observe(site, nodes)
    with site.database.transaction() as db:
        documents = fleet.latest_documents(db)
        previous = {name: node_facts(name, json.loads(text)) for name, text in documents.items()}
        report = judge(site, nodes, seen, previous, switches)
        fleet.add_observations(db, seen.rows)
        store(db, site, report, seen)
    return report, seen


def checked(report: CheckReport) -> dict[str, Any]:
    """What the control log keeps of it: how many, and of what."""
    return {
        "nodes": len(report.nodes), "unreachable": len(report.unreachable), "findings": len(report.bad),
        "verdicts": report.counts(),
    }  # fmt: skip


def judge(
    site: Site,
    nodes: tuple[Node, ...],
    seen: Observation,
    previous: Mapping[str, NodeFacts],
    switches: Mapping[str, Any] | None,
) -> CheckReport:
    inventory = site.inventory
    # Pairs need both ends: a node that is not asked for now is judged against what it last said.
    facts = {n: f for n, f in previous.items() if inventory.node(n)} | seen.facts
    today = datetime.now(UTC).date()
    findings = run_checks(
        inventory, facts, today=today, previous=previous, switches=switches or None, certificates=kept(site)
    )
    # What is said of a switch belongs to no node of the inventory and is kept.
    mine = tuple(f for f in findings if f.node in seen.facts or not inventory.node(f.node))
    return CheckReport(
        site=inventory.site.name,
        at=seen.at,
        lab=inventory.site.lab,
        nodes=tuple(n.name for n in nodes),
        findings=mine,
        unreachable=seen.unreachable,
        seconds=seen.seconds,
    )


def store(db: fleet.Connection, site: Site, report: CheckReport, seen: Observation) -> None:
    rows = [asdict(f) | {"bad": f.bad} for f in report.findings]
    fleet.add_check_run(db, report.at, site.loaded.sha256, seen.facts, rows)
    known = fleet.node_states(db)
    new = [n for n in site.inventory.nodes if n.name not in known]
    fleet.set_node_states(
        db, [{"node": n.name, "role": n.role, "state": "new", "reason": "", "since": report.at} for n in new]
    )
    fleet.forget_nodes(db, [n.name for n in site.inventory.nodes])
