"""How many copies are where, or were: counted in the database, never row by row."""

from typing import Any

from kvctl.state.governance import Connection, rows

COUNTED = "count(*) AS chunks, sum(bytes)::BIGINT AS bytes"


def held(db: Connection, tenant: str | None = None) -> list[dict[str, Any]]:
    """Copies that are there now, by tenant, store and tier."""
    of_tenant, parameters = ("AND tenant = ?", [tenant]) if tenant else ("", [])
    return rows(
        db, f"""SELECT tenant, store, tier, {COUNTED} FROM chunks WHERE removed_at IS NULL {of_tenant}
                GROUP BY ALL ORDER BY ALL""", parameters,  # noqa: S608
    )  # fmt: skip


def held_at(db: Connection, tenant: str, at: str) -> list[dict[str, Any]]:
    """A tenant's copies that were there at a time."""
    return rows(
        db, f"""SELECT tenant, store, tier, {COUNTED} FROM chunks WHERE tenant = $tenant AND placed_at <= $at::TIMESTAMP
                AND (removed_at IS NULL OR removed_at > $at::TIMESTAMP) GROUP BY ALL ORDER BY ALL""",  # noqa: S608
        {"tenant": tenant, "at": at},
    )  # fmt: skip


def known_since(db: Connection) -> str | None:
    """The oldest time that the catalogue speaks of; None: it has nothing."""
    found = rows(db, "SELECT min(placed_at) AS first FROM chunks")
    first = found[0]["first"]
    return None if first is None else str(first)
