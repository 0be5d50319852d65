"""The direct carrier: the controller's services in this process, over a local state directory.

Services are imported when they are called, because `kvctl status` must start without SSH, checks or an inventory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kvctl.controller.access import HostKeys
    from kvctl.controller.deploy import Wanted
    from kvctl.controller.site import Site
    from kvctl.fleet.remote.bootstrap import Bootstrapped
    from kvctl.types.plans import Plan
    from kvctl.types.reports import CheckReport, PlanReport
    from kvctl.types.status import StatusReport


@dataclass(frozen=True)
class Direct:
    inventory: Path
    state_dir: Path
    concurrency: int = 32
    timeout: float = 60.0
    transport: str = ""

    @cached_property
    def site(self) -> Site:
        from kvctl.controller.site import open_site

        return open_site(
            self.inventory, self.state_dir, concurrency=self.concurrency, timeout=self.timeout, transport=self.transport
        )

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
        from kvctl.controller.check import check

        return check(self.site, self.site.select(nodes), switch_outputs)[0]

    def plan(self, nodes: tuple[str, ...] = (), may_destroy: frozenset[str] = frozenset()) -> PlanReport:
        """Read the nodes, judge them and store the plan that would put them right."""
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
        from kvctl.controller.deploy import deploy_storage

        return deploy_storage(self.site, nodes, on_event=on_event, say=say)

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
        from kvctl.controller.runs import cancel

        return cancel(self.directory, run_id)
