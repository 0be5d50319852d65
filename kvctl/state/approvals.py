"""Approval requests and votes: events to rows, and the queries on them."""

import json
from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded

BRIEF = """id, kind, tenant, state, requester, required, reason, created, expires, execute_by, decided, executed,
           payload_sha256, (SELECT count(*) FROM votes v WHERE v.approval = a.id AND v.decision = 'yes') AS yes"""


def requested(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """INSERT INTO approvals BY NAME SELECT $id AS id, $kind AS kind, $tenant AS tenant, $payload AS payload,
           $sha256 AS payload_sha256, $impact AS impact, $at_idx AS at_idx, $who AS requester, $required AS required,
           'pending' AS state, $reason AS reason, $at::TIMESTAMP AS created, $expires::TIMESTAMP AS expires""",
        {
            "id": d["approval"], "kind": d["kind"], "tenant": event.tenant, "payload": d["payload"],
            "sha256": d["payload_sha256"], "impact": json.dumps(d["impact"]), "at_idx": d["at_idx"], "who": event.actor,
            "required": d["required"], "reason": d["reason"], "at": event.at, "expires": d["expires"],
        },
    )  # fmt: skip


def voted(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        "INSERT INTO votes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [d["approval"], event.actor, d["role"], d["decision"], event.at, d["payload_sha256"], d["fresh"], d["reason"]],
    )


def approved(db: Connection, event: Recorded) -> None:
    db.execute(
        "UPDATE approvals SET state = 'approved', decided = ?, execute_by = ? WHERE id = ?",
        [event.at, event.data["execute_by"], event.data["approval"]],
    )


def rejected(db: Connection, event: Recorded) -> None:
    db.execute("UPDATE approvals SET state = 'rejected', decided = ? WHERE id = ?", [event.at, event.data["approval"]])


def expired(db: Connection, event: Recorded) -> None:
    db.execute("UPDATE approvals SET state = 'expired' WHERE id = ?", [event.data["approval"]])


def executed(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        "UPDATE approvals SET state = 'executed', executed = ?, executed_sha256 = ?, executed_impact = ? WHERE id = ?",
        [event.at, d["payload_sha256"], json.dumps(d["impact"]), d["approval"]],
    )


def aborted(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        "UPDATE approvals SET state = 'aborted', executed_impact = ? WHERE id = ?",
        [json.dumps(d["impact"]), d["approval"]],
    )


def find(db: Connection, approval: str) -> dict[str, Any] | None:
    found = rows(db, "SELECT * FROM approvals WHERE id = ?", [approval])
    return found[0] | {"impact": json.loads(str(found[0]["impact"]))} if found else None


def votes(db: Connection, approval: str) -> list[dict[str, Any]]:
    return rows(
        db, "SELECT voter, role, decision, ts, payload_sha256, fresh, reason FROM votes WHERE approval = ? ORDER BY ts",
        [approval],
    )  # fmt: skip


def history(db: Connection, approval: str) -> list[dict[str, Any]]:
    """Its events. What an aborted one was aborted for is there."""
    found = rows(
        db, """SELECT idx, ts, kind, actor, outcome, data FROM events WHERE kind LIKE 'approval.%'
               AND (data->>'approval') = ? ORDER BY idx""", [approval],
    )  # fmt: skip
    return [row | {"data": json.loads(str(row["data"]))} for row in found]


def listed(db: Connection, state: str | None, tenant: str | None, limit: int) -> list[dict[str, Any]]:
    """Newest first."""
    return rows(
        db, f"""SELECT {BRIEF} FROM approvals a WHERE coalesce(state = $state::VARCHAR, true)
                AND coalesce(tenant = $tenant::VARCHAR, $tenant IS NULL) ORDER BY created DESC, id LIMIT $limit""",  # noqa: S608
        {"state": state, "tenant": tenant, "limit": limit},
    )  # fmt: skip


def undecided(db: Connection) -> list[str]:
    """Requests whose time may run out."""
    found = db.execute("SELECT id FROM approvals WHERE state IN ('pending', 'approved') ORDER BY created, id")
    return [row[0] for row in found.fetchall()]


def voters(db: Connection, roles: list[str], besides: str) -> int:
    """Accounts that could vote, the one of the requester left out."""
    row = db.execute(
        """SELECT count(*) FROM accounts WHERE disabled IS NULL AND name <> ?
           AND list_has_any(roles, ?::VARCHAR[])""",
        [besides, roles],
    ).fetchone()
    return row[0] if row else 0


def unable(db: Connection, voters: list[str], roles: list[str], at: str) -> frozenset[str]:
    """Those of the voters whose accounts are disabled, over, or without one of these roles at a time."""
    found = db.execute(
        """SELECT 'local:' || name FROM accounts WHERE list_contains($voters::VARCHAR[], 'local:' || name)
           AND (disabled IS NOT NULL OR until_at <= $at::TIMESTAMP OR NOT list_has_any(roles, $roles::VARCHAR[]))""",
        {"voters": voters, "roles": roles, "at": at},
    )
    return frozenset(row[0] for row in found.fetchall())


APPLY: dict[str, Apply] = {
    "approval.requested": requested, "approval.voted": voted, "approval.approved": approved,
    "approval.rejected": rejected, "approval.expired": expired, "approval.executed": executed,
    "approval.aborted": aborted,
}  # fmt: skip
