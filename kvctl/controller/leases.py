"""Leases of keys to connectors, and the route to snapshots."""

from __future__ import annotations

import base64
import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kvctl.connector.capability import ALL, ID_BYTES, NO_LIMITS, Capability, Operation, sign
from kvctl.controller import snapshots
from kvctl.controller.apikeys import current
from kvctl.govern import tenants as rules
from kvctl.state import tenants as state
from kvctl.types.chunks import Scope
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import LeaseRequest, LeaseScopes

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

SCHEMA = "kvctl.lease/1"  # of kvctl.connector.keys.LeaseFile: the answer is the file


def issue(ctl: Controller, who: Principal, p: LeaseRequest) -> dict[str, Any]:
    """The key of a scope and a capability for it, until settings.lease_seconds from now: a lease file's content.

    RefusedError KV-TEN-030 unless the asker is the registered connector whose key `holder` is, KV-TEN-005 unless the
    tenant is active, KV-TEN-020 when the key is gone. UsageError KV-TEN-032 for an operation that there is not.
    """
    check_holder(ctl, who, p.holder)
    operations = _operations(p.operations)
    with ctl.books.deciding() as db:
        rules.require(state.tenant(db, p.tenant), p.tenant, "active")
        epoch = bytes.fromhex(str(current(db, p.tenant, p.domain)["epoch"]))
        root = ctl.keystore.root(Scope(p.tenant, p.domain, epoch))
        start = int(time.time())
        capability = Capability(
            p.tenant, p.domain, epoch, operations, bytes.fromhex(p.holder), NO_LIMITS, secrets.token_bytes(ID_BYTES),
            start, start + ctl.settings.lease_seconds,
        )  # fmt: skip
        ctl.books.commit(who, [_issued(capability)])
    return {
        "schema": SCHEMA, "tenant": p.tenant, "domain": p.domain, "epoch": epoch.hex(),
        "root_key": base64.b64encode(root.root).decode(),
        "capability": base64.b64encode(sign(capability, ctl.books.identity)).decode(),
        "expires_at": capability.expires_at,
    }  # fmt: skip


def check_holder(ctl: Controller, who: Principal, holder: str) -> None:
    """Only the connector itself, known by its certificate's name, gets a lease for its key: stores and gateways are
    services, too, and hold no tenant's keys."""
    name = who.name.removeprefix("service:")
    known = ctl.settings.connectors.get(name, "")
    if not who.name.startswith("service:") or not rules.HOLDER.fullmatch(holder) or known != holder:
        raise RefusedError(
            "KV-TEN-030", "this connector is not registered for leases", where=f"{who.name}, holder {holder[:16]}...",
            why="its name and public key are not together below `connectors` in the controller's settings",
            fix=f"add it there: connectors: {{{name}: PUBLIC KEY}}",
        )  # fmt: skip


def _operations(names: list[str]) -> frozenset[Operation]:
    try:
        return frozenset(map(Operation, names)) or ALL
    except ValueError as error:
        raise UsageError(
            "KV-TEN-032", "there is no such operation", why=str(error), fix=f"there are: {', '.join(sorted(ALL))}"
        ) from error


def _issued(capability: Capability) -> Event:
    data = {
        "id": capability.id.hex(), "domain": capability.domain, "epoch": capability.epoch.hex(),
        "holder": capability.holder.hex(), "operations": sorted(capability.operations),
        "expires_at": datetime.fromtimestamp(capability.expires_at, UTC).isoformat().replace("+00:00", "Z"),
    }  # fmt: skip
    return Event("capability.issued", data, capability.tenant)


def scopes(ctl: Controller, who: Principal, p: LeaseScopes) -> dict[str, Any]:
    """The scopes of every active tenant, in their present epochs, and the number of this state of affairs.

    It waits up to `wait` seconds (snapshots.MOST_WAIT) for a number above `after`. RefusedError KV-TEN-030 as in
    `issue`.
    """
    check_holder(ctl, who, p.holder)
    snapshots.wait_for_newer(ctl, p.after, min(max(p.wait, 0.0), snapshots.MOST_WAIT))
    with ctl.books.state.reading() as db:
        active = {str(row["tenant"]) for row in state.tenants(db) if row["state"] == "active"}
        found = [row for row in state.current_epochs(db) if row["tenant"] in active]
        number = state.number(db)
    rows = [{"tenant": row["tenant"], "domain": row["domain"], "epoch": row["epoch"]} for row in found]
    return {"schema": "kvctl.lease.scopes/1", "number": number, "scopes": rows}


SERVICES: dict[str, Service] = {"lease.issue": issue, "lease.scopes": scopes, "snapshot.get": snapshots.get}
