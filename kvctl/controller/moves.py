"""Tier moves: proposed with their impact, approved, decided on once more, then carried out store by store."""

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvctl.controller import approvals
from kvctl.controller.clock import now
from kvctl.controller.moving import is_running, live, run_move, start, stop_here
from kvctl.controller.residency import Decision, decision
from kvctl.govern.approvals import growth
from kvctl.govern.moves import KINDS, Selection, impact, steps
from kvctl.state import moves as table
from kvctl.state.governance import Connection
from kvctl.types.errors import LockedError, RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import MoveNamed, TenantScope, TierPropose

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

RESUMABLE = ("running", "returning", "stopped", "failed")


def propose(ctl: "Controller", who: Principal, p: TierPropose) -> dict[str, Any]:
    """Ask for a move. RefusedError KV-TIER-002 (nothing is there), 003 (residency forbids it: the rule is named)."""
    of = Selection(p.tenant, p.source, p.target, p.store, p.model, p.kind)
    of.check()
    move = f"m-{now()[:10].replace('-', '')}-{secrets.token_hex(4)}"
    with ctl.books.deciding() as db:
        found = _impact(db, of)
        if not found["chunks"]:
            raise RefusedError(
                "KV-TIER-002", "there is nothing to move",
                why=f"the catalogue has no such chunk of {of.tenant} on {of.source}",
                fix="kvctl residency now shows what is where",
            )  # fmt: skip
        decisions = _decisions(ctl, db, of.tenant, found["stores"], of.target, move)
        if not p.dry_run or not _allowed(decisions):
            _insist(ctl, who, of.tenant, move, decisions, record=not p.dry_run)
        answer: dict[str, Any] = {
            "schema": "kvctl.tier.propose/1", "move": move, "selection": of.payload, "impact": found,
            "decisions": [one.verdict.document() for one in decisions],
        }  # fmt: skip
        if p.dry_run:
            return answer | {"state": "dry run", "would": "proposed", "approval": None, "warnings": []}
        payload = {"move": move, **of.payload}
        request = approvals.prepare(ctl, "tier.move", of.tenant, payload, found, 1, p.reason)
        data = {"approval": request.data["approval"], "decisions": [one.id for one in decisions], "reason": p.reason}
        proposed = Event("move.proposed", payload | data, of.tenant)
        ctl.books.commit(who, [*(one.event for one in decisions), request, proposed])
        return answer | {"state": "proposed", **approvals.asked(ctl, who, request)}


def move(ctl: "Controller", who: Principal, p: MoveNamed) -> dict[str, Any]:
    """Carry an approved move out: simulated and decided on again first."""
    with ctl.books.deciding() as db:
        row = _row(db, p.move)
        if row["state"] != "proposed":
            raise RefusedError(
                "KV-TIER-004", f"{p.move} was carried out before", why=f"it is {row['state']}", fix="kvctl tier ls"
            )
        of = _selection(row)
        found = _impact(db, of)
        plan = steps(p.move, of, found["stores"])
        _reachable(ctl, plan)
        decisions = _decisions(ctl, db, of.tenant, found["stores"], of.target, p.move)
        if p.dry_run:
            return _would(db, row, found, decisions)
        _insist(ctl, who, of.tenant, p.move, decisions)
        _, executed = approvals.cleared(ctl, who, str(row["approval"]))
        begun = _begin("move.started", row, plan, decisions, back=False)
        ctl.books.commit(who, [*(one.event for one in decisions), executed, begun])
    return _go(ctl, who, p.move, "kvctl.tier.move/1")


def _would(
    db: Connection, row: Mapping[str, Any], found: dict[str, Any], decisions: Sequence[Decision]
) -> dict[str, Any]:
    request = approvals.load(db, str(row["approval"]))
    reasons = growth(request.impact, found)
    if request.state != "approved":
        reasons.insert(0, f"{request.id} is {request.state}")
    reasons += [one.verdict.rule for one in decisions if not one.verdict.allowed]
    return {
        "schema": "kvctl.tier.move/1", "move": row["id"], "state": "dry run",
        "would": "refused" if reasons else "running", "why": "; ".join(reasons), "impact": found,
        "decisions": [one.verdict.document() for one in decisions],
    }  # fmt: skip


