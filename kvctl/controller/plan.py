"""Plan: fresh facts and findings to a stored plan with an id."""

import json
from typing import Any

from kvctl.controller.check import check
from kvctl.controller.clock import now
from kvctl.controller.site import Site
from kvctl.fleet.inventory.model import Node
from kvctl.fleet.plan.build import build
from kvctl.state import fleet
from kvctl.types.codec import from_builtins, to_builtins
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.plans import Plan
from kvctl.types.reports import PlanReport


def make_plan(site: Site, nodes: tuple[Node, ...], may_destroy: frozenset[str] = frozenset()) -> PlanReport:
    """Read the nodes, judge them and store the plan that would put them right."""
    report, seen = check(site, nodes)
    plan = build(
        site.inventory,
        seen.facts,
        report.findings,
        created=now(),
        limit=frozenset(n.name for n in nodes),
        may_destroy=may_destroy,
    )
    with site.database.transaction() as db:
        fleet.add_plan(db, plan.id, plan.created, json.dumps(to_builtins(plan)))
    return PlanReport(plan, report)


def made(plan: Plan) -> dict[str, Any]:
    """What the control log keeps of it: its hash stands for the whole of it."""
    return {
        "plan": plan.id, "hash": plan.hash, "steps": len(plan.steps), "nodes": len(plan.nodes),
        "refusals": len(plan.refusals), "unreachable": len(plan.unreachable),
        "destroys": len({serial for step in plan.steps for serial in step.destroys_data}),
    }  # fmt: skip


def renewed(site: Site, plan_id: str) -> PlanReport:
    """The stored plan made again from today's facts. Raises RefusedError when it comes out different."""
    approved = stored_plan(site, plan_id)
    report = make_plan(site, site.select(approved.nodes), frozenset(approved.destroy))
    confirm_fresh(approved, report.plan)
    return report


def stored_plan(site: Site, plan_id: str) -> Plan:
    """A plan that was made before. Raises UsageError when there is none with that id."""
    with site.database.reading() as db:
        text = fleet.plan_document(db, plan_id) if db else None
    if text is None:
        raise UsageError("KV-PLAN-010", f"no plan {plan_id}", fix="kvctl plan makes one and prints its id")
    return from_builtins(json.loads(text), Plan)


def confirm_fresh(approved: Plan, fresh: Plan) -> None:
    """Refuse to carry out a plan when today's facts would give another one."""
    if approved.hash != fresh.hash:
        raise RefusedError(
            "KV-PLAN-011",
            f"plan {approved.id} no longer fits the fleet",
            why=f"facts or inventory changed since {approved.created}; today's plan is {fresh.id}",
            fix=f"read it: kvctl plan; then: kvctl provision --plan {fresh.id}",
        )
