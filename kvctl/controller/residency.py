"""Residency: a decision on record before bytes go anywhere, and where they are, were, and would be outside."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvctl.controller.clock import now
from kvctl.controller.policies import breaches, moment, plan
from kvctl.govern.policy import of_rows
from kvctl.govern.residency import Verdict, decide_at, judged
from kvctl.govern.residency import decide as decide_place
from kvctl.state import copies
from kvctl.state import policies as table
from kvctl.state.governance import Connection
from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import PolicyText, ResidencyHistory, TenantScope

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

ACTIONS = ("place", "move", "replica", "backup", "restore", "export")


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict and the event that puts it on record: to be committed before, or with, what it is about."""

    id: str
    verdict: Verdict
    event: Event


def decision(
    ctl: "Controller", db: Connection, action: str, tenant: str, *, store: str | None = None, tier: str | None = None,
    site: str | None = None, ref: str = "",
) -> Decision:  # fmt: skip
    """May the tenant's bytes go to this tier of this store, or to this site? Nothing is recorded yet."""
    policy, version = of_rows(table.in_force(db)), table.versions(db).get(tenant)
    home = ctl.settings.country
    if site is not None:
        verdict = decide_at(policy, tenant, site, home=home, version=version)
    elif store is not None and tier is not None:
        verdict = decide_place(policy, tenant, store, tier, home=home, version=version)
    else:
        raise UsageError("KV-RES-001", "a decision is about a tier of a store, or about a site")
    return of_verdict(action, tenant, verdict, ref)


def of_verdict(action: str, tenant: str, verdict: Verdict, ref: str) -> Decision:
    name = f"d-{secrets.token_hex(8)}"
    data = {"decision": name, "action": action, "ref": ref, **verdict.document()}
    return Decision(name, verdict, Event("decision.made", data, tenant, "ok" if verdict.allowed else "refused"))


def decide(
    ctl: "Controller", who: Principal, action: str, tenant: str, *, store: str | None = None, tier: str | None = None,
    site: str | None = None, ref: str = "",
) -> Decision:  # fmt: skip
    """The same, on record when this returns. `action`: place, move, replica, backup, restore or export."""
    with ctl.books.deciding() as db:
        made = decision(ctl, db, action, tenant, store=store, tier=tier, site=site, ref=ref)
        ctl.books.commit(who, [made.event])
    return made


def live(ctl: "Controller", who: Principal, p: TenantScope) -> dict[str, Any]:
    """Where the copies are now, and which are outside the policy in force."""
    with ctl.books.state.reading() as db:
        _insist(db, p.tenant)
        policy, versions = of_rows(table.in_force(db)), table.versions(db)
        found = judged(policy, copies.held(db, p.tenant), versions, ctl.settings.country)
        since = copies.known_since(db)
    return {"schema": "kvctl.residency.now/1", "at": now(), "known_since": since} | _split(found)


def history(ctl: "Controller", who: Principal, p: ResidencyHistory) -> dict[str, Any]:
    """Where a tenant's copies were at a time, judged by the policy and the places that were in force then."""
    at = moment(p.at)
    if at > now():
        raise UsageError("KV-RES-002", f"{at} is still to come", fix="kvctl residency whatif FILE looks ahead")
    with ctl.books.state.reading() as db:
        _insist(db, p.tenant)
        policy, versions = of_rows(table.in_force(db, at)), table.versions(db, at)
        found = judged(policy, copies.held_at(db, p.tenant, at), versions, ctl.settings.country)
        rules = table.listed(db, p.tenant, at)["residency"]
        since = copies.known_since(db)
    return {
        "schema": "kvctl.residency.history/1", "tenant": p.tenant, "at": at, "known_since": since,
        "policy": rules[0] if rules else None, **_split(found),
    }  # fmt: skip


def _insist(db: Connection, tenant: str | None) -> None:
    """UsageError KV-RES-003 for a tenant that nothing here knows: that it has no copies would say too much."""
    if tenant is not None and not table.knows(db, tenant):
        raise UsageError("KV-RES-003", f"there is no tenant {tenant[:80]!r}", fix="kvctl tenant ls")


def whatif(ctl: "Controller", who: Principal, p: PolicyText) -> dict[str, Any]:
    """What a policy file would change, and what would be outside under it: counts by tenant, country and tier."""
    with ctl.books.state.reading() as db:
        made = plan(db, p.text)
        before = breaches(db, of_rows(table.in_force(db)), ctl.settings.country)
        after = breaches(db, made.new, ctl.settings.country)
        since = copies.known_since(db)
    return {
        "schema": "kvctl.residency.whatif/1", "known_since": since, "changes": made.document(), "outside": after,
        "by_country": by_country(after), "totals": {"outside_now": total(before), "outside_then": total(after)},
    }  # fmt: skip


def by_country(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str, str], dict[str, int]] = {}
    for row in found:
        one = sums.setdefault((row["tenant"], row["country"] or "unknown", row["tier"]), {"chunks": 0, "bytes": 0})
        one["chunks"] += row["chunks"]
        one["bytes"] += row["bytes"]
    return [{"tenant": t, "country": c, "tier": tier, **one} for (t, c, tier), one in sorted(sums.items())]


def total(found: Sequence[dict[str, Any]]) -> dict[str, int]:
    return {"chunks": sum(row["chunks"] for row in found), "bytes": sum(row["bytes"] for row in found)}


def _split(found: list[dict[str, Any]]) -> dict[str, Any]:
    outside = [row for row in found if row["verdict"] == "deny"]
    return {"copies": found, "outside": outside, "totals": {"copies": total(found), "outside": total(outside)}}


SERVICES: dict[str, "Service"] = {"residency.history": history, "residency.now": live, "residency.whatif": whatif}