def resume(ctl: "Controller", who: Principal, p: MoveNamed) -> dict[str, Any]:
    """Go on where a move was stopped, failed or was cut off, in the direction that it had."""
    with ctl.books.deciding() as db:
        row = _row(db, p.move)
        last = table.current(db, p.move)
        if row["state"] not in RESUMABLE or last is None:
            raise RefusedError("KV-TIER-005", f"{p.move} cannot be resumed", why=f"it is {row['state']}")
        _idle(ctl, p.move)
        return _again(ctl, who, db, row, "move.resumed", last["steps"], last["back"], p.dry_run, "kvctl.tier.resume/1")


def rollback(ctl: "Controller", who: Principal, p: MoveNamed) -> dict[str, Any]:
    """Bring back what a move has moved, and nothing else."""
    with ctl.books.deciding() as db:
        row = _row(db, p.move)
        last = table.current(db, p.move)
        if row["state"] not in ("done", "stopped", "failed") or last is None:
            raise RefusedError("KV-TIER-006", f"{p.move} cannot be rolled back", why=f"it is {row['state']}")
        _idle(ctl, p.move)
        plan = steps(p.move, _selection(row), [step["store"] for step in last["steps"]], back=True)
        return _again(ctl, who, db, row, "move.returning", plan, True, p.dry_run, "kvctl.tier.rollback/1")


def _again(
    ctl: "Controller", who: Principal, db: Connection, row: Mapping[str, Any], kind: str, plan: list[dict[str, Any]],
    back: bool, dry_run: bool, schema: str,
) -> dict[str, Any]:  # fmt: skip
    target = row["source"] if back else row["target"]
    _reachable(ctl, plan)
    decisions = _decisions(ctl, db, row["tenant"], [step["store"] for step in plan], target, row["id"])
    if dry_run:
        allowed = _allowed(decisions)
        return {
            "schema": schema, "move": row["id"], "state": "dry run", "would": "running" if allowed else "refused",
            "why": "; ".join(one.verdict.rule for one in decisions if not one.verdict.allowed),
            "decisions": [one.verdict.document() for one in decisions],
        }  # fmt: skip
    _insist(ctl, who, row["tenant"], row["id"], decisions)
    begun = _begin(kind, row, plan, decisions, back=back)
    ctl.books.commit(who, [*(one.event for one in decisions), begun])
    return _go(ctl, who, row["id"], schema)


def stop(ctl: "Controller", who: Principal, p: MoveNamed) -> dict[str, Any]:
    """Have a running move end behind the chunk that it is at. What was moved stays moved."""
    with ctl.books.state.reading() as db:
        row = _row(db, p.move)
    if row["state"] not in ("running", "returning"):
        raise RefusedError("KV-TIER-007", f"{p.move} does not run", why=f"it is {row['state']}")
    answer = {"schema": "kvctl.tier.stop/1", "move": p.move}
    if p.dry_run:
        return answer | {"state": "dry run", "would": "stopped"}
    ctl.books.commit(who, [Event("move.stop-asked", {"move": p.move}, row["tenant"])])
    if stop_here(ctl, p.move):
        return answer | {"state": "stopping"}
    return answer | run_move(ctl, p.move, who=who, stopping=True)


def ls(ctl: "Controller", who: Principal, p: TenantScope) -> dict[str, Any]:
    approvals.expire(ctl)
    with ctl.books.state.reading() as db:
        found = table.listed(db, p.tenant)
    return {"schema": "kvctl.move.ls/1", "moves": [row | {"progress": live(ctl, row["id"])} for row in found]}


def take_up(ctl: "Controller") -> list[str]:
    """Go on with what was cut off when a controller ended. What may not go on any more is stopped, with the reason."""
    with ctl.books.state.reading() as db:
        cut = [one for one in table.unfinished(db) if not is_running(ctl, one)]
    for one in cut:
        try:
            resume(ctl, SYSTEM, MoveNamed(one))
        except LockedError:
            continue  # somebody was quicker
        except (RefusedError, UsageError) as refused:
            data = {
                "move": one,
                "state": "stopped",
                "why": f"{refused.what}: {refused.why}",
                "failed": None,
                "skipped": None,
            }
            with ctl.books.state.reading() as db:
                tenant = _row(db, one)["tenant"]
            ctl.books.commit(SYSTEM, [Event("move.ended", data, tenant, "refused")])
    return cut


