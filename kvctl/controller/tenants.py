"""Tenants: taken in, suspended, resumed, off-boarded. Their API keys and epochs are in kvctl.controller.apikeys."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from kvctl.controller import apikeys, epochs
from kvctl.controller.clock import now
from kvctl.controller.push import has_erased, push
from kvctl.controller.snapshots import published
from kvctl.govern import tenants as rules
from kvctl.state import tenants as state
from kvctl.types.errors import KvctlError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import (
    TenantChange,
    TenantCreate,
    TenantNamed,
    TenantOffboard,
    TenantQuota,
    TenantScope,
)

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service
    from kvctl.state.governance import Connection

log = logging.getLogger(__name__)
NOT_COVERED = (
    "what engines hold in GPU and host memory until their prefix caches are reset or they restart",
    "backups of the key store, if somebody made any: they bring the keys back",
    "older blocks that a drive or a copy-on-write file system keeps of the files of destroyed keys",
    "this site's logs: they name the tenant, and its users by pseudonyms that nobody can resolve any more",
)


def create(ctl: Controller, who: Principal, p: TenantCreate) -> dict[str, Any]:
    rules.check_new(p)
    document = {"schema": "kvctl.tenant.create/1", "dry_run": p.dry_run, "tenant": p.tenant}
    with ctl.books.deciding() as db:
        rules.check_free(state.tenant(db, p.tenant))
        rules.check_entity(p.entity, p.entity_country, state.entity(db, p.entity))
        if p.dry_run:
            return {**document, "would": [f"take in tenant {p.tenant} with a key for each of {', '.join(p.domains)}"]}
        ctl.keystore.create_subject(p.tenant)
        made = [epochs.create(ctl, p.tenant, domain) for domain in p.domains]
        data = {k: v for k, v in dataclasses.asdict(p).items() if k not in ("tenant", "dry_run")}
        data["subject_fingerprint"] = ctl.keystore.subject_fingerprint(p.tenant)
        ctl.books.commit(who, [Event("tenant.created", data, p.tenant), *made])
        about = _whole(db, p.tenant)
    return {**document, **about, "snapshot": published(ctl), "stores": push(ctl, who)}


def listed(ctl: Controller, who: Principal, p: TenantScope) -> dict[str, Any]:
    with ctl.books.deciding() as db:
        return {"schema": "kvctl.tenant.ls/1", "tenants": state.tenants(db, p.tenant)}


def shown(ctl: Controller, who: Principal, p: TenantNamed) -> dict[str, Any]:
    """A tenant, its domains' epochs, and how many keys, leases and holds are live."""
    with ctl.books.deciding() as db:
        rules.require(state.tenant(db, p.tenant), p.tenant)
        return {"schema": "kvctl.tenant.show/1", **_whole(db, p.tenant)}


def _whole(db: Connection, tenant: str) -> dict[str, Any]:
    at = now()
    return {
        "tenant": tenant, "about": state.tenant(db, tenant), "epochs": state.epochs(db, tenant),
        "live_keys": len(state.live_keys(db, at, tenant)),
        "live_capabilities": len(state.live_capabilities(db, at, tenant)),
        "holds": [str(hold["id"]) for hold in state.holds(db, at, tenant)],
    }  # fmt: skip


def quota(ctl: Controller, who: Principal, p: TenantQuota) -> dict[str, Any]:
    """Give a tenant other limits: of bytes at every store, of requests and tokens at every gateway.

    A store that holds more than the new limit takes nothing more of it and evicts its chunks first.
    """
    rules.check_text("reason", p.reason, 0)
    document = {"schema": "kvctl.tenant.quota/1", "dry_run": p.dry_run, "tenant": p.tenant}
    with ctl.books.deciding() as db:
        known = rules.require(state.tenant(db, p.tenant), p.tenant, "active", "suspended")
        limits = rules.new_limits(p, known)
        changes = {name: {"from": known[name], "to": to} for name, to in limits.items() if known[name] != to}
        if p.dry_run:
            return {**document, "would": [f"set {n} of {p.tenant} from {_limit(c)}" for n, c in changes.items()]}
        if changes:
            about = {**limits, "changed": changes, "reason": p.reason}
            ctl.books.commit(who, [Event("tenant.quota-changed", about, p.tenant)])
    return {**document, "limits": limits, "changed": changes, "snapshot": published(ctl), "stores": push(ctl, who)}


