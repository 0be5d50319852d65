"""Erasure of a tenant, a domain, a user, or what was stored for a model or in a time: on record when it comes, carried
out, probed, and closed with a receipt.

Each step can be done again. An erasure that a process left open, that a store was away for, or that a hold restricted
is taken up by `resume_erasures`.
"""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kvctl.controller import erasing
from kvctl.controller.catalogue import sync_all
from kvctl.controller.clock import now
from kvctl.controller.holds import HEX16, push_holds, require_tenant, subject_of
from kvctl.controller.policies import moment
from kvctl.controller.snapshots import published
from kvctl.govern.erasure import DAYS, LONGEST, MOST, AtStore, Scope, not_covered, receipt, wait
from kvctl.state import catalogue, erasures, holds, tenants
from kvctl.state import records as backups
from kvctl.state.governance import Connection
from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import EraseChunks, EraseSubject, EraseTenant, ErasureNamed, TenantScope

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

_running = threading.RLock()  # one erasure at a time


def erase_subject(ctl: Controller, who: Principal, p: EraseSubject) -> dict[str, Any]:
    """Erase everything of one user of a tenant. UsageError KV-ERA-001 when no user is named."""
    subject = subject_of(ctl, p.tenant, p.user, p.subject)
    if subject is None:
        raise UsageError("KV-ERA-001", "no user was named", fix="give a user's id or its pseudonym")
    return _erase(ctl, who, Scope("subject", p.tenant, None, subject), "kvctl.erase.subject/1", dry_run=p.dry_run)


def erase_tenant(ctl: Controller, who: Principal, p: EraseTenant) -> dict[str, Any]:
    """Erase a tenant's chunks, or those of one domain, by destroying their keys. The tenant stays, and begins anew.

    UsageError KV-ERA-002 without the tenant's name typed again, 003 for a domain that it does not have.
    """
    _check_domain(ctl, p.tenant, p.domain)
    if not p.dry_run and p.confirm != p.tenant:
        raise UsageError("KV-ERA-002", "the erasure was not confirmed", fix="type the tenant's name")
    scope = Scope("tenant" if p.domain is None else "domain", p.tenant, p.domain)
    return _erase(ctl, who, scope, "kvctl.erase.tenant/1", dry_run=p.dry_run)


def erase_chunks(ctl: Controller, who: Principal, p: EraseChunks) -> dict[str, Any]:
    """Erase what a tenant stored for one model, or in a time. It goes by the names that the catalogue has.

    UsageError KV-ERA-002 and 003 as erase_tenant, 006 when neither a model nor a time was named, or what is none.
    """
    since, until = (None if one is None else moment(one) for one in (p.since, p.until))
    wrong = ""
    if p.model is None and since is None and until is None:
        wrong = "neither a model nor a time was named"
    elif p.model is not None and not HEX16.fullmatch(p.model):
        wrong = "a model is 32 hexadecimal digits: kvctl fingerprint shows them"
    elif since is not None and until is not None and since >= until:
        wrong = "the time ends before it begins"
    if wrong:
        raise UsageError("KV-ERA-006", "that is nothing to erase", why=wrong, fix="kvctl erase --help")
    _check_domain(ctl, p.tenant, p.domain)
    if not p.dry_run and p.confirm != p.tenant:
        raise UsageError("KV-ERA-002", "the erasure was not confirmed", fix="type the tenant's name")
    scope = Scope("time" if p.model is None else "model", p.tenant, p.domain, None, p.model, since, until)
    return _erase(ctl, who, scope, "kvctl.erase.chunks/1", dry_run=p.dry_run)


def _check_domain(ctl: Controller, tenant: str, domain: str | None) -> None:
    with ctl.books.state.reading() as db:
        require_tenant(db, tenant)
        known = {str(row["domain"]) for row in tenants.epochs(db, tenant)}
    if domain is not None and domain not in known:
        raise UsageError("KV-ERA-003", f"{tenant} has no domain {domain[:80]!r}", fix=", ".join(sorted(known)))


