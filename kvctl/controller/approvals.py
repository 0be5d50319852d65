"""Approvals: asked for, voted on, carried out after a last look, or run out of time. Each ends in an event."""

import importlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kvctl.controller.clock import now
from kvctl.govern.approvals import (
    Request,
    canonical,
    check_vote,
    decided,
    digest,
    growth,
    lapsed,
    overdue,
    person,
    roles_for,
)
from kvctl.state import approvals as table
from kvctl.state.governance import Connection
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import ApprovalList, ApprovalNamed, ApprovalVote

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

TO_DECIDE = timedelta(hours=24)
TO_EXECUTE = timedelta(hours=24)
STATES = ("pending", "approved", "rejected", "expired", "executed", "aborted")
MOST = 100_000  # requests in one answer
OPEN = ("pending", "approved")  # states in which a vote may lapse; what has ended keeps the votes it ended with

# Kind of request -> the module that lists how it is carried out, in EXECUTE.
EXECUTORS: dict[str, str] = {
    "hold.lift": "kvctl.controller.holds",
    "policy.apply": "kvctl.controller.policies",
    "store.destroyed": "kvctl.controller.destroyed",
    "tier.move": "kvctl.controller.moves",
}


@dataclass(frozen=True, slots=True)
class Executor:
    """`simulate` gives the impact of a payload now. `execute` does what has to be done outside the books, safe to be
    repeated, and gives the events that are recorded together with approval.executed; a RefusedError of it aborts the
    request, any other error leaves it approved. None: a verb of its own carries it out, and calls `cleared`."""

    simulate: Callable[["Controller", Mapping[str, Any]], dict[str, Any]]
    execute: Callable[["Controller", Principal, Request], list[Event]] | None = None


def prepare(
    ctl: "Controller", kind: str, tenant: str | None, payload: Mapping[str, Any], impact: Mapping[str, Any],
    required: int, reason: str = "",
) -> Event:  # fmt: skip
    """The event of a new request, to be committed by whoever asks. Its id is `event.data["approval"]`."""
    text, at = canonical(payload), now()
    data = {
        "approval": f"a-{at[:10].replace('-', '')}-{secrets.token_hex(4)}", "kind": kind, "payload": text,
        "payload_sha256": digest(text), "impact": dict(impact), "at_idx": ctl.books.log.size, "required": required,
        "reason": reason, "expires": _later(at, TO_DECIDE),
    }  # fmt: skip
    return Event("approval.requested", data, tenant)