def _limit(change: dict[str, Any]) -> str:
    was, to = ("no limit" if value is None else str(value) for value in (change["from"], change["to"]))
    return f"{was} to {to}"


def suspend(ctl: Controller, who: Principal, p: TenantChange) -> dict[str, Any]:
    """Stop a tenant at gateways (by the snapshot) and at stores (its leases are revoked). Asking again tells all again.

    Its data stays. `stores` says what each store answered, in how many milliseconds; one that did not answer is told
    again on the controller's schedule.
    """
    rules.check_text("reason", p.reason, 0)
    document = {"schema": "kvctl.tenant.suspend/1", "dry_run": p.dry_run, "tenant": p.tenant, "state": "suspended"}
    with ctl.books.deciding() as db:
        tenant = rules.require(state.tenant(db, p.tenant), p.tenant, "active", "suspended")
        ids, change = state.live_capabilities(db, now(), p.tenant), tenant["state"] == "active"
        if p.dry_run:
            stores = f"at {len(ctl.settings.stores)} stores"
            would = [f"suspend {p.tenant}"] if change else []
            return {**document, "would": would + [f"revoke lease {i} {stores}" for i in ids]}
        events = [Event("tenant.suspended", {"reason": p.reason}, p.tenant)] if change else []
        ctl.books.commit(who, [*events, *epochs.revoked(p.tenant, ids, "the tenant is suspended")])
    done = {**document, "changed": change, "revoked_capabilities": len(ids), "snapshot": published(ctl)}
    return {**done, "stores": push(ctl, who)}


def resume(ctl: Controller, who: Principal, p: TenantChange) -> dict[str, Any]:
    """Serve a suspended tenant again. Its leases stay revoked: connectors get new ones within five minutes."""
    rules.check_text("reason", p.reason, 0)
    document = {"schema": "kvctl.tenant.resume/1", "dry_run": p.dry_run, "tenant": p.tenant, "state": "active"}
    with ctl.books.deciding() as db:
        tenant = rules.require(state.tenant(db, p.tenant), p.tenant, "active", "suspended")
        change = tenant["state"] == "suspended"
        if p.dry_run:
            return {**document, "would": [f"resume {p.tenant}"] if change else []}
        if change:
            ctl.books.commit(who, [Event("tenant.resumed", {"reason": p.reason}, p.tenant)])
    return {**document, "changed": change, "snapshot": published(ctl), "stores": push(ctl, who)}


def offboard(ctl: Controller, who: Principal, p: TenantOffboard) -> dict[str, Any]:
    """Suspend a tenant, destroy its keys, have the stores erase what is left of it. Not while a hold covers any of it.

    Destroying the keys is what erases: chunks are sealed by them, wherever copies are. The stores' own erasing makes
    room; a store that is away does it later and keeps bytes until then that nobody can open.
    """
    document = {"schema": "kvctl.tenant.offboard/1", "dry_run": p.dry_run, "tenant": p.tenant, "state": "offboarded"}
    with ctl.books.deciding() as db:
        rules.require(state.tenant(db, p.tenant), p.tenant, "active", "suspended", "offboarding")
        rules.check_holds(state.holds(db, now(), p.tenant))
        if p.dry_run:
            return {**document, "would": _would(db, p.tenant)}
        rules.check_confirmed(p.tenant, p.confirm)
        lease_end = state.last_lease_end(db, p.tenant)
        done = _leave(ctl, who, p.tenant)
    snapshot, told = published(ctl), push(ctl, who)
    return {**document, **done, "snapshot": snapshot, "stores": told, **_coverage(done, told, lease_end)}