def _erase(ctl: Controller, who: Principal, scope: Scope, schema: str, *, dry_run: bool) -> dict[str, Any]:
    with ctl.books.state.reading() as db:
        require_tenant(db, scope.tenant)
    if dry_run:
        return {"schema": schema, "dry_run": True, "erasure": None, "would": _would(ctl, scope)}
    erasure = f"e-{now()[:10].replace('-', '')}-{secrets.token_hex(4)}"
    due = (datetime.now(UTC) + timedelta(days=DAYS)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    about = {name: value for name, value in asdict(scope).items() if name not in ("kind", "tenant")}
    data = {"erasure": erasure, "scope": scope.kind, "due": due, **about}
    ctl.books.commit(who, [Event("erasure.received", data, scope.tenant)])
    return {"schema": schema, "dry_run": False, "erasure": erasure, "due": due, **run(ctl, who, erasure)}


def _would(ctl: Controller, scope: Scope) -> dict[str, Any]:
    with ctl.books.state.reading() as db:
        at = now()
        reach = erasures.Reach(erasures.newest(db, scope.tenant, at) or at, at)
        found = erasures.copies(db, asdict(scope), reach)
        held = [row["id"] for row in holds.in_force(db, now(), scope.tenant) if scope.meets(row)]
        keys = tenants.epochs(db, scope.tenant, scope.domain) if scope.by_key else []
        stores = [AtStore(name) for name in sorted(ctl.settings.stores)] + no_more(ctl, db, scope, reach)
        engines = [{"engine": f"{n}/*", "answered": True, "why": ""} for n in sorted(ctl.settings.gateways)]
        unknown = erasures.without_user(db, scope.tenant)
        return {
            "copies": found, "holds": held,
            "destroy_keys": [{"domain": k["domain"], "epoch": k["epoch"]} for k in keys if k["destroyed_at"] is None],
            "flush": sorted(ctl.settings.gateways),
            "not_covered": not_covered(scope, stores, engines, backups.backups(db, now()), unknown),
        }  # fmt: skip


# --- carrying it out ------------------------------------------------------------------------------------------------
def run(ctl: Controller, who: Principal, erasure: str) -> dict[str, Any]:
    """Carry an erasure out, once more if it was begun: {outcome, receipt, receipt_index | why}."""
    with _running:
        return _run(ctl, who, erasure)


def scope_of(row: dict[str, Any]) -> Scope:
    names = ("tenant", "domain", "subject", "model", "stored_from", "stored_until")
    return Scope(row["scope"], **{name: row[name] for name in names})


def _run(ctl: Controller, who: Principal, erasure: str) -> dict[str, Any]:
    begun = now()
    with ctl.books.state.reading() as db:
        row = _row(db, erasure)
        on_record = erasing.About(erasure, str(row["received"]), erasures.index(db, erasure))
    scope = scope_of(row)
    pushed = {one["store"]: one for one in push_holds(ctl)}
    sync_all(ctl)  # so that what the catalogue counts is what is there
    with ctl.books.deciding() as db:
        erasing.look_ahead(ctl, db, row)
        index, reach = ctl.books.log.size, on_record.reach(db)
        held = [hold for hold in holds.in_force(db, now(), scope.tenant) if scope.meets(hold)]
        kept_at_stores = bool(holds.in_force(db, now(), scope.tenant))
        found = erasures.copies(db, asdict(scope), reach)
        unknown = sorted(set(erasures.holders(db, asdict(scope), reach)) - set(ctl.settings.stores))
        lost = no_more(ctl, db, scope, reach)
    keys, kept = erasing.destroy_keys(ctl, who, scope, on_record.index, held)
    if keys:
        published(ctl)
    # The catalogue has copies at a store that is in the settings no longer: nobody was asked, so they count as there.
    stores = [AtStore(name, error="it is not in the controller's settings: nothing was asked") for name in unknown]
    stores += lost
    for name in sorted(ctl.settings.stores):
        if kept_at_stores and not pushed.get(name, {"ok": False})["ok"]:
            # It might erase what a hold keeps.
            stores.append(AtStore(name, error=f"it was not told of the holds: {pushed.get(name, {}).get('why', '')}"))
        else:
            stores.append(erasing.erase_at(ctl, name, scope, on_record, keys))
    flushes = erasing.flush(ctl)
    groups = (flushes[at : at + MOST] for at in range(0, len(flushes), MOST))
    ctl.books.commit(
        who, [Event("erasure.flushed", {"erasure": erasure, "engines": group}, scope.tenant) for group in groups]
    )
    with ctl.books.state.reading() as db:
        about = {
            "erasure": erasure, "requested_by": row["requested_by"], "received": row["received"], "due": row["due"],
            "started": begun, "ended": now(), "index_at_snapshot": index,
        }  # fmt: skip
        made = receipt(
            scope=scope, about=about, copies=found, stores=stores, keys=keys, kept_keys=kept, flushes=flushes,
            backups=backups.backups(db, now()), holds=[hold["id"] for hold in held],
            unknown_users=erasures.without_user(db, scope.tenant), versions=erasures.policy_versions(db, scope.tenant),
        )  # fmt: skip
        away = unknown + [name for name in sorted(ctl.settings.stores) if not reached(db, name)]
    return _end(ctl, who, erasure, scope, made, away)


def no_more(ctl: Controller, db: Connection, scope: Scope, reach: erasures.Reach) -> list[AtStore]:
    """Stores that had something of it and were declared destroyed. One that is in the settings again is asked."""
    declared = erasures.declared(db)
    names = sorted(set(erasures.lost(db, asdict(scope), reach)) - set(ctl.settings.stores))
    return [
        AtStore(name, destroyed=f"destroyed, declared by {' and '.join((one['declared_by'], *one['agreed_by']))}")
        for name in names
        for one in [declared[name]]
    ]


def reached(db: Connection, store: str) -> bool:
    """Whether it answered when it was last asked."""
    known = catalogue.source(db, store)
    return known is not None and known.state == "ok"


def _end(
    ctl: Controller, who: Principal, erasure: str, scope: Scope, made: dict[str, Any], away: list[str]
) -> dict[str, Any]:  # fmt: skip
    state = made["outcome"]
    if state == "open":
        why = [f"{s['store']}: {s['error'] or 'still there'}" for s in made["stores"] if not s["done"]]
        data = {"erasure": erasure, "why": [line[:LONGEST] for line in why[:MOST]], "away": away[:MOST]}
        ctl.books.commit(who, [Event("erasure.attempted", data, scope.tenant, "failed")])
        return {"outcome": state, "why": why, "receipt": made, "receipt_index": None}
    kind = "erasure.restricted" if state == "restricted" else "erasure.closed"
    (recorded,) = ctl.books.commit(who, [Event(kind, {"erasure": erasure, "receipt": made}, scope.tenant)])
    if state == "erased" and scope.subject is not None:
        with ctl.books.state.writing() as db:
            erasures.forget_lineage(db, scope.tenant, scope.subject)
    return {"outcome": state, "why": [], "receipt": made, "receipt_index": recorded.index}


def resume_erasures(ctl: Controller, at: datetime | None = None) -> list[dict[str, Any]]:
    """Go on with every erasure that is open, and with those restricted by holds that are over, when they are due.

    That is `wait` after their last try, or at once when a store that was away then is back or was declared destroyed.
    """
    with ctl.books.state.reading() as db:
        held = holds.in_force(db, now())
        waiting = [row for row in erasures.unfinished(db) if _due(ctl, db, row, at or datetime.now(UTC))]
    done = []
    for row in waiting:
        scope = scope_of(row)
        if row["outcome"] == "open" or not any(scope.meets(hold) for hold in held):
            done.append({"erasure": row["id"], **run(ctl, SYSTEM, str(row["id"]))})
    return done


def _due(ctl: Controller, db: Connection, row: dict[str, Any], at: datetime) -> bool:
    count, last, away = erasures.attempts(db, str(row["id"]), row["receipt_idx"])
    if not last or at >= datetime.fromisoformat(last) + wait(count):
        return True
    gone = erasures.declared(db)
    known = ctl.settings.stores
    return any(reached(db, one) if one in known else one in gone and last < gone[one]["at"] for one in away)


# --- looking --------------------------------------------------------------------------------------------------------
def _row(db: Connection, erasure: str, tenant: str | None = None) -> dict[str, Any]:
    row = erasures.find(db, erasure)
    if row is None or tenant not in (None, row["tenant"]):
        raise UsageError("KV-ERA-004", f"there is no erasure {erasure[:40]!r}", fix="kvctl erase ls")
    return row


def ls(ctl: Controller, who: Principal, p: TenantScope) -> dict[str, Any]:
    with ctl.books.state.reading() as db:
        return {"schema": "kvctl.erase.ls/1", "erasures": erasures.listed(db, p.tenant)}


def show_receipt(ctl: Controller, who: Principal, p: ErasureNamed) -> dict[str, Any]:
    """The receipt of an erasure, the entry of the control log that it stands in, and the proof that it is there."""
    with ctl.books.state.reading() as db:
        row = _row(db, p.erasure, p.tenant)
    document = {"schema": "kvctl.erase.receipt/1", **{name: row[name] for name in row if name != "receipt"}}
    if row["receipt"] is None:
        return document | {"receipt": None, "entry": None, "proof": None}
    index = int(row["receipt_idx"])
    entry = next(iter(ctl.books.log.read(index, index + 1)))
    return document | {
        "receipt": json.loads(str(row["receipt"])), "entry": entry.decode(), "proof": ctl.books.log.prove(index),
    }  # fmt: skip


SERVICES: dict[str, Service] = {
    "erase.chunks": erase_chunks, "erase.ls": ls, "erase.receipt": show_receipt, "erase.subject": erase_subject,
    "erase.tenant": erase_tenant,
}  # fmt: skip
