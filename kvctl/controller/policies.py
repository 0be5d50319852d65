"""Policies: a file becomes the rows that differ, each with how grave it is, in force at once or when approved."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kvctl.controller import approvals
from kvctl.govern.approvals import Request, digest
from kvctl.govern.changes import Changed, diff, votes
from kvctl.govern.policy import Policy, of_rows
from kvctl.govern.policyfile import merged
from kvctl.govern.residency import judged
from kvctl.state import copies
from kvctl.state import policies as table
from kvctl.state.governance import Connection, rows
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import PolicyApply, PolicyShow
from kvctl.types.times import utc

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service


@dataclass(frozen=True, slots=True)
class Plan:
    """What a file would change, and the policy that it would make."""

    new: Policy
    changes: list[Changed]
    sha256: str

    def document(self) -> list[dict[str, Any]]:
        return [asdict(change) for change in self.changes]


def plan(db: Connection, text: str) -> Plan:
    now = of_rows(table.in_force(db))
    new = merged(now, text)
    return Plan(new, diff(now, past(db, now), new), digest(text))


def past(db: Connection, now: Policy) -> Policy:
    """The last rows of what was withdrawn, at the sites as they are."""
    gone = of_rows(table.withdrawn(db))
    return Policy(now.entities, now.sites, gone.places, gone.residency, gone.retention, gone.subprocessors)


def apply(ctl: "Controller", who: Principal, p: PolicyApply) -> dict[str, Any]:
    """Put a policy file in force, or ask for the approvals that its gravest change needs."""
    with ctl.books.deciding() as db:
        made = plan(db, p.text)
        required = votes(made.changes)
        violations = breaches(db, made.new, ctl.settings.country)
        answer: dict[str, Any] = {
            "schema": "kvctl.policy.apply/1", "sha256": made.sha256, "required": required, "changes": made.document(),
            "violations": violations, "warnings": _warnings(db, made.new), "approval": None,
        }  # fmt: skip
        state = "unchanged" if not made.changes else "pending" if required else "in force"
        if p.dry_run:
            return answer | {"state": "dry run", "would": state}
        if state == "in force":
            ctl.books.commit(who, activation(db, answer["changes"], made.sha256, None, p.reason))
        elif state == "pending":
            payload = {"changes": answer["changes"], "sha256": made.sha256}
            impact = _impact(answer["changes"], violations)
            event = approvals.prepare(ctl, "policy.apply", None, payload, impact, required, p.reason)
            ctl.books.commit(who, [event])
            asked = approvals.asked(ctl, who, event)
            answer |= {"approval": asked["approval"], "warnings": answer["warnings"] + asked["warnings"]}
    return answer | {"state": state}


def activation(
    db: Connection, changes: list[dict[str, Any]], sha256: str, approval: str | None, reason: str
) -> list[Event]:
    """One event for the site's own rows and one for each tenant's."""
    by_tenant: dict[str | None, list[dict[str, Any]]] = {}
    for change in changes:
        tenant = (change["after"] or change["before"]).get("tenant")
        numbered = change | {"version": table.next_version(db, change["section"], change["key"])}
        by_tenant.setdefault(tenant, []).append(numbered)
    return [
        Event("policy.activated", {"changes": rows, "sha256": sha256, "approval": approval, "reason": reason}, tenant)
        for tenant, rows in by_tenant.items()
    ]


def breaches(db: Connection, policy: Policy, home: str, tenant: str | None = None) -> list[dict[str, Any]]:
    """What of what is stored now would be outside under this policy: counts by tenant, place and rule."""
    found = judged(policy, copies.held(db, tenant), {}, home)
    return [row for row in found if row["verdict"] == "deny"]


def _impact(changes: list[dict[str, Any]], violations: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers that are compared again when the request is carried out."""
    grave: dict[str, int] = {}
    for change in changes:
        grave[change["change"]] = grave.get(change["change"], 0) + 1
    outside: dict[str, dict[str, int]] = {}
    for row in violations:
        sums = outside.setdefault(row["tenant"], {"chunks": 0, "bytes": 0})
        sums["chunks"] += row["chunks"]
        sums["bytes"] += row["bytes"]
    return {"rows": grave, "outside": outside, "holds": []}