def _would(db: Connection, tenant: str) -> list[str]:
    at = now()
    doomed = [e for e in state.epochs(db, tenant) if not e["destroyed_at"]]
    return [
        *(f"revoke API key {key['id']}" for key in state.live_keys(db, at, tenant)),
        *(f"revoke lease {i}" for i in state.live_capabilities(db, at, tenant)),
        *(f"destroy the key of {tenant}/{e['domain']}, epoch {e['epoch']}" for e in doomed),
        f"destroy the key behind the pseudonyms of {tenant}'s users",
        "have every store erase these epochs",
    ]


def _leave(ctl: Controller, who: Principal, tenant: str) -> dict[str, Any]:
    """From intent to receipts. What stands on record at each step is enough to go on from there."""
    with ctl.books.deciding() as db:
        keys = [str(k["id"]) for k in state.api_keys(db, tenant) if not k["revoked_at"]]
        leases = state.live_capabilities(db, now(), tenant)
        events = [Event("tenant.offboarding", {}, tenant), *epochs.revoked(tenant, leases, "the tenant leaves")]
        groups = (keys[at : at + epochs.AT_ONCE] for at in range(0, len(keys), epochs.AT_ONCE))
        events += [Event("key.revoked", {"ids": group}, tenant) for group in groups]
        doomed = [e for e in state.epochs(db, tenant) if not e["destroyed_at"]]
        receipts = epochs.destroy(ctl, who, tenant, doomed, also=events)
        _end(ctl, who, tenant)
        everything = [
            {"domain": e["domain"], "epoch": e["epoch"], "receipt": e["destroy_receipt"]}
            for e in state.epochs(db, tenant)
        ]
    return {"revoked_keys": keys, "revoked_capabilities": len(leases), "now": len(receipts), "destroyed": everything}


def _end(ctl: Controller, who: Principal, tenant: str) -> None:
    # Keys of an epoch whose creation was cut off are in no event; they go with the rest.
    stray = [ctl.keystore.destroy(scope) for scope in ctl.keystore.scopes(tenant)]
    receipt = ctl.keystore.destroy_subject(tenant)
    ctl.books.commit(who, [Event("tenant.offboarded", {"subject_key_receipt": receipt, "stray": stray}, tenant)])


def _coverage(done: dict[str, Any], told: list[dict[str, Any]], lease_end: str | None) -> dict[str, Any]:
    erased = [one["store"] for one in told if has_erased(one)]
    away = [one["store"] for one in told if not has_erased(one)]
    return {
        "covered": [
            f"{len(done['destroyed'])} epochs: their keys are destroyed, so every copy of their chunks is unreadable",
            "the key behind the pseudonyms of its users",
            *(f"store {name}: chunks erased" for name in erased),
        ],
        "not_covered": [
            *(f"store {name} has not erased yet: its bytes stay, unreadable, until it is told again" for name in away),
            *([f"keys in the memory of connectors that leased them, until {lease_end} at most"] if lease_end else []),
            *NOT_COVERED,
        ],
    }  # fmt: skip


def complete(ctl: Controller) -> list[dict[str, Any]]:
    """Take up what a process that died has left: keys that were to be destroyed, tenants that were leaving.

    To be called when the books were opened. What was done, as rows; `error` in those where it is not done yet.
    """
    done = epochs.complete(ctl)
    with ctl.books.deciding() as db:
        leaving = [str(row["tenant"]) for row in state.tenants(db) if row["state"] == "offboarding"]
        for tenant in leaving:
            try:
                _leave(ctl, SYSTEM, tenant)
                done.append({"tenant": tenant, "receipt": "off-boarded"})
            except (OSError, KvctlError) as error:
                log.error("tenant %s is not off-boarded yet: %s", tenant, error)
                done.append({"tenant": tenant, "error": str(error)})
    return done


SERVICES: dict[str, Service] = {
    "key.create": apikeys.create,
    "key.ls": apikeys.listed,
    "key.revoke": apikeys.revoke,
    "key.rotate": apikeys.rotate,
    "tenant.create": create,
    "tenant.ls": listed,
    "tenant.offboard": offboard,
    "tenant.quota": quota,
    "tenant.resume": resume,
    "tenant.show": shown,
    "tenant.suspend": suspend,
}
