"""Provision: hand a plan to a supervisor, follow it, and let a node return only when its critical checks pass."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvctl.controller.acts import NAMED, acting, must
from kvctl.controller.check import check
from kvctl.controller.clock import now
from kvctl.controller.plan import made
from kvctl.controller.runs import document, find
from kvctl.controller.site import Site
from kvctl.fleet.inventory.load import load
from kvctl.fleet.remote import handle, journal
from kvctl.fleet.remote.options import Finish, Options
from kvctl.fleet.remote.target import resolve
from kvctl.state import fleet
from kvctl.types.codec import from_json
from kvctl.types.errors import ExitCode
from kvctl.types.findings import Finding
from kvctl.types.plans import Plan
from kvctl.types.reports import CheckReport, critical
from kvctl.types.resources import resource

OnEvent = Callable[[dict[str, Any]], None]


def provision(
    site: Site,
    plan: Plan,
    *,
    converge: bool,
    on_event: OnEvent,
    concurrency: int = 8,
    max_fail: int | None = None,
) -> dict[str, Any]:
    """Carry the plan out and wait; the run as `runs.document` shows it. Ctrl-C cuts the run and waits for its end."""
    if not plan.steps and not converge:
        return settled(site, plan)
    run_dir = site.directory / "runs" / journal.new_run_id(datetime.now(UTC))
    options = options_for(site, plan, converge, concurrency, max_fail or 0)
    must(site.ledger, "plan.made", made(plan))
    with acting(site, "run", run_dir.name, carried(plan, options)):
        run = handle.start(run_dir, plan, options)
        if not converge:
            drain(site, {s.node for s in plan.steps}, run_dir.name)
        view = follow(run, on_event)
    return with_dead_nodes(document(view), plan.unreachable)


def carried(plan: Plan, options: Options) -> dict[str, Any]:
    """What the control log keeps of a run that begins."""
    destroyed = sorted({serial for step in plan.steps for serial in step.destroys_data})
    return {
        "plan": plan.id, "hash": plan.hash, "steps": len(plan.steps), "converge": options.converge,
        "nodes": sorted(options.targets), "destroys": destroyed[:NAMED], "destroys_total": len(destroyed),
    }  # fmt: skip


def resume(site: Site, run_id: str, *, on_event: OnEvent) -> dict[str, Any]:
    """Finish a run that was cut. Nodes are reached as the inventory says today."""
    run_dir = find(site.directory, run_id)
    plan = from_json((run_dir / handle.PLAN).read_bytes(), Plan, where=str(run_dir / handle.PLAN))
    kept = from_json((run_dir / handle.OPTIONS).read_bytes(), Options, where=str(run_dir / handle.OPTIONS))
    options = options_for(site, plan, kept.converge, kept.concurrency, kept.max_fail)
    with acting(site, "run", run_dir.name, carried(plan, options), begun="resumed"):
        view = follow(handle.resume(run_dir, options), on_event)
    return with_dead_nodes(document(view), plan.unreachable)


def options_for(site: Site, plan: Plan, converge: bool, concurrency: int, max_fail: int) -> Options:
    inventory = site.inventory
    nodes = sorted(plan.desired if converge else {s.node for s in plan.steps})
    return Options(
        state_dir=str(site.directory),
        playbooks=str(resource("playbooks")),
        targets=resolve(inventory, site.directory, nodes=nodes, transport=site.transport or None),
        pools={n.name: n.pool for n in inventory.nodes},
        canary=canary(site, plan),
        concurrency=min(concurrency, 16),
        forks=50,
        max_fail=max_fail,
        converge=converge,
        finish="kvctl.controller.provision:finish",
        inventory=str(site.loaded.path.resolve()),
        timeout=site.timeout,
        transport=site.transport,
    )


def canary(site: Site, plan: Plan) -> tuple[str, ...]:
    """One node of each role that the plan changes, when that leaves others to protect."""
    changed = [n for n in site.inventory.nodes if any(s.node == n.name for s in plan.steps)]
    first: dict[str, str] = {}
    for node in changed:
        first.setdefault(node.role, node.name)
    return tuple(first.values()) if len(changed) > len(first) else ()


def follow(run: handle.RunHandle, on_event: OnEvent) -> journal.RunView:
    """Hand on the journal's events until the supervisor ended. A second Ctrl-C leaves it to clean up alone."""
    seen = 0
    asked = False
    while True:
        try:
            for event in run.events(seen):
                seen = int(event["seq"])
                on_event(event)
            return run.wait()
        except KeyboardInterrupt:
            if asked:
                raise
            asked = True
            run.cancel()


