"""Taking a deployment back: units stopped and removed on the nodes, and the daemon no longer known to anybody."""

from collections.abc import Sequence
from typing import Any

from kvctl.controller import deploy_gateway, deploy_serving
from kvctl.controller import settings as settings_file
from kvctl.controller.connectors import forget, tell_stores
from kvctl.controller.deploy_steps import Work, machine, plan_of
from kvctl.controller.observe import observe
from kvctl.controller.provision import OnEvent, provision
from kvctl.controller.site import Site
from kvctl.fleet.inventory.model import Node
from kvctl.types.errors import RefusedError
from kvctl.types.facts import NodeFacts
from kvctl.types.plans import Change, Plan

SECTIONS = {"serving": "connectors", "gateway": "gateways"}
ROLES = {"serving": deploy_serving.ROLE, "gateway": deploy_gateway.ROLE}
SUFFIX = {"serving": "engine", "gateway": "gateway"}


def check_reach(site: Site, what: str, nodes: Sequence[Node]) -> None:
    """RefusedError KV-DEP-026 when engines would stay behind whose caches nobody could flush: that is the gateway's."""
    if what != "gateway":
        return
    about = settings_file.read(site.directory, site=site.inventory.site.name)
    left = [node.name for node in nodes if f"{node.name}-{SUFFIX['serving']}" in about.connectors]
    if left:
        raise RefusedError(
            "KV-DEP-026", f"engines would stay without a gateway: {', '.join(left)}",
            why="what they cached could not be reached by an erasure any more",
            fix=f"kvctl deploy serving --revert --limit {','.join(left)}, then the gateway",
        )  # fmt: skip


def revert_plan(site: Site, what: str, nodes: Sequence[Node], facts: dict[str, NodeFacts]) -> Plan:
    role = ROLES[what]
    change = (Change(role, "units", "there", "gone"),)
    work = (Work(one.name, {}, change, machine(facts[one.name])) for one in nodes)
    return plan_of(site, role, "revert", f"deploy.{what}", work)


def revert(site: Site, what: str, nodes: Sequence[Node], *, on_event: OnEvent, concurrency: int = 8) -> dict[str, Any]:
    """Stop what was deployed on these nodes; `what`: serving or gateway. Its keys stay on the node, and open nothing.

    The controller forgets it first: from then on there is no lease and no snapshot for it, whether its node answers
    or not. "reverted" is empty unless the run on the nodes ended well. UnreachableError of a store that is to be told
    comes when that run is over. RefusedError KV-DEP-026 as `check_reach` raises it.
    """
    check_reach(site, what, nodes)
    for node in nodes:
        forget(site, f"{node.name}-{SUFFIX[what]}", SECTIONS[what])
    seen = observe(site, nodes)
    there = [node for node in nodes if node.name in seen.facts]
    problems = {one.node: one.why for one in seen.unreachable}
    runs: list[dict[str, Any]] = []

    def carried_out(plan: Plan) -> bool:
        runs.append(provision(site, plan, converge=False, on_event=on_event, concurrency=concurrency))
        return not runs[-1]["exit_code"]

    stopped = bool(there) and carried_out(revert_plan(site, what, there, seen.facts))
    # Only now: a store that is away must not keep an engine running.
    if what == "serving" and (stores := tell_stores(site)) is not None:
        carried_out(stores)
    return {"runs": runs, "reverted": [node.name for node in there] if stopped else [], "problems": problems}