def request(
    ctl: "Controller", who: Principal, kind: str, tenant: str | None, payload: Mapping[str, Any],
    impact: Mapping[str, Any], required: int, reason: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Ask for approval. What `asked` says of it."""
    event = prepare(ctl, kind, tenant, payload, impact, required, reason)
    ctl.books.commit(who, [event])
    return asked(ctl, who, event)


def asked(ctl: "Controller", who: Principal, event: Event) -> dict[str, Any]:
    """A request that was just made, for the one who made it."""
    data = event.data
    names = sorted(roles_for(data["kind"]))
    with ctl.books.state.reading() as db:
        able = table.voters(db, [str(name) for name in names], person(who.name))
    warnings = []
    if able < data["required"]:
        warnings.append(
            f"{data['required']} votes are needed, and {able} accounts beside yours have the role {' or '.join(names)}"
        )
    return {k: data[k] for k in ("approval", "required", "expires", "payload_sha256")} | {"warnings": warnings}


def load(db: Connection, approval: str) -> Request:
    """UsageError KV-APP-001 for one that there is not."""
    row = table.find(db, approval)
    if row is None:
        raise UsageError("KV-APP-001", f"there is no approval request {approval!r}", fix="kvctl approve ls")
    given = {vote["voter"]: vote["decision"] for vote in table.votes(db, approval)}
    void = table.unable(db, list(given), [str(role) for role in roles_for(str(row["kind"]))], now())
    names = (
        "id", "kind", "tenant", "payload", "payload_sha256", "impact", "requester", "required", "state", "expires",
        "execute_by",
    )  # fmt: skip
    return Request(**{name: row[name] for name in names}, votes=given, void=void)


def expire(ctl: "Controller") -> list[str]:
    """End every request whose time is over. Their ids."""
    with ctl.books.deciding() as db:
        events = []
        for one in table.undecided(db):
            found = load(db, one)
            which = overdue(found, now())
            if which:
                events.append(Event("approval.expired", {"approval": one, "which": which}, found.tenant))
        ctl.books.commit(SYSTEM, events)
    return [event.data["approval"] for event in events]


def vote(ctl: "Controller", who: Principal, p: ApprovalVote) -> dict[str, Any]:
    """One person's yes or no. The last yes that was needed carries the request out."""
    if p.decision not in ("yes", "no"):
        raise UsageError("KV-APP-008", f"{p.decision!r} is no vote", fix="yes or no")
    expire(ctl)
    with ctl.books.deciding() as db:
        found = load(db, p.approval)
        check_vote(found, who, p.payload_sha256, now())
        state = decided(found, p.decision)
        ctl.books.commit(who, _voted(found, who, p, state))
    answer = {"schema": "kvctl.approve.vote/1", "approval": found.id, "kind": found.kind, "state": state}
    if state == "approved" and executor(found.kind).execute is not None:
        answer |= carry_out(ctl, who, found.id)
    return answer


def _voted(found: Request, who: Principal, p: ApprovalVote, state: str) -> list[Event]:
    role = min(roles_for(found.kind) & who.roles)
    data = {
        "approval": found.id, "role": str(role), "decision": p.decision, "payload_sha256": p.payload_sha256,
        "fresh": who.fresh, "reason": p.reason,
    }  # fmt: skip
    events = [Event("approval.voted", data, found.tenant)]
    if state == "approved":
        until = _later(now(), TO_EXECUTE)
        events.append(Event("approval.approved", {"approval": found.id, "execute_by": until}, found.tenant))
    elif state == "rejected":
        events.append(Event("approval.rejected", {"approval": found.id}, found.tenant))
    return events


def execute(ctl: "Controller", who: Principal, p: ApprovalNamed) -> dict[str, Any]:
    """Carry out what was approved and then failed for another reason than its own."""
    with ctl.books.state.reading() as db:
        found = load(db, p.approval)
    if executor(found.kind).execute is None:
        raise UsageError(
            "KV-APP-009", f"{found.kind} has a verb of its own", fix=f"kvctl {found.kind.replace('.', ' ')}"
        )
    return {"schema": "kvctl.approve.execute/1", "approval": found.id, "kind": found.kind} | carry_out(
        ctl, who, found.id
    )


def carry_out(ctl: "Controller", who: Principal, approval: str) -> dict[str, Any]:
    """Look again, then do it: the state it ends in, and why when that is not `executed`."""
    with ctl.books.deciding():
        try:
            found, done = cleared(ctl, who, approval)
            act = executor(found.kind).execute
            assert act is not None
            events = act(ctl, who, found)
        except Aborted as aborted:
            return {"state": "aborted", "why": aborted.reasons}
        except RefusedError as refused:
            if refused.code == "KV-APP-010":
                raise
            return {"state": "aborted", "why": abort(ctl, who, approval, [f"{refused.what}: {refused.why}"], {})}
        ctl.books.commit(who, [*events, done])
    return {"state": "executed", "why": []}


class Aborted(RefusedError):
    """The request was ended: what would be done is no longer what was approved."""

    def __init__(self, found: Request, reasons: list[str]) -> None:
        super().__init__(
            "KV-APP-011", f"{found.id} was ended: it is not what was approved any more", why="; ".join(reasons),
            fix="ask again",
        )  # fmt: skip
        self.reasons = reasons


def cleared(ctl: "Controller", who: Principal, approval: str) -> tuple[Request, Event]:
    """An approved request that may be carried out now, and the event to commit with it. Call it while deciding.

    RefusedError KV-APP-010 when it is not approved (any more); Aborted KV-APP-011 when its impact grew by more than
    5 % or a hold is met that was not met when it was asked for. Then the request has ended, on record.
    """
    expire(ctl)
    with ctl.books.deciding() as db:
        found = load(db, approval)
        if found.state != "approved":
            raise RefusedError(
                "KV-APP-010",
                f"{approval} is not approved",
                why=f"it is {found.state}",
                fix=f"kvctl approve show {approval}",
            )
        impact = executor(found.kind).simulate(ctl, found.content)
        reasons = lapsed(found) + growth(found.impact, impact)
        if reasons:
            abort(ctl, who, approval, reasons, impact)
            raise Aborted(found, reasons)
    data = {"approval": approval, "payload_sha256": digest(found.payload), "impact": impact}
    return found, Event("approval.executed", data, found.tenant)


def abort(ctl: "Controller", who: Principal, approval: str, reasons: list[str], impact: Mapping[str, Any]) -> list[str]:
    with ctl.books.deciding() as db:
        found = load(db, approval)
        data = {"approval": approval, "why": reasons, "impact": dict(impact)}
        ctl.books.commit(who, [Event("approval.aborted", data, found.tenant, "refused")])
    return reasons


def executor(kind: str) -> Executor:
    found: dict[str, Executor] = importlib.import_module(EXECUTORS[kind]).EXECUTE if kind in EXECUTORS else {}
    if kind not in found:
        raise UsageError("KV-APP-012", f"nothing here carries out {kind}", fix="use the kvctl that asked for it")
    return found[kind]


def ls(ctl: "Controller", who: Principal, p: ApprovalList) -> dict[str, Any]:
    if p.state is not None and p.state not in STATES:
        raise UsageError("KV-APP-013", f"{p.state!r} is no state of a request", fix=", ".join(STATES))
    if not 1 <= p.limit <= MOST:
        raise UsageError("KV-APP-015", "that many requests are not listed", fix=f"a limit of 1 to {MOST}")
    expire(ctl)
    with ctl.books.state.reading() as db:
        found = table.listed(db, p.state, p.tenant, p.limit)
        for row in found:
            if row["state"] in OPEN:
                row["yes"] = load(db, row["id"]).yes
        return {"schema": "kvctl.approve.ls/1", "approvals": found}


def show(ctl: "Controller", who: Principal, p: ApprovalNamed) -> dict[str, Any]:
    """All there is about a request: what a voter must see before voting. `yes`: votes for it that count."""
    expire(ctl)
    with ctl.books.state.reading() as db:
        found = load(db, p.approval)
        row = table.find(db, p.approval) or {}
        given, history = table.votes(db, p.approval), table.history(db, p.approval)
    void = found.void if found.state in OPEN else frozenset()
    votes = [{**vote, "counts": vote["voter"] not in void} for vote in given]
    yes = sum(vote["counts"] and vote["decision"] == "yes" for vote in votes)
    about = {**row, "payload": found.content, "yes": yes, "votes": votes, "history": history}
    return {"schema": "kvctl.approve.show/1", **about}


def _later(at: str, delta: timedelta) -> str:
    moment = datetime.fromisoformat(at) + delta
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


SERVICES: dict[str, "Service"] = {
    "approve.execute": execute, "approve.ls": ls, "approve.show": show, "approve.vote": vote
}  # fmt: skip
