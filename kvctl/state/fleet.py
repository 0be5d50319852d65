"""Queries of the fleet plane. Rows go in through one JSON parameter: executemany is a hundred times slower."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import _duckdb as duckdb

Connection = duckdb.DuckDBPyConnection
KEEP_OBSERVATIONS = 10  # a node; two are needed to see a counter grow


def add_observations(db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of node, collected_at, seconds, document, error_code, error."""
    db.execute(
        """INSERT INTO observations BY NAME SELECT unnest(from_json(?::JSON, '[{"node": "VARCHAR",
           "collected_at": "TIMESTAMPTZ", "seconds": "DOUBLE", "document": "VARCHAR", "error_code": "VARCHAR",
           "error": "VARCHAR"}]'), recursive := true)""",
        [json.dumps(list(rows))],
    )
    db.execute(
        """DELETE FROM observations WHERE (node, collected_at) IN (
               SELECT (node, collected_at) FROM observations
               QUALIFY row_number() OVER (PARTITION BY node ORDER BY collected_at DESC) > ?)""",
        [KEEP_OBSERVATIONS],
    )


def latest_documents(db: Connection, nth: int = 1) -> dict[str, str]:
    """Node -> its nth newest readable document."""
    rows = db.execute(
        """SELECT node, document FROM observations WHERE document IS NOT NULL
           QUALIFY row_number() OVER (PARTITION BY node ORDER BY collected_at DESC) = ?""",
        [nth],
    ).fetchall()
    return dict(rows)


def contacts(db: Connection) -> dict[str, dict[str, Any]]:
    """Node -> the newest attempt to read it, and when it last succeeded."""
    rows = db.execute(
        """SELECT node, arg_max(error_code, collected_at) AS code, arg_max(error, collected_at) AS error,
                  epoch(max(collected_at)) AS tried, epoch(max(collected_at) FILTER (document IS NOT NULL)) AS read,
                  arg_max(document IS NULL, collected_at) AS failed
           FROM observations GROUP BY node"""
    ).fetchall()
    return {
        node: {"code": code if failed else None, "error": error if failed else None, "tried": tried, "read": read}
        for node, code, error, tried, read, failed in rows
    }


def add_check_run(
    db: Connection, at: str, inventory_sha256: str, nodes: Iterable[str], findings: Sequence[Mapping[str, Any]]
) -> int:
    """Store one run of the checks; findings are JSON-able mappings with `bad` added."""
    row = db.execute("SELECT coalesce(max(id), 0) + 1 FROM check_runs").fetchone()
    number = int(row[0]) if row else 1
    db.execute("INSERT INTO check_runs VALUES (?, ?::TIMESTAMPTZ, ?, ?)", [number, at, inventory_sha256, list(nodes)])
    rows = [
        {
            "check_run": number,
            "check_id": f["check"],
            "node": f["node"],
            "subject": f["subject"],
            "verdict": f["verdict"],
            "severity": f["severity"],
            "bad": f["bad"],
            "document": json.dumps(f),
        }
        for f in findings
    ]
    db.execute(
        """INSERT INTO findings BY NAME SELECT unnest(from_json(?::JSON, '[{"check_run": "BIGINT",
           "check_id": "VARCHAR", "node": "VARCHAR", "subject": "VARCHAR", "verdict": "VARCHAR",
           "severity": "VARCHAR", "bad": "BOOLEAN", "document": "VARCHAR"}]'), recursive := true)""",
        [json.dumps(rows)],
    )
    db.execute("DELETE FROM findings WHERE check_run <= ?", [number - 20])
    return number


def latest_findings(db: Connection) -> list[dict[str, Any]]:
    """Of each node, the findings of the newest run of the checks that covered it; only what needs eyes."""
    rows = db.execute(
        """WITH covered AS (SELECT unnest(nodes) AS node, id FROM check_runs),
                newest AS (SELECT node, max(id) AS id FROM covered GROUP BY node)
           SELECT f.document, epoch(r.checked_at) FROM findings f
           JOIN newest n ON n.node = f.node AND n.id = f.check_run JOIN check_runs r ON r.id = n.id
           WHERE f.verdict IN ('fail', 'unknown') ORDER BY f.node, f.check_id"""
    ).fetchall()
    return [json.loads(document) | {"at": at} for document, at in rows]


def set_node_states(db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of node, role, state, reason, since. `since` of an unchanged state is kept."""
    for row in rows:
        db.execute(
            """INSERT INTO node_states VALUES (?, ?, ?, ?, ?::TIMESTAMPTZ)
               ON CONFLICT (node) DO UPDATE SET role = excluded.role, reason = excluded.reason,
               since = CASE WHEN state = excluded.state THEN since ELSE excluded.since END, state = excluded.state""",
            [row["node"], row["role"], row["state"], row["reason"], row["since"]],
        )


def node_states(db: Connection) -> dict[str, dict[str, Any]]:
    rows = db.execute("SELECT node, role, state, reason, epoch(since) FROM node_states ORDER BY node").fetchall()
    return {n: {"role": role, "state": state, "reason": why, "since": since} for n, role, state, why, since in rows}


def forget_nodes(db: Connection, keep: Iterable[str]) -> None:
    """Nodes that left the inventory leave the state."""
    db.execute("DELETE FROM node_states WHERE NOT list_contains(?::VARCHAR[], node)", [list(keep)])


def add_plan(db: Connection, plan_id: str, created: str, document: str) -> None:
    db.execute("DELETE FROM plans WHERE id = ?", [plan_id])
    db.execute("INSERT INTO plans VALUES (?, ?::TIMESTAMPTZ, ?)", [plan_id, created, document])


def plan_document(db: Connection, plan_id: str) -> str | None:
    """The plan with this id, or the newest one for "latest"."""
    if plan_id == "latest":
        row = db.execute("SELECT document FROM plans ORDER BY created DESC LIMIT 1").fetchone()
    else:
        row = db.execute("SELECT document FROM plans WHERE id = ?", [plan_id]).fetchone()
    return str(row[0]) if row else None
