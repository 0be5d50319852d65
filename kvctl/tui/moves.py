"""Moves between tiers: proposed, carried out, stopped, taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvctl.tui.changes import Change, Field, Given, Proposed
from kvctl.tui.tables import Ask, Column, Doc, Level, Table, of, whole
from kvctl.tui.words import NOT_KNOWN, counted, described, plain, size, state
from kvctl.types.chunks import TierName
from kvctl.types.requests import MoveNamed, TenantScope, TierPropose

TIERS = tuple(str(tier) for tier in TierName)


def moves(ask: Ask) -> Sequence[Doc]:
    return list(ask("move.ls", TenantScope())["moves"])


def progress(move: Doc) -> str:
    """Chunks and bytes that are moved, as the stores that are at work say, or as the books do."""
    stores = move.get("progress")
    if stores:
        return "; ".join(f"{plain(store)} {plain(how)}" for store, how in stores.items())
    if move.get("moved") is None:
        return f"approval {plain(move.get('approval_state'))}" if move["state"] == "proposed" else NOT_KNOWN
    return f"{move['moved']} chunks, {size(move.get('bytes'))}"


def level(doc: Doc) -> Level:
    return whole(plain(doc["id"]), described(doc))


def simulated(answer: Doc) -> list[str]:
    """What a proposal would touch, and what residency says of it."""
    impact = answer["impact"]
    lines = [f"{impact['chunks']} chunks, {size(impact['bytes'])}"]
    lines += [f"  store {plain(store)}: {plain(sizes)}" for store, sizes in impact["stores"].items()]
    lines += [f"holds met: {', '.join(map(plain, impact['holds'])) or 'none'}"]
    for one in answer["decisions"]:
        lines.append(f"{plain(one['store'])}/{plain(one['tier'])}: {plain(one['verdict'])}: {plain(one['rule'])}")
    return lines + [f"! {plain(warning)}" for warning in answer["warnings"]]


def propose(ask: Ask, docs: Sequence[Doc], given: Given) -> Proposed:
    def wanted(dry_run: bool) -> TierPropose:
        return TierPropose(given["tenant"], given["from"], given["to"], reason=given["reason"], dry_run=dry_run)

    would = simulated(ask("tier.propose", wanted(dry_run=True)))
    head = f"Propose to move {plain(given['tenant'])} from {given['from']} to {given['to']}?"
    return Proposed(
        "\n".join([head, "Another person approves it before anything moves.", "", *would]),
        lambda ask: proposed(ask("tier.propose", wanted(dry_run=False))),
    )


def proposed(answer: Doc) -> str:
    warnings = [f"! {plain(warning)}" for warning in answer["warnings"]]
    return "; ".join([f"{answer['move']} waits for approval {answer['approval']}", *warnings])


def fields(doc: Doc) -> tuple[Field, ...]:
    return (
        Field("tenant", "tenant", str(doc.get("tenant", ""))), Field("from", "from tier", TIERS[0], TIERS),
        Field("to", "to tier", TIERS[2], TIERS), Field("reason", "reason, on record"),
    )  # fmt: skip


def verb(key: str, name: str, operation: str, question: str) -> Change:
    def propose_it(ask: Ask, docs: Sequence[Doc], given: Given) -> Proposed:
        move = str(docs[0]["id"])
        would = ask(operation, MoveNamed(move, dry_run=True))
        text = f"{question.format(move=move)}\n\n{described({k: v for k, v in would.items() if k != 'schema'})}"
        return Proposed(text, lambda ask: ended(ask(operation, MoveNamed(move))))

    return Change(key, name, propose_it)


def ended(answer: dict[str, Any]) -> str:
    return f"{plain(answer.get('move', ''))}: {plain(answer.get('state'))}"


PROPOSE = Change("p", "propose", propose, fields)
MOVE = (
    PROPOSE, verb("m", "move", "tier.move", "Carry out {move}?"), verb("x", "stop", "tier.stop", "Stop {move}?"),
    verb("R", "resume", "tier.resume", "Go on with {move}?"),
)  # fmt: skip
MOVES = Table(
    "tier moves",
    (
        Column("move", 19, of("id")), Column("tenant", 10, of("tenant")), Column("state", 11, of("state"), state),
        Column("from", 7, of("source"), rank=1), Column("to", 7, of("target"), rank=1), Column("progress", 0, progress),
    ),
    of("id"), moves, lambda m: m["state"] in ("failed", "stopped"), level, MOVE,
    lambda docs: counted((doc["state"] for doc in docs), ("running", "failed")),
    "no moves: p on a tenant proposes one",
)  # fmt: skip
