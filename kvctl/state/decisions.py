"""Decisions before bytes go anywhere: events to rows, and the queries on them."""

from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded


def made(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            d["decision"], event.at, d["action"], event.tenant, d["store"], d["tier"], d["site"], d["country"],
            d["version"], d["verdict"], d["rule"], d["ref"],
        ],
    )  # fmt: skip


def of(db: Connection, ref: str) -> list[dict[str, Any]]:
    """The decisions about one thing, a move or a backup, oldest first."""
    return rows(db, "SELECT * FROM decisions WHERE ref = ? ORDER BY ts, id", [ref])


APPLY: dict[str, Apply] = {"decision.made": made}
