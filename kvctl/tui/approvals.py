"""What waits for a second pair of eyes, and votes: on what was looked at, with the reason on record."""

from __future__ import annotations

from collections.abc import Sequence

from kvctl.tui.changes import Change, Field, Given, Proposed
from kvctl.tui.tables import Ask, Column, Doc, Level, Table, never, of
from kvctl.tui.words import counted, described, moment, plain, state
from kvctl.types.requests import ApprovalList, ApprovalNamed, ApprovalVote

WHAT = (
    "id", "kind", "tenant", "state", "requester", "reason", "required", "expires", "payload_sha256", "votes", "payload",
    "impact",
)  # fmt: skip


def approvals(ask: Ask) -> Sequence[Doc]:
    return list(ask("approve.ls", ApprovalList())["approvals"])


def pending(ask: Ask) -> Sequence[Doc]:
    return list(ask("approve.ls", ApprovalList(state="pending"))["approvals"])


def request(ask: Ask, approval: str) -> Doc:
    return ask("approve.show", ApprovalNamed(approval))


def text(found: Doc) -> str:
    return described({name: found[name] for name in WHAT if found.get(name) is not None})


def level(doc: Doc) -> Level:
    return Level(plain(doc["id"]), text=lambda ask: text(request(ask, doc["id"])), changes=VOTES, doc=doc)


def vote(key: str, name: str, decision: str) -> Change:
    def propose(ask: Ask, docs: Sequence[Doc], given: Given) -> Proposed:
        found = request(ask, docs[0]["id"])
        ballot = ApprovalVote(found["id"], decision, found["payload_sha256"], given["reason"])
        return Proposed(f"Vote {decision}?\n\n{text(found)}", lambda ask: outcome(ask("approve.vote", ballot)))

    def fields(doc: Doc) -> tuple[Field, ...]:
        return (Field("reason", f"reason for {decision}, on record"),)

    return Change(key, name, propose, fields)


def outcome(answer: Doc) -> str:
    return "; ".join([f"{plain(answer['approval'])} is {plain(answer['state'])}", *map(plain, answer.get("why", ()))])


VOTES = (vote("a", "approve", "yes"), vote("d", "deny", "no"))
APPROVAL = (
    Column("approval", 19, of("id")), Column("what", 10, of("kind")), Column("tenant", 8, of("tenant")),
    Column("state", 11, of("state"), state), Column("yes", 4, lambda a: f"{a['yes']}/{a['required']}"),
    Column("by", 0, of("requester"), rank=2),
    Column("expires (UTC)", 16, of("expires"), lambda at: moment(at)[:16], rank=1),
)  # fmt: skip
PENDING = Table("pending approvals", APPROVAL, of("id"), pending, never, level, VOTES, empty="nothing waits for a vote")
APPROVALS = Table(
    "approvals", APPROVAL, of("id"), approvals, lambda a: a["state"] in ("pending", "aborted"), level, VOTES,
    lambda docs: counted((doc["state"] for doc in docs), ("pending",)), "nothing was asked for yet",
)  # fmt: skip
