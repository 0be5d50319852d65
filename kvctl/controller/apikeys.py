"""API keys of tenants, and the epochs that their domains are in."""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kvctl.controller import epochs
from kvctl.controller.clock import now
from kvctl.controller.push import push
from kvctl.controller.snapshots import published
from kvctl.govern import tenants as rules
from kvctl.state import tenants as state
from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import EpochRotate, KeyCreate, KeyNamed, TenantScope

if TYPE_CHECKING:
    from kvctl.controller.core import Controller
    from kvctl.state.governance import Connection

ID_BYTES = 5
SECRET_BYTES = 32
SHOWN = ("id", "tenant", "domain", "label", "state", "created_at", "created_by", "expires_at", "revoked_at")


def create(ctl: Controller, who: Principal, p: KeyCreate) -> dict[str, Any]:
    """A new API key. `api_key` is in this answer and nowhere else: only its SHA-256 is kept."""
    rules.check_days(p.days)
    rules.check_text("label", p.label, 0)
    about = {"tenant": p.tenant, "domain": p.domain, "label": p.label, "expires_at": _after_days(p.days)}
    with ctl.books.deciding() as db:
        rules.require(state.tenant(db, p.tenant), p.tenant, "active")
        current(db, p.tenant, p.domain)
        if p.dry_run:
            return {
                "schema": "kvctl.key.create/1",
                "dry_run": True,
                "would": [f"make an API key of {p.tenant}"],
                **about,
            }
        identifier, secret = _text(ID_BYTES), _text(SECRET_BYTES)
        key = rules.key_text(p.tenant, identifier, secret)
        digest = hashlib.sha256(key.encode()).hexdigest()
        data = {k: v for k, v in about.items() if k != "tenant"} | {"id": identifier, "sha256": digest}
        ctl.books.commit(who, [Event("key.created", data, p.tenant)])
    answer = {"schema": "kvctl.key.create/1", "dry_run": False, "id": identifier, **about, "api_key": key}
    return {**answer, "snapshot": published(ctl)}


def _text(count: int) -> str:
    """Random text without dashes: base32 in small letters (RFC 4648)."""
    return base64.b32encode(secrets.token_bytes(count)).decode().rstrip("=").lower()


def _after_days(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def listed(ctl: Controller, who: Principal, p: TenantScope) -> dict[str, Any]:
    with ctl.books.deciding() as db:
        found = state.api_keys(db, p.tenant)
    return {"schema": "kvctl.key.ls/1", "keys": [_shown(key, now()) for key in found]}


def _shown(key: dict[str, Any], at: str) -> dict[str, Any]:
    state_of = "revoked" if key["revoked_at"] else "expired" if key["expires_at"] <= at else "live"
    return {name: key.get(name) for name in SHOWN} | {"state": state_of}


def revoke(ctl: Controller, who: Principal, p: KeyNamed) -> dict[str, Any]:
    """Gateways refuse the key from the next snapshot on, which is published here. A revoked key stays so."""
    with ctl.books.deciding() as db:
        rules.require(state.tenant(db, p.tenant), p.tenant)
        key = next((k for k in state.api_keys(db, p.tenant) if k["id"] == p.key), None)
        if key is None:
            raise UsageError(
                "KV-TEN-009", f"tenant {p.tenant} has no API key {p.key[:40]!r}", fix="kvctl key ls shows its keys"
            )
        change = key["revoked_at"] is None
        document = {"schema": "kvctl.key.revoke/1", "dry_run": p.dry_run, "tenant": p.tenant, "key": p.key}
        if p.dry_run:
            return {**document, "would": [f"revoke API key {p.key}"] if change else []}
        if change:
            ctl.books.commit(who, [Event("key.revoked", {"ids": [p.key]}, p.tenant)])
    return {**document, "changed": change, "snapshot": published(ctl)}


def rotate(ctl: Controller, who: Principal, p: EpochRotate) -> dict[str, Any]:
    """A new epoch for a domain: everything stored in the old one is cold from now on.

    With `destroy_old`, the keys of all older epochs of the domain are destroyed: what they seal is erased everywhere.
    `cold` counts what that is; its numbers are None while the catalogue has not read every store.
    """
    with ctl.books.deciding() as db:
        rules.require(state.tenant(db, p.tenant), p.tenant, "active", "suspended")
        old = current(db, p.tenant, p.domain)
        doomed = [e for e in state.epochs(db, p.tenant, p.domain) if not e["destroyed_at"]] if p.destroy_old else []
        counted = sorted({old["epoch"], *(e["epoch"] for e in doomed)})
        document = {
            "schema": "kvctl.key.rotate/1", "dry_run": p.dry_run, "tenant": p.tenant, "domain": p.domain,
            "old_epoch": old["epoch"],
            "cold": state.counted(db, p.tenant, p.domain, counted, list(ctl.settings.stores)),
        }  # fmt: skip
        if doomed:
            rules.check_holds(state.holds(db, now(), p.tenant), [p.domain])
        if p.dry_run:
            would = [f"begin a new epoch of {p.tenant}/{p.domain}"]
            return {**document, "would": would + [f"destroy the key of epoch {e['epoch']}" for e in doomed]}
        begun = epochs.create(ctl, p.tenant, p.domain)
        retired = Event("epoch.retired", {"domain": p.domain, "epoch": old["epoch"]}, p.tenant)
        ctl.books.commit(who, [begun, retired])
        receipts = epochs.destroy(ctl, who, p.tenant, doomed) if doomed else []
    done = {**document, "epoch": begun.data["epoch"], "destroyed": receipts, "snapshot": published(ctl)}
    return {**done, "stores": push(ctl, who)}


def current(db: Connection, tenant: str, domain: str) -> dict[str, Any]:
    """The epoch that a domain is in. UsageError KV-TEN-010 when the tenant has no such domain."""
    found = {row["domain"]: row for row in state.current_epochs(db, tenant)}
    if domain not in found:
        raise UsageError(
            "KV-TEN-010", f"tenant {tenant} has no trust domain {domain[:80]!r}",
            fix=f"it has: {', '.join(sorted(found)) or 'none'}",
        )  # fmt: skip
    return found[domain]