def _warnings(db: Connection, policy: Policy) -> list[str]:
    known = {row["tenant"] for row in rows(db, "SELECT tenant FROM tenants")}
    named = {row.tenant for section in (policy.residency, policy.retention) for row in section.values()}
    return [f"there is no tenant {name!r} yet" for name in sorted(named - known)]


def simulate(ctl: "Controller", payload: Mapping[str, Any]) -> dict[str, Any]:
    """The impact of a change that waits, as things are now."""
    with ctl.books.state.reading() as db:
        _, new = rebased(db, payload["changes"])
        return _impact(payload["changes"], breaches(db, new, ctl.settings.country))


def rebased(db: Connection, changes: list[dict[str, Any]]) -> tuple[Policy, Policy]:
    """What is in force, and what would be with these changes."""
    now = table.in_force(db)
    sections = {section: {row.key: row for row in _rows(section, now)} for section in now}
    for change in changes:
        section = sections[change["section"]]
        section.pop(change["key"], None)
        if change["after"]:
            row = getattr(of_rows({change["section"]: [change["after"]]}), change["section"])
            section |= row
    return of_rows(now), Policy(**sections)


def _rows(section: str, now: Mapping[str, list[dict[str, Any]]]) -> list[Any]:
    return list(getattr(of_rows({section: now[section]}), section).values())


def execute(ctl: "Controller", who: Principal, request: Request) -> list[Event]:
    """RefusedError KV-POL-004 when what was approved was decided on other rows than are in force, or is graver now."""
    payload = request.content
    with ctl.books.state.reading() as db:
        now, new = rebased(db, payload["changes"])
        fresh = diff(now, past(db, now), new)
        if [(c.section, c.key, c.before, c.after) for c in fresh] != [
            (c["section"], c["key"], c["before"], c["after"]) for c in payload["changes"]
        ] or votes(fresh) > request.required:
            raise RefusedError(
                "KV-POL-004", "the policy in force is another one than when this was asked for",
                why="a change of a policy is approved for the rows that it replaces", fix="kvctl policy apply again",
            )  # fmt: skip
        return activation(db, payload["changes"], payload["sha256"], request.id, "")


def show(ctl: "Controller", who: Principal, p: PolicyShow) -> dict[str, Any]:
    """What is in force, or was at a time: versions, places, and whose laws reach each site."""
    at = None if p.at is None else moment(p.at)
    with ctl.books.state.reading() as db:
        found = table.listed(db, p.tenant, at)
        site = table.in_force(db, at)
    policy = of_rows(site)
    places = [
        {"store": row.store, "tier": row.tier, "site": row.site} | _laws(policy, row.site)
        for row in policy.places.values()
    ]
    subprocessors = [row for row in site["subprocessors"] if p.tenant in (None, row["tenant"])]
    return {
        "schema": "kvctl.policy.show/1", "at": at, **found, "places": places, "sites": site["sites"],
        "entities": site["entities"], "subprocessors": subprocessors,
    }  # fmt: skip


def _laws(policy: Policy, site: str) -> dict[str, Any]:
    found = policy.at(site)
    names = ("country", "entity_country", "controlled_by")
    return {name: getattr(found, name) if found else None for name in names}


def moment(text: str) -> str:
    """A time as the tables have it. UsageError KV-POL-005."""
    try:
        return utc(text).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except ValueError as bad:
        raise UsageError(
            "KV-POL-005", f"{text!r} is no time", why=str(bad), fix="such as 2026-03-01T12:00:00Z"
        ) from bad


EXECUTE = {"policy.apply": approvals.Executor(simulate, execute)}
SERVICES: dict[str, "Service"] = {"policy.apply": apply, "policy.show": show}