def drain(site: Site, nodes: Iterable[str], run: str) -> None:
    set_states(site, dict.fromkeys(nodes, f"run {run} is changing it"))


def finish(done: Finish) -> Mapping[str, str]:
    """The supervisor's hook: node -> "" when it returns to service, else why it stays drained."""
    if not done.touched:
        return {}
    options = done.options
    site = Site(
        load(Path(options.inventory)), Path(options.state_dir), timeout=options.timeout, transport=options.transport
    )
    report, _ = check(site, site.select(tuple(done.touched)))
    reasons = {node: verdict(node, outcome, report) for node, outcome in done.touched.items()}
    set_states(site, reasons)
    return reasons


def verdict(node: str, outcome: str, report: CheckReport) -> str:
    dead = next((u for u in report.unreachable if u.node == node), None)
    if dead is not None:
        return f"did not answer after the change: {dead.why}"
    failing = [f for f in report.findings if f.node == node and critical(f)]
    if failing:
        return "; ".join(describe(f) for f in failing[:3])
    return "" if outcome == "done" else f"its steps ended as {outcome}"


def describe(finding: Finding) -> str:
    name = f"{finding.check} {finding.subject}".strip()
    return f"{name}: {finding.observed}, should be {finding.expected}"


def settled(site: Site, plan: Plan) -> dict[str, Any]:
    """Nothing to change: nodes that are clean are in service, and it is said so. No run is recorded."""
    report, _ = check(site, site.select(tuple(plan.facts_at)))
    reasons = {n: verdict(n, "done", report) for n in plan.facts_at}
    drained = sum(bool(why) for why in reasons.values())
    about = {"plan": plan.id, "hash": plan.hash, "returned": len(reasons) - drained, "drained": drained}
    must(site.ledger, "fleet.settled", about)
    set_states(site, reasons)
    nodes = [{"node": n, "state": "drained" if why else "returned", "why": why} for n, why in reasons.items()]
    empty = {"id": "-", "state": "finished", "plan": plan.id, "steps": 0, "done": 0, "failed": 0, "not_done": 0}
    code = ExitCode.PARTIAL if any(reasons.values()) else ExitCode.OK
    view = empty | {
        "changed": 0,
        "steps_view": [],
        "nodes_view": nodes,
        "exit_code": int(code),
        "log": "",
        "journal": "",
    }
    return with_dead_nodes(view, plan.unreachable)


def with_dead_nodes(view: dict[str, Any], unreachable: tuple[str, ...]) -> dict[str, Any]:
    """Nodes that could not even be planned for make the outcome partial."""
    known = {n["node"] for n in view["nodes_view"]}
    view["nodes_view"] += [
        {"node": n, "state": "unreachable", "why": "could not be read"} for n in unreachable if n not in known
    ]
    if unreachable and view["exit_code"] == ExitCode.OK:
        view["exit_code"] = int(ExitCode.PARTIAL)
    return view


def set_states(site: Site, reasons: Mapping[str, str]) -> None:
    """Drained with its reason, or in service when the reason is empty."""
    at = now()
    rows = [
        {
            "node": node.name,
            "role": node.role,
            "state": "drained" if reasons[node.name] else "in-service",
            "reason": reasons[node.name],
            "since": at,
        }
        for node in site.inventory.nodes
        if node.name in reasons
    ]
    with site.database.transaction() as db:
        fleet.set_node_states(db, rows)
