"""Accounts and access reviews: events to rows, and the queries on them."""

from collections.abc import Mapping
from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded

Row = dict[str, Any]


def created(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """INSERT INTO accounts BY NAME SELECT ? AS name, ?::VARCHAR[] AS roles, ? AS tenant, ?::TIMESTAMP AS created,
           ?::TIMESTAMP AS until_at, ? AS oidc_issuer, ? AS oidc_subject""",
        [d["name"], list(d["roles"]), event.tenant, event.at, d["until"], *_identity(d.get("oidc"))],
    )


def changed(db: Connection, event: Recorded) -> None:
    """Only what the event has is changed."""
    d = event.data
    if d.get("roles") is not None:
        db.execute("UPDATE accounts SET roles = ?::VARCHAR[] WHERE name = ?", [list(d["roles"]), d["name"]])
    if d.get("disabled") is not None:
        at = event.at if d["disabled"] else None
        db.execute("UPDATE accounts SET disabled = ?::TIMESTAMP WHERE name = ?", [at, d["name"]])
    if "oidc" in d:
        db.execute(
            "UPDATE accounts SET oidc_issuer = ?, oidc_subject = ? WHERE name = ?", [*_identity(d["oidc"]), d["name"]]
        )


def _identity(found: Mapping[str, str] | None) -> tuple[str | None, str | None]:
    return (found["issuer"], found["subject"]) if found else (None, None)


APPLY: dict[str, Apply] = {"account.created": created, "account.changed": changed}


def accounts(db: Connection) -> list[Row]:
    return rows(db, "SELECT * FROM accounts ORDER BY name")


def account(db: Connection, name: str) -> Row | None:
    return next(iter(rows(db, "SELECT * FROM accounts WHERE name = ?", [name])), None)


def of_identity(db: Connection, issuer: str, subject: str) -> Row | None:
    """The account that is bound to an identity of an OpenID provider."""
    found = rows(db, "SELECT * FROM accounts WHERE oidc_issuer = ? AND oidc_subject = ?", [issuer, subject])
    return next(iter(found), None)
