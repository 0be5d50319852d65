"""The newest events of the log."""

from __future__ import annotations

from collections.abc import Sequence

from kvctl.tui.tables import Ask, Column, Doc, Level, Table, of, whole
from kvctl.tui.words import described, moment, plain, state
from kvctl.types.requests import AuditLog

NEWEST = 300
READ = "audit.read"


def events(ask: Ask) -> Sequence[Doc]:
    return list(ask("audit.log", AuditLog(limit=NEWEST))["events"])


def recorded(docs: Sequence[Doc]) -> bool:
    """Whether reading the log is itself an event: an auditor's is. Such a page asks only when it is told to."""
    return bool(docs) and docs[0].get("kind") == READ


def event_level(event: Doc) -> Level:
    return whole(f"event {plain(event['idx'])}", described(event))


def count(events: Sequence[Doc]) -> str:
    denied = sum(event["outcome"] != "ok" for event in events)
    return f"newest {len(events)}" + (f", {denied} not ok" if denied else "")


AUDIT = Table(
    "audit",
    (
        Column("index", 6, of("idx"), str), Column("time (UTC)", 19, of("ts"), moment, rank=1),
        Column("kind", 18, of("kind")), Column("who", 0, of("actor")), Column("tenant", 8, of("tenant"), rank=2),
        Column("outcome", 10, of("outcome"), state),
    ),
    lambda e: str(e["idx"]), events, lambda e: e["outcome"] != "ok", event_level, count=count,
    empty="no events yet: the first change puts one here",
)  # fmt: skip