def simulate(ctl: "Controller", payload: Mapping[str, Any]) -> dict[str, Any]:
    names = ("tenant", "source", "target", "store", "model", "kind")
    with ctl.books.state.reading() as db:
        return _impact(db, Selection(**{name: payload[name] for name in names}))


def _impact(db: Connection, of: Selection) -> dict[str, Any]:
    kind = KINDS[of.kind] if of.kind else None
    named = {"tenant": of.tenant, "source": of.source, "store": of.store, "model": of.model, "class": kind}
    return impact(table.chosen(db, named), table.holds(db, named, now()))


def _decisions(
    ctl: "Controller", db: Connection, tenant: str, stores: Sequence[str] | Mapping[str, Any], tier: str, move: str
) -> list[Decision]:
    return [decision(ctl, db, "move", tenant, store=store, tier=tier, ref=move) for store in stores]


def _allowed(decisions: Sequence[Decision]) -> bool:
    return all(one.verdict.allowed for one in decisions)


def _insist(
    ctl: "Controller", who: Principal, tenant: str, move: str, decisions: Sequence[Decision], *, record: bool = True
) -> None:
    """RefusedError KV-TIER-003 when residency forbids one of them; then all of them are on record."""
    if _allowed(decisions):
        return
    rules = [
        f"{one.verdict.store}/{one.verdict.tier}: {one.verdict.rule}" for one in decisions if not one.verdict.allowed
    ]
    if record:
        data = {"move": move, "decisions": [one.id for one in decisions], "rules": rules}
        refused = Event("tier.refused", data, tenant, "refused")
        ctl.books.commit(who, [*(one.event for one in decisions), refused])
    raise RefusedError(
        "KV-TIER-003", "residency forbids this move", where=move, why="; ".join(rules),
        fix="another tier or store, or a policy that allows it: docs/residency.md",
    )  # fmt: skip


def _begin(
    kind: str, row: Mapping[str, Any], plan: list[dict[str, Any]], decisions: Sequence[Decision], *, back: bool
) -> Event:
    data = {"move": row["id"], "steps": plan, "decisions": [one.id for one in decisions], "back": back}
    return Event(kind, data, row["tenant"])


def _reachable(ctl: "Controller", plan: Sequence[Mapping[str, Any]]) -> None:
    unknown = sorted({step["store"] for step in plan} - set(ctl.settings.stores))
    if unknown:
        raise UsageError(
            "KV-TIER-008", f"the controller does not know how to reach {', '.join(unknown)}",
            fix="name them under stores in controller.yaml",
        )  # fmt: skip


def _idle(ctl: "Controller", move: str) -> None:
    if is_running(ctl, move):
        raise LockedError("KV-TIER-009", f"{move} runs already", fix="kvctl tier ls shows how far it is")


def _go(ctl: "Controller", who: Principal, move: str, schema: str) -> dict[str, Any]:
    """In a thread of a controller that stays; to its end in a process that lives for this call."""
    if ctl.schedule is not None:
        start(ctl, move, who)
        return {"schema": schema, "move": move, "state": "running"}
    return {"schema": schema} | run_move(ctl, move, who=who)


def _row(db: Connection, move: str) -> dict[str, Any]:
    found = table.find(db, move)
    if found is None:
        raise UsageError("KV-TIER-010", f"there is no move {move!r}", fix="kvctl tier ls")
    return found


def _selection(row: Mapping[str, Any]) -> Selection:
    return Selection(row["tenant"], row["source"], row["target"], row["store"], row["model"], row["kind"])


EXECUTE = {"tier.move": approvals.Executor(simulate)}
SERVICES: dict[str, "Service"] = {
    "move.ls": ls, "tier.move": move, "tier.propose": propose, "tier.resume": resume, "tier.rollback": rollback,
    "tier.stop": stop,
}  # fmt: skip
