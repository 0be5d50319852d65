"""A state directory with a fleet, a fault, its plan, and a run: written by the product's own writers."""

import json
from pathlib import Path

from kvctl.controller.accounts import Accounts
from kvctl.controller.core import opened
from kvctl.controller.settings import read
from kvctl.fleet.remote.journal import Journal
from kvctl.state import fleet
from kvctl.state.database import Database
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import AccountCreate
from tests.tui.stub import finding, step

AT = "2026-01-01T00:00:00Z"
RUN = "r-20260101-000000-abcd"
PASSWORD = "correct horse battery"
ADMIN = Principal("unix:root", frozenset({Role.ADMIN}), fresh=True)


def filled(directory: Path, nodes: int = 2) -> None:
    """Nodes of which the second has a fault that a stored plan repairs, and a run that failed."""
    plan = {
        "id": "p-1", "created": AT, "facts_at": {"storage2": AT}, "steps": [step(1, "storage2", "qos.pfc")],
        "refusals": [],
    }  # fmt: skip
    names = [f"storage{n}" for n in range(1, nodes + 1)]
    states = [{"node": n, "role": "storage", "state": "in-service", "reason": "", "since": AT} for n in names]
    seen = {"seconds": 0.1, "document": "{}", "error_code": None, "error": None, "collected_at": AT}
    with Database(directory).transaction() as db:
        fleet.set_node_states(db, states)
        fleet.add_observations(db, [seen | {"node": name} for name in names])
        fleet.add_check_run(db, AT, "0" * 64, names, [finding("storage2")])
        fleet.add_plan(db, "p-1", AT, json.dumps(plan))
    with Journal(directory / "runs" / RUN) as log:
        log.append(
            "run.started", plan="p-1", steps=[{"id": "s01", "node": "storage2", "role": "roce", "verb": "apply"}]
        )
        log.append(
            "step.failed", step="s01", node="storage2", error={"code": "KV-RUN-020", "what": "it changed", "why": "x"}
        )
        log.append("run.finished", state="failed")


def people(directory: Path, **roles: str) -> None:
    """Accounts with one role each, and one password for all."""
    with opened(read(directory, site="local")) as ctl:
        accounts = Accounts(ctl.books)
        for name, role in roles.items():
            made = ctl.call("account.create", ADMIN, AccountCreate(name, [role]))
            accounts.redeem(made["link"].rpartition("/")[2], PASSWORD)
