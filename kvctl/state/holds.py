"""Holds: events to rows, and the queries on them."""

from datetime import datetime
from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded

CHANGES = ("hold.set", "hold.lifted", "hold.ended")  # after these, stores need another set


def added(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """INSERT INTO holds BY NAME SELECT ? AS id, ? AS tenant, ? AS domain, ? AS subject, ? AS model, ? AS reason,
           ? AS set_by, ?::TIMESTAMP AS from_at, ?::TIMESTAMP AS until_at""",
        [
            d["hold"], event.tenant, d["domain"], d["subject"], d["model"], d["reason"], event.actor, event.at,
            d["until"],
        ],
    )  # fmt: skip


def over(db: Connection, event: Recorded) -> None:
    db.execute(
        "UPDATE holds SET lifted_at = ?::TIMESTAMP, lift_approval = ? WHERE id = ? AND lifted_at IS NULL",
        [event.at, event.data.get("approval"), event.data["hold"]],
    )


def in_force(db: Connection, now: str | datetime, tenant: str | None = None) -> list[dict[str, Any]]:
    """Those on record that are neither lifted nor run out: also one that is younger than `now`, on a clock that was put
    back since."""
    return rows(
        db,
        """SELECT * FROM holds WHERE lifted_at IS NULL AND coalesce(until_at > $now::TIMESTAMP, true)
           AND coalesce(tenant = $tenant, true) ORDER BY id""",
        {"now": now, "tenant": tenant},
    )


def listed(db: Connection, tenant: str | None) -> list[dict[str, Any]]:
    """Every hold there was, those in force first; `version`: of the set that it came with."""
    return rows(
        db,
        """SELECT h.*, e.idx + 1 AS version FROM holds h
           JOIN events e ON e.kind = 'hold.set' AND (e.data->>'hold') = h.id
           WHERE coalesce(h.tenant = $tenant, true) ORDER BY h.lifted_at IS NOT NULL, h.from_at, h.id""",
        {"tenant": tenant},
    )


def run_out(db: Connection, at: str) -> list[dict[str, Any]]:
    """Holds whose time is over, and whose end is not on record yet."""
    return rows(
        db, "SELECT id, tenant FROM holds WHERE lifted_at IS NULL AND until_at <= ?::TIMESTAMP ORDER BY id", [at]
    )


def version(db: Connection) -> int:
    """Of the set of holds: its newest event, counted from 1; 0: there never was one."""
    row = db.execute(
        "SELECT coalesce(max(idx) + 1, 0) FROM events WHERE kind = ANY(?::VARCHAR[])", [list(CHANGES)]
    ).fetchone()
    return int(row[0]) if row else 0


def placed(db: Connection) -> dict[str, int]:
    """The version that each store was last known to have in force."""
    found = db.execute(
        """SELECT data->>'store', max_by((data->>'version')::BIGINT, idx) FROM events WHERE kind = 'hold.placed'
           GROUP BY ALL"""
    )
    return dict(found.fetchall())


def met(db: Connection, hold: dict[str, Any], before: str) -> dict[str, int]:
    """Copies and bytes that are there, stored before then, and that one hold keeps."""
    row = db.execute(
        """SELECT count(*), coalesce(sum(bytes), 0)::BIGINT FROM chunks c
           WHERE removed_at IS NULL AND tenant = $tenant AND stored_at <= $before::TIMESTAMP
               AND coalesce(domain = $domain, true) AND coalesce(model = $model, true)
               AND ($subject IS NULL OR subject = $subject OR EXISTS (
                   SELECT 1 FROM lineage l WHERE l.subject = $subject AND l.tenant = c.tenant AND l.domain = c.domain
                   AND l.key = c.key))""",
        {"before": before, **{name: hold[name] for name in ("tenant", "domain", "model", "subject")}},
    ).fetchone()
    assert row is not None
    return {"copies": row[0], "bytes": row[1]}


APPLY: dict[str, Apply] = {"hold.set": added, "hold.lifted": over, "hold.ended": over}
