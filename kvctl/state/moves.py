"""Tier moves: events to rows, and the queries on them and on what they would touch."""

import json
from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded

CHOSEN = """c.removed_at IS NULL AND c.tenant = $tenant AND c.tier = $source
            AND coalesce(c.store = $store::VARCHAR, true)
            AND coalesce(c.model = $model::VARCHAR, true) AND coalesce(c.class = $class::VARCHAR, true)"""
MET = """h.tenant = c.tenant AND coalesce(h.domain = c.domain, true) AND coalesce(h.model = c.model, true)
         AND (h.subject IS NULL OR h.subject = c.subject OR EXISTS (SELECT 1 FROM lineage l WHERE l.tenant = c.tenant
              AND l.domain = c.domain AND l.key = c.key AND l.subject = h.subject))"""


def chosen(db: Connection, of: dict[str, Any]) -> list[dict[str, Any]]:
    """Chunks and bytes that a selection (tenant, source, store, model, class) means, by store."""
    return rows(
        db, f"""SELECT store, count(*) AS chunks, sum(bytes)::BIGINT AS bytes FROM chunks c WHERE {CHOSEN}
                GROUP BY ALL ORDER BY ALL""", of,  # noqa: S608
    )  # fmt: skip


def holds(db: Connection, of: dict[str, Any], at: str) -> list[dict[str, Any]]:
    """Holds in force at a time that meet a selection, and how many of its chunks."""
    return rows(
        db, f"""SELECT h.id AS hold, count(*) AS chunks FROM chunks c JOIN holds h ON {MET}
                WHERE {CHOSEN} AND h.lifted_at IS NULL AND coalesce(h.until_at > $at::TIMESTAMP, true)
                GROUP BY ALL ORDER BY ALL""", {**of, "at": at},  # noqa: S608
    )  # fmt: skip


def find(db: Connection, move: str) -> dict[str, Any] | None:
    found = rows(db, "SELECT * FROM moves WHERE id = ?", [move])
    return found[0] if found else None


def listed(db: Connection, tenant: str | None) -> list[dict[str, Any]]:
    """Newest first, each with how its approval stands."""
    return rows(
        db, """SELECT m.*, a.state AS approval_state FROM moves m LEFT JOIN approvals a ON a.id = m.approval
               WHERE coalesce(m.tenant = $tenant::VARCHAR, true) ORDER BY proposed_at DESC, m.id""", {"tenant": tenant},
    )  # fmt: skip


def unfinished(db: Connection) -> list[str]:
    found = db.execute("SELECT id FROM moves WHERE state IN ('running', 'returning') ORDER BY started_at, id")
    return [row[0] for row in found.fetchall()]


def current(db: Connection, move: str) -> dict[str, Any] | None:
    """What stores were last told to do for it: its steps, and whether they lead back."""
    return _newest(db, move, "kind IN ('move.started', 'move.resumed', 'move.returning')")


def ran(db: Connection, move: str) -> list[dict[str, Any]]:
    """Every run of a store that is on record, oldest first."""
    found = db.execute(
        "SELECT data FROM events WHERE kind = 'move.store-ended' AND (data->>'move') = ? ORDER BY idx", [move]
    )
    return [json.loads(row[0]) for row in found.fetchall()]


def _newest(db: Connection, move: str, which: str) -> dict[str, Any] | None:
    sql = f"SELECT data FROM events WHERE {which} AND (data->>'move') = ? ORDER BY idx DESC LIMIT 1"  # noqa: S608
    row = db.execute(sql, [move]).fetchone()
    found: dict[str, Any] | None = json.loads(row[0]) if row else None
    return found


def proposed(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """INSERT INTO moves BY NAME SELECT $id AS id, $tenant AS tenant, $approval AS approval, $decision AS decision,
           $store AS store, $source AS source, $target AS target, $model AS model, $kind AS kind, 'proposed' AS state,
           $at::TIMESTAMP AS proposed_at""",
        {
            "id": d["move"], "tenant": event.tenant, "approval": d["approval"], "decision": d["decisions"][0],
            "store": d["store"], "source": d["source"], "target": d["target"], "model": d["model"], "kind": d["kind"],
            "at": event.at,
        },
    )  # fmt: skip


def started(db: Connection, event: Recorded) -> None:
    """move.started, move.resumed, move.returning."""
    db.execute(
        """UPDATE moves SET state = $state, decision = $decision, why = NULL, ended_at = NULL, source_removed_at = NULL,
           started_at = coalesce(started_at, $at::TIMESTAMP) WHERE id = $id""",
        {
            "state": "returning" if event.data["back"] else "running", "decision": event.data["decisions"][0],
            "at": event.at, "id": event.data["move"],
        },
    )  # fmt: skip


def store_ended(db: Connection, event: Recorded) -> None:
    """What one store has moved is added up; what went back is taken off again. A count that nobody knows adds nothing:
    `why` names that store."""
    d = event.data
    sign = -1 if d["back"] else 1
    db.execute(
        """UPDATE moves SET moved = coalesce(moved, 0) + $moved, bytes = coalesce(bytes, 0) + $bytes,
           failed = $failed, skipped = $skipped WHERE id = $id""",
        {
            "moved": sign * (d["moved"] or 0), "bytes": sign * (d["bytes"] or 0), "id": d["move"],
            "failed": sum((d["failed"] or {}).values()), "skipped": sum((d["skipped"] or {}).values()),
        },
    )  # fmt: skip


def ended(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """UPDATE moves SET state = $state, why = $why, failed = coalesce($failed, failed),
           skipped = coalesce($skipped, skipped), ended_at = $at::TIMESTAMP,
           source_removed_at = CASE WHEN $state = 'done' THEN $at::TIMESTAMP END WHERE id = $id""",
        {
            "state": d["state"], "why": d["why"], "failed": d["failed"], "skipped": d["skipped"], "at": event.at,
            "id": d["move"],
        },
    )  # fmt: skip


APPLY: dict[str, Apply] = {
    "move.proposed": proposed, "move.started": started, "move.resumed": started, "move.returning": started,
    "move.store-ended": store_ended, "move.ended": ended,
}  # fmt: skip
