"""Backups: events to rows, and the queries on them."""

from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded


def backed_up(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        "INSERT INTO backups VALUES (?, ?, ?, ?, ?)", [d["backup"], event.at, d["label"], d["expires_at"], d["kept_at"]]
    )


def backups(db: Connection, at: str) -> list[dict[str, Any]]:
    """Those that are not to be gone yet at a time, oldest first."""
    return rows(db, "SELECT * FROM backups WHERE expires_at > ?::TIMESTAMP ORDER BY ts, id", [at])


APPLY: dict[str, Apply] = {"backup.created": backed_up}
