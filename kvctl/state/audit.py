"""Reading the index of the control log, and running evidence checks over all tables. Nothing here writes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kvctl.state.governance import Connection, rows

COLUMNS = "idx, ts, kind, actor, actor_tenant, tenant, outcome, data"
LISTED = 1000  # rows of one check's violations that a pack holds; the count is always whole


def events(db: Connection, **asked: Any) -> list[dict[str, Any]]:
    """Events of the control log, newest first; with `after`, those behind an index, oldest first.

    `kind` is a glob; `since` and `until` are RFC 3339; None: not asked for.
    """
    tests = {
        "tenant": "tenant = $tenant", "kind": "kind GLOB $kind", "actor": "actor = $actor",
        "since": "ts >= $since::TIMESTAMP", "until": "ts < $until::TIMESTAMP", "after": "idx > $after",
        "before": "idx < $before",
    }  # fmt: skip
    given = {name: asked[name] for name in tests if asked.get(name) is not None}
    where = " AND ".join(tests[name] for name in given) or "true"
    order = "idx" if "after" in given else "idx DESC"
    found = rows(
        db, f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY {order} LIMIT $limit",  # noqa: S608
        given | {"limit": asked["limit"]},
    )  # fmt: skip
    return [row | {"data": json.loads(str(row["data"]))} for row in found]


def kinds(db: Connection, wanted: Sequence[str], tenant: str | None, limit: int) -> list[int]:
    """The newest events of these kinds, by index."""
    found = db.execute(
        """SELECT idx FROM events WHERE list_contains($kinds, kind) AND ($tenant IS NULL OR tenant = $tenant)
           ORDER BY idx DESC LIMIT $limit""",
        {"kinds": list(wanted), "tenant": tenant, "limit": limit},
    ).fetchall()
    return sorted(int(row[0]) for row in found)


def judge(
    db: Connection, population: str, violations: str, parameters: Mapping[str, Any], head: str = ""
) -> tuple[int, int, list[dict[str, Any]]]:
    """How much there is to judge, how many rows violate, and the first LISTED of them. `head`: a WITH before both."""
    counted = db.execute(f"{head} FROM ({population})", _used(head + population, parameters)).fetchone()
    given = _used(head + violations, parameters)
    total = db.execute(f"{head} SELECT count(*) FROM ({violations})", given).fetchone()  # noqa: S608  of the product
    found = rows(db, f"{head} SELECT * FROM ({violations}) LIMIT {LISTED}", given or ())  # noqa: S608
    assert counted is not None
    assert total is not None
    return int(counted[0]), int(total[0]), found


def _used(sql: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    used = {name: value for name, value in parameters.items() if f"${name}" in sql}
    return used or None


def waivers(db: Connection, at: str) -> dict[str, dict[str, Any]]:
    """Check id -> the waiver that is in force at a time: until, by whom, why."""
    found = rows(
        db,
        """SELECT json_extract_string(data, '$.check') AS id,
           arg_max(json_extract_string(data, '$.until'), idx) AS until,
           arg_max(json_extract_string(data, '$.reason'), idx) AS reason, arg_max(actor, idx) AS actor
           FROM events WHERE kind = 'audit.waived' AND outcome = 'ok' GROUP BY 1""",
    )
    return {str(row["id"]): row for row in found if str(row["until"]) > at}
