"""Retention: what must go and what each rest is kept by, having stores remove it, and explaining one chunk."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kvctl.controller.catalogue import address_of
from kvctl.controller.holds import require_tenant
from kvctl.controller.stores import ask
from kvctl.govern.retention import Copy, Hold, Version, considered, judge
from kvctl.state import holds, retention
from kvctl.state.governance import Connection
from kvctl.types.errors import KvctlError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import RetentionApply, RetentionExplain, RetentionPlan

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

SECONDS = 120.0  # for one store's answer
MOST = 100_000  # chunks in one answer
PREFIX = re.compile(r"[0-9a-f]{4,64}")
RULES = ("hold", "maximum", "minimum", "idle", "within")


def plan(ctl: Controller, who: Principal, p: RetentionPlan) -> dict[str, Any]:
    """Totals by tenant, class, tier and rule, and the first of the copies that must go.

    `lag`: what policy says is gone and stores still have. `stores`: how old what the catalogue knows of each is.
    """
    if not 0 <= p.limit <= MOST:
        raise UsageError("KV-RET-010", "that many chunks are not listed", fix=f"a limit of 0 to {MOST}")
    at = _now()
    with ctl.books.state.reading() as db:
        if p.tenant is not None:
            require_tenant(db, p.tenant)
        totals = retention.totals(db, at, p.tenant)
        items = retention.going(db, at, p.tenant, p.limit)
        unread = _unread(ctl, db)
    going = [row for row in totals if row["go"]]
    return {
        "schema": "kvctl.retention.plan/1", "at": at.isoformat(timespec="milliseconds") + "Z", "tenant": p.tenant,
        "totals": totals, "going": _sum(going), "kept": _sum([row for row in totals if not row["go"]]),
        "lag": {
            **_sum(going), "oldest_due": min((row["oldest_due"] for row in going), default=None),
            "late_p99_s": max((row["late_p99_s"] for row in going), default=None),
        },
        "items": items, "not_known": unread,
    }  # fmt: skip


def _sum(found: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(row[name] for row in found) for name in ("copies", "bytes")}


def _unread(ctl: Controller, db: Connection) -> list[dict[str, Any]]:
    """Stores of which the catalogue does not know the present state, and why."""
    found = dict(db.execute("SELECT source, [state, why] FROM sources").fetchall())
    rows = [(name, *found.get(name, ["never read", ""])) for name in sorted(ctl.settings.stores)]
    return [{"store": name, "state": state, "why": why} for name, state, why in rows if state != "ok"]


def apply(ctl: Controller, who: Principal, p: RetentionApply) -> dict[str, Any]:
    """Have the stores remove what must go. They decide on holds once more; what they say is what is recorded."""
    at = _now()
    document: dict[str, Any] = {"schema": "kvctl.retention.apply/1", "tenant": p.tenant}
    with ctl.books.state.reading() as db:
        if p.tenant is not None:
            require_tenant(db, p.tenant)
        going = [row for row in retention.totals(db, at, p.tenant) if row["go"]]
        if p.dry_run or not going:
            return document | {"would": going if p.dry_run else [], "stores": [], "going": _sum(going)}
        ctl.books.commit(who, [Event("retention.started", {"going": _sum(going)}, p.tenant)])
        done: dict[str, Counter[str]] = {}
        errors: dict[str, str] = {}
        for scope, keys in retention.victims(db, at, p.tenant):
            store = scope.pop("store")
            counts = done.setdefault(store, Counter())
            counts["asked"] += len(keys)
            if store not in errors:
                _remove(ctl, store, {**scope, "keys": keys, "why": "retention"}, counts, errors)
    stores = [_outcome(name, counts, errors.get(name)) for name, counts in sorted(done.items())]
    outcome = "failed" if errors else "ok"
    ctl.books.commit(who, [Event("retention.applied", {"going": _sum(going), "stores": stores}, p.tenant, outcome)])
    return document | {"going": _sum(going), "stores": stores}


def apply_due(ctl: Controller) -> None:
    """The same for all tenants, by the controller itself."""
    apply(ctl, SYSTEM, RetentionApply())


def _remove(
    ctl: Controller, store: str, body: dict[str, Any], counts: Counter[str], errors: dict[str, str]
) -> None:  # fmt: skip
    try:
        answer = ask(address_of(ctl, store), "remove", body, timeout=SECONDS)
    except KvctlError as error:
        errors[store] = f"{error.code}: {error.what}"
        return
    counts.update(
        removed=answer["removed"], bytes=answer["bytes"], held=len(answer["held"]), absent=answer["absent"]
    )  # fmt: skip
    if answer.get("not_reached"):
        errors[store] = "not reached: " + ", ".join(answer["not_reached"])


def _outcome(store: str, counts: Counter[str], error: str | None) -> dict[str, Any]:
    names = ("asked", "removed", "bytes", "held", "absent")
    return {"store": store, **{name: counts[name] for name in names}, "error": error}


def explain(ctl: Controller, who: Principal, p: RetentionExplain) -> dict[str, Any]:
    """Each copy of the chunks whose key begins so: the rule that decides, until when, and what every rule says.

    UsageError KV-RET-007 for what is no key, 008 when the catalogue never had one.
    """
    prefix = p.key.lower()
    if not PREFIX.fullmatch(prefix):
        raise UsageError("KV-RET-007", "that is no chunk's key", why="it is 4 to 64 hexadecimal digits")
    at = _now()
    with ctl.books.state.reading() as db:
        require_tenant(db, p.tenant)
        found = retention.copies(db, p.tenant, prefix)
        versions = [
            Version(row["tenant"], row["class"], *list(row.values())[2:]) for row in retention.policies(db, p.tenant)
        ]
        held = [_hold(row) for row in holds.in_force(db, at, p.tenant)]
    if not found:
        raise UsageError("KV-RET-008", "the catalogue has no such chunk", where=f"tenant {p.tenant}, key {prefix}")
    copies = [_explained(p.tenant, row, versions, held, at) for row in found]
    return {"schema": "kvctl.retention.explain/1", "tenant": p.tenant, "copies": copies}


def _explained(
    tenant: str, row: dict[str, Any], versions: list[Version], held: list[Hold], at: datetime
) -> dict[str, Any]:
    about = {n: row[n] for n in ("store", "tier", "domain", "key", "bytes", "stored_at", "removed_at", "removed_why")}
    if row["removed_at"] is not None:
        return about | {
            "state": "gone",
            "rule": None,
            "until": None,
            "text": f"gone: {row['removed_why']}",
            "rules": [],
        }
    users = frozenset(row["users"] or ()) | ({row["subject"]} if row["subject"] else frozenset())
    copy = Copy(
        tenant, row["domain"], row["class"], row["model"], _moment(row["stored_at"]),
        _moment(row["expires_at"]) if row["expires_at"] else None, _moment(row["used_at"]) if row["used_at"] else None,
        users,
    )  # fmt: skip
    outcome = judge(copy, versions, held, at)
    said = zip(RULES, considered(copy, versions, held, at), strict=True)
    return about | {
        "state": "must go" if outcome.go else "kept", "rule": outcome.rule, "text": outcome.text,
        "until": outcome.until.isoformat(timespec="milliseconds") + "Z" if outcome.until else None,
        "rules": [{"rule": rule, "says": one.text if one else "does not decide"} for rule, one in said],
    }  # fmt: skip


def _hold(row: dict[str, Any]) -> Hold:
    ends = (_moment(row[name]) if row[name] else None for name in ("until_at", "lifted_at"))
    return Hold(row["id"], row["tenant"], row["domain"], row["subject"], row["model"], _moment(row["from_at"]), *ends)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


SERVICES: dict[str, Service] = {"retention.apply": apply, "retention.explain": explain, "retention.plan": plan}
