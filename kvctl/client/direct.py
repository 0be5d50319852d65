"""The direct carrier: the controller's services in this process, over a local state directory.

Services are imported when they are called, because `kvctl status` must start without SSH, checks or an inventory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kvctl.client.controller import ControllerClient
    from kvctl.controller.access import HostKeys
    from kvctl.controller.deploy import Wanted
    from kvctl.controller.deploy_gateway import WantedGateway
    from kvctl.controller.deploy_serving import WantedEngine
    from kvctl.controller.site import Site
    from kvctl.fleet.remote.bootstrap import Bootstrapped
    from kvctl.types.errors import KvctlError
    from kvctl.types.plans import Plan
    from kvctl.types.reports import CheckReport, PlanReport
    from kvctl.types.status import StatusReport


def no_one_to_tell(kind: str, error: KvctlError) -> None:
    raise error


@dataclass(frozen=True)
class Direct:
    """The fleet, worked on in this process; its changes go on record with the site's controller, wherever that is."""

    inventory: Path
    state_dir: Path
    concurrency: int = 32
    timeout: float = 60.0
    transport: str = ""
    controller: Callable[[], ControllerClient] | None = None  # None: a kvctld of this state, or this process
    unrecorded: Callable[[str, KvctlError], None] = no_one_to_tell  # what happened and is not on record

    @cached_property
    def site(self) -> Site:
        from kvctl.client.choose import nearest, settings_of
        from kvctl.client.ledger import Recorder
        from kvctl.controller.site import open_site

        found = open_site(
            self.inventory, self.state_dir, concurrency=self.concurrency, timeout=self.timeout, transport=self.transport
        )
        find = self.controller or (lambda: nearest(settings_of(found, self.inventory, self.state_dir)))
        return replace(found, ledger=Recorder(find, found.inventory.site.name, self.unrecorded))

    @cached_property
    def directory(self) -> Path:
        """The site's state directory; the inventory is only read when it changed since the last time."""
        from kvctl.controller.site_index import recall

        name = recall(self.state_dir, self.inventory)
        return self.state_dir / name if name else self.site.directory

    def nodes(self) -> dict[str, str]:
        """Node name -> role name, in the inventory's order."""
        return {n.name: n.role for n in self.site.inventory.nodes}

    def node_rows(self) -> list[dict[str, Any]]:
        """The inventory's nodes as plain rows."""
        keys = ("role", "pool", "address", "user")
        return [{"node": n.name, **{k: getattr(n, k) for k in keys}} for n in self.site.inventory.nodes]

    def is_root(self, node: str) -> bool:
        return self.site.select((node,))[0].user == "root"

    def host_keys(self, nodes: tuple[str, ...]) -> tuple[HostKeys, ...]:
        """The host keys that nodes offer; nothing is trusted by asking."""
        from kvctl.controller.access import offered

        return offered(self.site, nodes)

    def trust(self, shown: HostKeys) -> int:
        """Enrol the keys that a person saw and confirmed; how many were new."""
        from kvctl.controller.access import enrol

        return enrol(self.site, shown)

    def bootstrap(self, node: str, public_key: str, login: str, password: str | None) -> Bootstrapped:
        """Install a public key and a sudo rule on a node."""
        from kvctl.controller.access import give_access

        return give_access(self.site, node, public_key, login, password)

    def check(self, nodes: tuple[str, ...] = (), switch_outputs: Mapping[str, str] | None = None) -> CheckReport:
        """Read the nodes and judge them."""
        from kvctl.controller.check import check, checked

        report = check(self.site, self.site.select(nodes), switch_outputs)[0]
        self.site.ledger.note("fleet.checked", checked(report))
        return report

    def plan(self, nodes: tuple[str, ...] = (), may_destroy: frozenset[str] = frozenset()) -> PlanReport:
        """Read the nodes, judge them and store the plan that would put them right."""
        from kvctl.controller.plan import made

        report = self.draft(nodes, may_destroy)
        self.site.ledger.note("plan.made", made(report.plan))
        return report

    def draft(self, nodes: tuple[str, ...] = (), may_destroy: frozenset[str] = frozenset()) -> PlanReport:
        """The same, for who goes on to carry it out, which records it, or to show it alone."""
        from kvctl.controller.plan import make_plan

        return make_plan(self.site, self.site.select(nodes), may_destroy)

    def renewed(self, plan_id: str) -> PlanReport:
        """The stored plan made again; RefusedError when the fleet changed since."""
        from kvctl.controller.plan import renewed

        return renewed(self.site, plan_id)

    def status(self) -> StatusReport:
        """The fleet at a glance, from what is stored."""
        from kvctl.controller.runs import newest
        from kvctl.controller.status import status

        return status(self.directory, newest(self.directory, 3))

    def facts(self, node: str) -> dict[str, Any]:
        """What the node last said, as the typed facts; UsageError when it was never read."""
        from kvctl.controller.facts import stored_facts

        return stored_facts(self.site, node)

    def provision(
        self, plan: Plan, *, converge: bool, on_event: Callable[[dict[str, Any]], None], **options: Any
    ) -> dict[str, Any]:
        """Carry a plan out under a supervisor and follow it; the final view of the run."""
        from kvctl.controller.provision import provision

        return provision(self.site, plan, converge=converge, on_event=on_event, **options)

    def kind(self, node: str) -> str:
        """gpu or storage: what the node's role is for."""
        return str(self.site.inventory.role_of(self.site.select((node,))[0]).kind)

    def deployment(self, nodes: tuple[str, ...], wheels: Path | None) -> tuple[list[Wanted], dict[str, str]]:
        """What a deployment of kvstored would put on these nodes, and why it cannot on others."""
        from kvctl.controller.deploy import storage_nodes, wanted

        return wanted(self.site, storage_nodes(self.site, nodes), wheels)

    def deploy(
        self, nodes: list[Wanted], on_event: Callable[[dict[str, Any]], None], say: Callable[[str], None]
    ) -> dict[str, Any]:
        """Deploy kvstored; the runs and what each store answered."""
        from kvctl.controller.acts import acting, new_id
        from kvctl.controller.deploy import deploy_storage

        names = [one.node.name for one in nodes]
        with acting(self.site, "deploy", new_id(), {"what": "kvstored", "nodes": names}) as act:
            done = deploy_storage(self.site, nodes, on_event=on_event, say=say)
            act.how.update(runs=[run["id"] for run in done["runs"]], answered=len(done["stores"]))
            act.outcome = "ok" if len(done["stores"]) == len(names) else "failed"
        return done

    def serving(
        self, nodes: tuple[str, ...], description: Path, engine: str | None
    ) -> tuple[list[WantedEngine], dict[str, str]]:
        """What a deployment of engines would put on these nodes, and why it cannot on others."""
        from kvctl.controller import deploy_serving as deploy
        from kvctl.controller.serving_spec import load
        from kvctl.types.requests import Nothing

        spec = deploy.described(load(description), engine)
        pin = deploy.pin_of(self.ask_controller("model.ls", Nothing())["models"], spec.model.name)
        return deploy.wanted(self.site, deploy.gpu_nodes(self.site, nodes), spec, pin)

    def ask_controller(self, operation: str, request: Any) -> dict[str, Any]:
        """One operation of this site's controller."""
        from kvctl.client.choose import nearest, settings_of

        find = self.controller or (lambda: nearest(settings_of(self.site, self.inventory, self.state_dir)))
        return find().call(operation, request)

    def deploy_serving(
        self, nodes: list[WantedEngine], endpoint: str, on_event: Callable[[dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> dict[str, Any]:  # fmt: skip
        """Deploy engines; the runs, and how each was judged."""
        from kvctl.controller.deploy_serving import deploy_serving

        names = [one.node.name for one in nodes]
        return self._deployed(
            "engine", names, "engines", lambda: deploy_serving(self.site, nodes, endpoint, on_event=on_event, say=say)
        )

    def gateways(
        self, nodes: tuple[str, ...], description: Path, wheels: Path | None
    ) -> tuple[list[WantedGateway], dict[str, str]]:
        """What a deployment of gateways would put on these nodes, and why it cannot on others."""
        from kvctl.controller.deploy_gateway import wanted
        from kvctl.controller.deploy_serving import gpu_nodes
        from kvctl.controller.serving_spec import load

        return wanted(self.site, gpu_nodes(self.site, nodes), load(description), wheels)

    def deploy_gateway(
        self, nodes: list[WantedGateway], endpoint: str, api_key: str, on_event: Callable[[dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> dict[str, Any]:  # fmt: skip
        """Deploy gateways; the runs, and how each was judged."""
        from kvctl.controller.deploy_gateway import deploy_gateway

        names = [one.node.name for one in nodes]
        return self._deployed(
            "kvgated", names, "gateways",
            lambda: deploy_gateway(self.site, nodes, endpoint, api_key, on_event=on_event, say=say),
        )  # fmt: skip

    def may_revert(self, what: str, nodes: tuple[str, ...]) -> None:
        """RefusedError when what stays on these nodes could not do without it."""
        from kvctl.controller.deploy_revert import check_reach
        from kvctl.controller.deploy_serving import gpu_nodes

        check_reach(self.site, what, gpu_nodes(self.site, nodes))

    def revert(self, what: str, nodes: tuple[str, ...], on_event: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Take engines ("serving") or gateways ("gateway") off these nodes again."""
        from kvctl.controller.deploy_revert import revert
        from kvctl.controller.deploy_serving import gpu_nodes

        chosen = gpu_nodes(self.site, nodes)
        names = [node.name for node in chosen]
        return self._deployed(
            f"{what}, reverted", names, "reverted", lambda: revert(self.site, what, chosen, on_event=on_event)
        )

    def _deployed(
        self, what: str, names: list[str], answers: str, deploy: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """The same, on record from before anything changes."""
        from kvctl.controller.acts import acting, new_id

        with acting(self.site, "deploy", new_id(), {"what": what, "nodes": names}) as act:
            done = deploy()
            act.how.update(runs=[run["id"] for run in done["runs"]], answered=len(done[answers]))
            well = len(done[answers]) == len(names) and not any(run["exit_code"] for run in done["runs"])
            act.outcome = "ok" if well else "failed"
        return done

    def runs(self, limit: int = 50) -> tuple[dict[str, Any], ...]:
        from kvctl.controller.runs import newest

        return newest(self.directory, limit)

    def run(self, run_id: str) -> dict[str, Any]:
        from kvctl.controller.runs import show

        return show(self.directory, run_id)

    def resume(self, run_id: str, on_event: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        from kvctl.controller.provision import resume

        return resume(self.site, run_id, on_event=on_event)

    def cancel(self, run_id: str) -> dict[str, Any]:
        from kvctl.controller.runs import cancel, cancelled

        view = cancel(self.directory, run_id)
        self.site.ledger.note("run.cancelled", cancelled(view))  # afterwards: nothing may keep a run from being stopped
        return view
