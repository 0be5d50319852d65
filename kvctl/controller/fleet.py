"""The fleet through the controller: the same services as `kvctl status`, `check`, `plan` and `run`, as documents.

They need an inventory; a site that has none answers KV-CTL-040. Carrying a plan out is `kvctl provision` alone.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvctl.controller import runs
from kvctl.controller.check import check, checked
from kvctl.controller.plan import made, make_plan
from kvctl.controller.site import Site, open_site
from kvctl.controller.status import status
from kvctl.state import fleet as state
from kvctl.state.database import Database
from kvctl.types.codec import to_builtins
from kvctl.types.errors import LockedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import Listed, NodesNamed, Nothing, PlanNamed, RunNamed

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

MOST = 1000  # runs in one answer
SHOWN = 3  # runs beside the status
_reading = threading.Lock()  # one reading of the fleet at a time: it takes every core and hundreds of descriptors


def show_status(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    """From what is stored; reads no node."""
    return dict(to_builtins(status(ctl.directory, runs.newest(ctl.directory, SHOWN)).document()))


def findings(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    """What needs eyes, of each node's newest check."""
    with Database(ctl.directory).reading() as db:
        found = state.latest_findings(db) if db else []
    return {"schema": "kvctl.fleet.findings/1", "findings": found}


def show_plan(ctl: Controller, who: Principal, p: PlanNamed) -> dict[str, Any]:
    """A stored plan; `latest` is the one made last. UsageError KV-PLAN-010."""
    with Database(ctl.directory).reading() as db:
        text = state.plan_document(db, p.plan) if db else None
    if text is None:
        raise UsageError("KV-PLAN-010", f"no plan {p.plan}", fix="kvctl plan makes one and prints its id")
    return {"schema": "kvctl.fleet.plan/1", "plan": json.loads(text)}


def run_check(ctl: Controller, who: Principal, p: NodesNamed) -> dict[str, Any]:
    """Read nodes and judge them; takes as long as the slowest of them."""
    site = site_of(ctl)
    nodes = site.select(tuple(p.nodes))
    with reading():
        report, _ = check(site, nodes)
    ctl.books.commit(who, [Event("fleet.checked", checked(report))])
    return dict(to_builtins(report.document()))


def make(ctl: Controller, who: Principal, p: NodesNamed) -> dict[str, Any]:
    """Read nodes and store the plan that would put them right."""
    site = site_of(ctl)
    nodes = site.select(tuple(p.nodes))
    with reading():
        report = make_plan(site, nodes)
    ctl.books.commit(who, [Event("plan.made", made(report.plan))])
    return dict(to_builtins(report.document()))


def list_runs(ctl: Controller, who: Principal, p: Listed) -> dict[str, Any]:
    return {"schema": "kvctl.runs/1", "runs": list(runs.newest(ctl.directory, max(1, min(p.limit, MOST))))}


def show_run(ctl: Controller, who: Principal, p: RunNamed) -> dict[str, Any]:
    return {"schema": "kvctl.run/1", **runs.show(ctl.directory, p.run)}


def cancel_run(ctl: Controller, who: Principal, p: RunNamed) -> dict[str, Any]:
    """Ask a run to start nothing new."""
    view = runs.cancel(ctl.directory, p.run)
    ctl.books.commit(who, [Event("run.cancelled", runs.cancelled(view))])
    return {"schema": "kvctl.run/1", **view}


def site_of(ctl: Controller) -> Site:
    """The site with its inventory as it is now. UsageError KV-CTL-040 when it has none."""
    if ctl.settings.inventory is None or ctl.settings.state_dir is None:
        raise UsageError(
            "KV-CTL-040",
            "this controller has no inventory",
            fix="start it with --inventory FILE; kvctl init writes one",
        )
    return open_site(ctl.settings.inventory, ctl.settings.state_dir)


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """LockedError KV-CTL-041 while the fleet is being read for somebody else."""
    if not _reading.acquire(blocking=False):
        raise LockedError("KV-CTL-041", "the fleet is being read", fix="wait for that check, then read its findings")
    try:
        yield
    finally:
        _reading.release()


SERVICES: dict[str, Service] = {
    "fleet.check": run_check,
    "fleet.findings": findings,
    "fleet.make-plan": make,
    "fleet.plan": show_plan,
    "fleet.status": show_status,
    "run.cancel": cancel_run,
    "run.ls": list_runs,
    "run.show": show_run,
}
