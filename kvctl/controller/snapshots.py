"""Snapshots: what gateways must know of tenants, made from the tables and the key store, signed by the site."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kvctl.connector.signed import sign_text
from kvctl.connector.snapshotfile import LABEL, write_snapshot
from kvctl.controller.clock import now
from kvctl.state import tenants as state
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError, RefusedError
from kvctl.types.events import Recorded
from kvctl.types.principals import Principal
from kvctl.types.requests import SnapshotRequest
from kvctl.types.snapshot import DomainView, KeyView, Snapshot, TenantView, to_text

if TYPE_CHECKING:
    from kvctl.controller.core import Controller
    from kvctl.state.governance import Connection

log = logging.getLogger(__name__)
FILE = "snapshot.json"
MOST_WAIT = 30.0  # seconds of one request
FORGET = ("deploy.forgotten", "service.removed")

Problem = dict[str, str]


def publish(ctl: Controller) -> dict[str, Any]:
    """Write <state>/snapshot.json anew: {number, path, expires_at, tenants, left_out}.

    To be called after every change that concerns tenants, keys, epochs or policies, and again well before its end.
    `left_out` names the keys that could not be read: what they would open stays shut.
    """
    with ctl.books.deciding() as db:  # a later snapshot is never overwritten by an earlier one
        snapshot, problems = build(ctl, db)
        path = ctl.directory / FILE
        write_snapshot(path, snapshot, ctl.books.identity)
    return {
        "number": snapshot.number, "path": str(path), "expires_at": snapshot.expires_at,
        "tenants": len(snapshot.tenants), "left_out": problems,
    }  # fmt: skip


def published(ctl: Controller) -> dict[str, Any]:
    """`publish` after a change that is on record: what keeps a snapshot from being written is said, and the change goes
    on to the stores. The controller's schedule publishes again."""
    try:
        return publish(ctl)
    except KvctlError as error:
        log.error("the snapshot was not published: %s", error)
        return {"error": error.as_dict()}


def build(ctl: Controller, db: Connection) -> tuple[Snapshot, list[Problem]]:
    """The snapshot of this moment, and what is not in it though it should be."""
    at, issued = now(), int(time.time())
    problems: list[Problem] = []
    limits, keys, epochs = state.limits(db), by_tenant(state.live_keys(db, at)), by_tenant(state.current_epochs(db))
    tenants = []
    for row in state.tenants(db):
        if row["state"] in ("active", "suspended"):
            name = str(row["tenant"])
            domains = _domains(ctl, name, epochs[name], problems)
            view = _tenant(ctl, row, domains, keys[name], limits.get(name, {}), problems)
            tenants += [view] if view else []
    ends = issued + ctl.settings.snapshot_seconds
    return Snapshot(
        site=ctl.site, number=state.number(db), issued_at=issued, expires_at=ends, tenants=tuple(tenants)
    ), problems


def by_tenant(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows of one query: a query for each of thousands of tenants takes half a minute."""
    made: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        made[str(row["tenant"])].append(row)
    return made


def _domains(ctl: Controller, tenant: str, epochs: list[dict[str, Any]], problems: list[Problem]) -> list[DomainView]:
    found = []
    for row in epochs:
        epoch = bytes.fromhex(str(row["epoch"]))
        try:
            root = ctl.keystore.root(Scope(tenant, str(row["domain"]), epoch))
        except KvctlError as error:
            problems.append({"tenant": tenant, "domain": str(row["domain"]), "code": error.code, "what": error.what})
            continue
        found.append(DomainView(name=str(row["domain"]), epoch=epoch, salt_key=root.salt_key))
    return found


def _tenant(
    ctl: Controller, row: dict[str, Any], domains: list[DomainView], keys: list[dict[str, Any]], limits: Any,
    problems: list[Problem],
) -> TenantView | None:  # fmt: skip
    try:
        subject_key = ctl.keystore.subject_key(row["tenant"])
    except KvctlError as error:
        problems.append({"tenant": row["tenant"], "domain": "", "code": error.code, "what": error.what})
        return None
    countries = limits.get("processing_countries")
    there = {domain.name for domain in domains}
    return TenantView(
        name=row["tenant"], state=row["state"], sla=row["sla"], max_concurrent=row["max_concurrent"],
        requests_per_minute=row["requests_per_minute"], tokens_per_day=row["tokens_per_day"],
        require_subject=row["require_subject"], subject_key=subject_key, domains=tuple(domains),
        processing_countries=None if countries is None else tuple(countries), retention=limits.get("retention", {}),
        keys=tuple(
            KeyView(id=k["id"], sha256=k["sha256"], domain=k["domain"], expires_at=k["expires"])
            for k in keys
            if k["domain"] in there
        ),
    )  # fmt: skip


def get(ctl: Controller, who: Principal, p: SnapshotRequest) -> dict[str, Any]:
    """A gateway asks for one that is newer than `after`; it waits up to `wait` seconds (MOST_WAIT) for one.

    `signed` is the very content of a snapshot file, or None when there is nothing newer. One that is forgotten while it
    waits gets a last one with no tenant in it: nobody would answer its next question, and it would serve on.
    """
    check_gateway(ctl, who)
    forgotten = wait_for_newer(ctl, p.after, min(max(p.wait, 0.0), MOST_WAIT), who.name.removeprefix("service:"))
    with ctl.books.deciding() as db:
        number = state.number(db)
        if number <= p.after and not forgotten:
            return {"schema": "kvctl.snapshot.get/1", "number": number, "signed": None, "left_out": []}
        snapshot, problems = build(ctl, db)
    if forgotten:
        snapshot, problems = msgspec.structs.replace(snapshot, tenants=()), []
    signed = sign_text(to_text(snapshot), LABEL, ctl.books.identity).decode()
    return {"schema": "kvctl.snapshot.get/1", "number": number, "signed": signed, "left_out": problems}


def wait_for_newer(ctl: Controller, number: int, seconds: float, gateway: str = "") -> bool:
    """Return when there is a newer snapshot than this, or the time is up; True when the gateway is forgotten."""
    changed, forgotten, end = threading.Event(), threading.Event(), time.monotonic() + seconds

    def told(events: Sequence[Recorded]) -> None:
        if any(event.kind in FORGET and event.data.get("name") == gateway for event in events):
            forgotten.set()
            changed.set()
        if any(event.kind.startswith(state.CONCERNS) for event in events):
            changed.set()

    ctl.books.on_commit.append(told)
    try:
        with ctl.books.state.reading() as db:
            there = state.number(db)
        if there <= number:
            changed.wait(max(0.0, end - time.monotonic()))
    finally:
        ctl.books.on_commit.remove(told)
    return forgotten.is_set()


def check_gateway(ctl: Controller, who: Principal) -> None:
    """RefusedError KV-TEN-031: salts and pseudonym keys are for the gateways that the settings name."""
    if who.name.removeprefix("service:") not in ctl.settings.gateways or not who.name.startswith("service:"):
        raise RefusedError(
            "KV-TEN-031", f"{who.name} is no gateway of this site", why="a snapshot holds keys that salts come from",
            fix="name it below `gateways` in the controller's settings",
        )  # fmt: skip
