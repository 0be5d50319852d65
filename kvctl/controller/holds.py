"""Holds: what must stay, whatever else says. Set at once and told to every store; lifted when two others agree."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kvctl.controller import approvals
from kvctl.controller.approvals import Executor
from kvctl.controller.clock import now
from kvctl.controller.stores import StoreAddress, ask
from kvctl.govern.approvals import Request
from kvctl.state import holds as table
from kvctl.state import tenants
from kvctl.types.chunks import NO_SUBJECT
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import HoldLift, HoldSet, TenantScope
from kvctl.types.times import utc

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

HEX16 = re.compile(r"[0-9a-f]{32}")
AT_ONCE = 16  # stores
SECONDS = 10.0  # for one store's answer
VOTES = 2  # lifting weakens
NAMES = ("tenant", "domain", "subject", "model")


def set_hold(ctl: Controller, who: Principal, p: HoldSet) -> dict[str, Any]:
    """Put a hold in force: on record first, then at every store. A store that was not reached is named, and told later.

    UsageError KV-RET-002 (no reason), 003 (its end), 004 (no such name); what the key store raises for a user's id.
    """
    subject = subject_of(ctl, p.tenant, p.user, p.subject)
    until = _until(p.until)
    if not p.reason.strip():
        raise UsageError("KV-RET-002", "a hold needs a reason", why="whoever lifts it must know what it was for")
    if p.model is not None and not HEX16.fullmatch(p.model):
        raise UsageError("KV-RET-004", "that is no model", why="a model is the first 32 digits of its fingerprint")
    hold = f"h-{now()[:10].replace('-', '')}-{secrets.token_hex(4)}"
    about = {"domain": p.domain, "subject": subject, "model": p.model, "reason": p.reason, "until": until}
    document = {"schema": "kvctl.hold.set/1", "tenant": p.tenant, **about}
    with ctl.books.deciding() as db:
        require_tenant(db, p.tenant)
        if p.dry_run:
            found = table.met(db, {"tenant": p.tenant, **about}, now())
            return document | {"would": {"hold": found, "stores": sorted(ctl.settings.stores)}}
        ctl.books.commit(who, [Event("hold.set", {"hold": hold, **about}, p.tenant)])
    return document | {"hold": hold, "stores": push_holds(ctl)}


def require_tenant(db: Any, name: str) -> None:
    if tenants.tenant(db, name) is None:
        raise UsageError("KV-RET-005", f"there is no tenant {name[:80]!r}", fix="kvctl tenant ls")


def subject_of(ctl: Controller, tenant: str, user: str | None, subject: str | None) -> str | None:
    """The pseudonym that was named, or of the user that was: the id itself is kept nowhere."""
    if user is not None and subject is not None:
        raise UsageError("KV-RET-004", "name a user or a pseudonym", why="both were given")
    if user is not None:
        with ctl.books.state.reading() as db:
            require_tenant(db, tenant)
        try:
            return ctl.keystore.pseudonym(tenant, user)
        except ValueError as error:
            raise UsageError("KV-RET-004", "that is no user's id", why=str(error)) from None
    if subject is not None and (not HEX16.fullmatch(subject) or subject == NO_SUBJECT.hex()):
        raise UsageError("KV-RET-004", "that is no pseudonym", why="it has 32 hexadecimal digits, not all 0")
    return subject


def _until(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        moment = utc(text)
    except ValueError as error:
        raise UsageError("KV-RET-003", "that is no time", where=text[:40], fix="2026-12-31T00:00:00Z") from error
    if moment <= datetime.now(UTC):
        raise UsageError("KV-RET-003", "a hold cannot end in the past", where=text[:40])
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- at the stores --------------------------------------------------------------------------------------------------
def push_holds(ctl: Controller) -> list[dict[str, Any]]:
    """Have every store keep what is held: [{store, ok, version | why}]. On record: which store has which set."""
    end_run_out(ctl)
    with ctl.books.deciding() as db:
        version, before = table.version(db), table.placed(db)
        found = [{"id": row["id"], **{n: row[n] for n in NAMES}} for row in table.in_force(db, now())]
    if not version:
        return []
    body = {"version": version, "holds": found}
    with ThreadPoolExecutor(AT_ONCE, "holds") as pool:
        told = list(pool.map(lambda name: _tell(ctl, name, body), sorted(ctl.settings.stores)))
    fresh = [one for one in told if one["ok"] and before.get(one["store"], 0) < version]
    ctl.books.commit(SYSTEM, [Event("hold.placed", {"store": one["store"], "version": version}) for one in fresh])
    return told


def _tell(ctl: Controller, store: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        ask(StoreAddress.of(ctl.settings.stores[store]), "holds", body, timeout=SECONDS)
    except KvctlError as error:
        return {"store": store, "ok": False, "why": f"{error.code}: {error.what}" + (error.why and f": {error.why}")}
    return {"store": store, "ok": True, "version": body["version"]}


def end_run_out(ctl: Controller) -> None:
    """Put on record which holds have come to the end that they were given."""
    with ctl.books.deciding() as db:
        ended = [Event("hold.ended", {"hold": row["id"]}, row["tenant"]) for row in table.run_out(db, now())]
        ctl.books.commit(SYSTEM, ended)


# --- lifting --------------------------------------------------------------------------------------------------------
def lift(ctl: Controller, who: Principal, p: HoldLift) -> dict[str, Any]:
    """Ask for a hold to be lifted. RefusedError KV-RET-006 for one that is not in force for this tenant."""
    payload = {"tenant": p.tenant, "hold": p.hold, "asked_at": now()}
    impact = impact_of(ctl, payload)
    document = {"schema": "kvctl.hold.lift/1", "hold": p.hold, "tenant": p.tenant, "impact": impact}
    if p.dry_run:
        return document | {"would": f"ask for {VOTES} approvals", "approval": None}
    asked = approvals.request(ctl, who, "hold.lift", p.tenant, payload, impact, VOTES, p.reason)
    return document | {"state": "pending", **asked}


def impact_of(ctl: Controller, payload: Mapping[str, Any]) -> dict[str, Any]:
    """What would no longer be kept: of what was there when it was asked for, so that new chunks do not count."""
    with ctl.books.state.reading() as db:
        hold = _held(db, payload["tenant"], payload["hold"])
        waiting = db.execute(
            "SELECT count(*) FROM erasures WHERE tenant = ? AND outcome = 'restricted'", [payload["tenant"]]
        ).fetchone()
        assert waiting is not None
        return {**table.met(db, hold, payload["asked_at"]), "erasures": waiting[0], "holds": []}


def _held(db: Any, tenant: str, hold: str) -> dict[str, Any]:
    found = {row["id"]: row for row in table.in_force(db, now(), tenant)}
    if hold not in found:
        raise RefusedError("KV-RET-006", f"there is no hold {hold[:40]!r} in force", fix="kvctl hold ls")
    return found[hold]


def execute(ctl: Controller, who: Principal, request: Request) -> list[Event]:
    """What is recorded when it was approved; stores hear of it with the next push, and keep it until then."""
    content = request.content
    with ctl.books.state.reading() as db:
        _held(db, content["tenant"], content["hold"])
    return [Event("hold.lifted", {"hold": content["hold"], "approval": request.id}, content["tenant"])]


def ls(ctl: Controller, who: Principal, p: TenantScope) -> dict[str, Any]:
    """Every hold there was; for those in force, at which stores they are."""
    end_run_out(ctl)
    with ctl.books.state.reading() as db:
        placed, found = table.placed(db), table.listed(db, p.tenant)
    for row in found:
        row["state"] = "lifted" if row["lifted_at"] else "in force"
        row["stores"] = [
            {"store": name, "in_force": placed.get(name, 0) >= row["version"]} for name in sorted(ctl.settings.stores)
        ]
    return {"schema": "kvctl.hold.ls/1", "holds": found}


EXECUTE = {"hold.lift": Executor(impact_of, execute)}
SERVICES: dict[str, Service] = {"hold.lift": lift, "hold.ls": ls, "hold.set": set_hold}
