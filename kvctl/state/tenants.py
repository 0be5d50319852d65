"""Tenants, their epochs, API keys and capabilities: events to rows, and the queries on them."""

from collections.abc import Mapping, Sequence
from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded

Row = dict[str, Any]
# Kinds of events after which gateways need another snapshot, by how they begin.
CONCERNS = ("tenant.", "key.", "epoch.", "policy.")


# --- events to rows -------------------------------------------------------------------------------------------------
def created(db: Connection, event: Recorded) -> None:
    d = event.data
    if d["entity_country"]:  # a country that nobody has named is unknown: no row
        db.execute(
            "INSERT INTO entities VALUES (?, ?, '', 'tenant') ON CONFLICT DO NOTHING",
            [d["entity"], d["entity_country"]],
        )
    db.execute(
        """INSERT INTO tenants BY NAME SELECT ? AS tenant, ? AS entity, 'active' AS state, ? AS sla, ? AS quota_bytes,
           ? AS requests_per_minute, ? AS tokens_per_day, ? AS max_concurrent, ? AS require_subject,
           ?::TIMESTAMP AS created_at, ?::TIMESTAMP AS changed_at, '' AS reason""",
        [
            event.tenant, d["entity"], d["sla"], d["quota_bytes"], d["requests_per_minute"], d["tokens_per_day"],
            d["max_concurrent"], d["require_subject"], event.at, event.at,
        ],
    )  # fmt: skip


def becomes(state: str) -> Apply:
    def apply(db: Connection, event: Recorded) -> None:
        db.execute(
            "UPDATE tenants SET state = ?, changed_at = ?::TIMESTAMP, reason = ? WHERE tenant = ?",
            [state, event.at, event.data.get("reason", ""), event.tenant],
        )

    return apply


def quota_changed(db: Connection, event: Recorded) -> None:
    names = ("quota_bytes", "requests_per_minute", "tokens_per_day", "max_concurrent")
    db.execute(
        """UPDATE tenants SET quota_bytes = ?, requests_per_minute = ?, tokens_per_day = ?, max_concurrent = ?,
           changed_at = ?::TIMESTAMP WHERE tenant = ?""",
        [*(event.data[name] for name in names), event.at, event.tenant],
    )


def epoch_created(db: Connection, event: Recorded) -> None:
    db.execute(
        """INSERT INTO epochs BY NAME
           SELECT ? AS tenant, ? AS domain, ? AS epoch, ?::TIMESTAMP AS created_at""",
        [event.tenant, event.data["domain"], event.data["epoch"], event.at],
    )


def epoch_retired(db: Connection, event: Recorded) -> None:
    db.execute(
        """UPDATE epochs SET retired_at = coalesce(retired_at, ?::TIMESTAMP)
           WHERE tenant = ? AND domain = ? AND epoch = ?""",
        [event.at, *_epoch(event)],
    )


def epoch_destroying(db: Connection, event: Recorded) -> None:
    epoch_retired(db, event)
    db.execute(
        """UPDATE epochs SET destroying_at = coalesce(destroying_at, ?::TIMESTAMP)
           WHERE tenant = ? AND domain = ? AND epoch = ?""",
        [event.at, *_epoch(event)],
    )


def epoch_destroyed(db: Connection, event: Recorded) -> None:
    db.execute(
        """UPDATE epochs SET destroyed_at = ?::TIMESTAMP, destroy_receipt = ?
           WHERE tenant = ? AND domain = ? AND epoch = ?""",
        [event.at, event.data["receipt"], *_epoch(event)],
    )


def _epoch(event: Recorded) -> list[Any]:
    return [event.tenant, event.data["domain"], event.data["epoch"]]


def key_created(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """INSERT INTO api_keys BY NAME SELECT ? AS id, ? AS tenant, ? AS domain, ? AS label, ? AS sha256,
           ?::TIMESTAMP AS created_at, ? AS created_by, ?::TIMESTAMP AS expires_at""",
        [d["id"], event.tenant, d["domain"], d["label"], d["sha256"], event.at, event.actor, d["expires_at"]],
    )


def key_revoked(db: Connection, event: Recorded) -> None:
    db.execute(
        "UPDATE api_keys SET revoked_at = ?::TIMESTAMP WHERE tenant = ? AND id = ANY(?) AND revoked_at IS NULL",
        [event.at, event.tenant, list(event.data["ids"])],
    )


def capability_issued(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """INSERT INTO capabilities BY NAME SELECT ? AS id, ? AS tenant, ? AS domain, ? AS epoch, ? AS holder,
           ?::TIMESTAMP AS issued_at, ?::TIMESTAMP AS expires_at""",
        [d["id"], event.tenant, d["domain"], d["epoch"], d["holder"], event.at, d["expires_at"]],
    )


def capability_revoked(db: Connection, event: Recorded) -> None:
    db.execute(
        "UPDATE capabilities SET revoked_at = ?::TIMESTAMP WHERE tenant = ? AND id = ANY(?) AND revoked_at IS NULL",
        [event.at, event.tenant, list(event.data["ids"])],
    )


APPLY: dict[str, Apply] = {
    "tenant.created": created,
    "tenant.quota-changed": quota_changed,
    "tenant.suspended": becomes("suspended"),
    "tenant.resumed": becomes("active"),
    "tenant.offboarding": becomes("offboarding"),
    "tenant.offboarded": becomes("offboarded"),
    "epoch.created": epoch_created,
    "epoch.retired": epoch_retired,
    "epoch.destroying": epoch_destroying,
    "epoch.destroyed": epoch_destroyed,
    "key.created": key_created,
    "key.revoked": key_revoked,
    "capability.issued": capability_issued,
    "capability.revoked": capability_revoked,
}


# --- queries --------------------------------------------------------------------------------------------------------
def tenants(db: Connection, name: str | None = None) -> list[Row]:
    return rows(
        db,
        """SELECT t.*, e.country AS entity_country FROM tenants t LEFT JOIN entities e USING (entity)
           WHERE coalesce(t.tenant = ?, true) ORDER BY t.tenant""",
        [name],
    )


def tenant(db: Connection, name: str) -> Row | None:
    return next(iter(tenants(db, name)), None)


def entity(db: Connection, name: str) -> Row | None:
    return next(iter(rows(db, "SELECT * FROM entities WHERE entity = ?", [name])), None)


def epochs(db: Connection, name: str, domain: str | None = None) -> list[Row]:
    """All that ever were, in their order."""
    return rows(
        db,
        """SELECT * EXCLUDE (tenant) FROM epochs WHERE tenant = ? AND coalesce(domain = ?, true)
           ORDER BY domain, created_at, epoch""",
        [name, domain],
    )


def epochs_before(db: Connection, name: str, index: int) -> set[tuple[str, str]]:
    """Domains and epochs that were made before an entry of the log."""
    found = db.execute(
        "SELECT data->>'domain', data->>'epoch' FROM events WHERE kind = 'epoch.created' AND tenant = ? AND idx < ?",
        [name, index],
    )
    return set(found.fetchall())


def current_epochs(db: Connection, name: str | None = None) -> list[Row]:
    """The epoch that each domain is in."""
    return rows(
        db,
        """SELECT tenant, domain, epoch FROM epochs WHERE retired_at IS NULL AND coalesce(tenant = ?, true)
           ORDER BY tenant, domain""",
        [name],
    )


def unfinished(db: Connection) -> list[Row]:
    """Epochs whose key must go and of which nothing says that it is gone."""
    return rows(
        db,
        """SELECT tenant, domain, epoch FROM epochs WHERE destroying_at IS NOT NULL AND destroyed_at IS NULL
           ORDER BY tenant, domain, epoch""",
    )


def destroyed(db: Connection) -> list[Row]:
    return rows(db, "SELECT tenant, domain, epoch FROM epochs WHERE destroyed_at IS NOT NULL ORDER BY ALL")


def api_keys(db: Connection, name: str | None = None) -> list[Row]:
    return rows(db, "SELECT * FROM api_keys WHERE coalesce(tenant = ?, true) ORDER BY tenant, created_at, id", [name])


def live_keys(db: Connection, at: str, name: str | None = None) -> list[Row]:
    return rows(
        db,
        """SELECT *, epoch(expires_at)::BIGINT AS expires FROM api_keys WHERE revoked_at IS NULL
           AND expires_at > ?::TIMESTAMP AND coalesce(tenant = ?, true) ORDER BY tenant, id""",
        [at, name],
    )


def live_capabilities(db: Connection, at: str, name: str, scopes: Sequence[tuple[str, str]] | None = None) -> list[str]:
    """Ids of those not revoked and not over. `scopes`: (domain, epoch) that they are of; None: any."""
    found = rows(
        db,
        """SELECT id, domain, epoch FROM capabilities WHERE tenant = ? AND revoked_at IS NULL
           AND expires_at > ?::TIMESTAMP ORDER BY issued_at, id""",
        [name, at],
    )
    return [str(row["id"]) for row in found if scopes is None or (row["domain"], row["epoch"]) in scopes]


def last_lease_end(db: Connection, name: str) -> str | None:
    """When the last lease on any key of a tenant ends, revoked or not: processes may hold the key until then."""
    return rows(db, "SELECT max(expires_at) AS at FROM capabilities WHERE tenant = ?", [name])[0]["at"]  # type: ignore[return-value]


def revoked_capabilities(db: Connection, at: str) -> list[str]:
    """Ids of those that stores would still take, had they not been told."""
    found = rows(
        db,
        """SELECT id FROM capabilities WHERE revoked_at IS NOT NULL AND expires_at > ?::TIMESTAMP
           ORDER BY revoked_at, id""",
        [at],
    )
    return [str(row["id"]) for row in found]


def holds(db: Connection, now: str, name: str) -> list[Row]:
    """Those in force, as state.holds.in_force has it."""
    return rows(
        db,
        """SELECT * FROM holds WHERE tenant = ? AND lifted_at IS NULL AND coalesce(until_at > ?::TIMESTAMP, true)
           ORDER BY from_at, id""",
        [name, now],
    )


def number(db: Connection) -> int:
    """Of the snapshot: the newest event that gateways and stores must know of, counted from 1; 0: there is none."""
    found = db.execute(
        "SELECT coalesce(max(idx) + 1, 0) FROM events WHERE list_bool_or([starts_with(kind, c) FOR c IN ?::VARCHAR[]])",
        [list(CONCERNS)],
    ).fetchone()
    return int(found[0]) if found else 0


def limits(db: Connection) -> dict[str, Mapping[str, Any]]:
    """What policies say to gateways, by tenant, where they do: processing_countries, and retention {class: seconds}."""
    found: dict[str, dict[str, Any]] = {}
    residency = rows(db, "SELECT tenant, processing_countries FROM residency_policies WHERE valid_to IS NULL")
    for row in residency:
        found.setdefault(str(row["tenant"]), {})["processing_countries"] = row["processing_countries"]
    retention = rows(db, "SELECT tenant, class, maximum_s FROM retention_policies WHERE valid_to IS NULL")
    for row in retention:
        found.setdefault(str(row["tenant"]), {}).setdefault("retention", {})[row["class"]] = row["maximum_s"]
    return dict(found)


def counted(db: Connection, name: str, domain: str, epochs: Sequence[str], stores: Sequence[str]) -> Row:
    """Chunks and bytes of epochs on all stores as the catalogue has them; None where a store was never read."""
    known = rows(db, "SELECT source FROM sources WHERE source = ANY(?)", [list(stores)])
    unread = sorted(set(stores) - {str(row["source"]) for row in known})
    if unread or not stores:
        return {"chunks": None, "bytes": None, "unread_stores": unread}
    found = rows(
        db,
        """SELECT count(DISTINCT key) AS chunks, coalesce(sum(bytes), 0)::BIGINT AS bytes FROM chunks
           WHERE tenant = ? AND domain = ? AND epoch = ANY(?) AND removed_at IS NULL""",
        [name, domain, list(epochs)],
    )
    return found[0] | {"unread_stores": []}


def erased_scopes(db: Connection) -> set[tuple[str, str, str, str]]:
    """(store, tenant, domain, epoch) that stores said they have erased."""
    found = db.execute(
        """SELECT data->>'$.store', tenant, data->>'$.domain', data->>'$.epoch' FROM events
           WHERE kind = 'scope.erased' AND outcome = 'ok'"""
    ).fetchall()
    return {(str(a), str(b), str(c), str(d)) for a, b, c, d in found}


def last_told(db: Connection) -> dict[str, tuple[int, str]]:
    """Store -> (version, outcome) of what it was last told, as far as that is on record."""
    found = db.execute(
        """SELECT data->>'$.store', arg_max((data->>'$.version')::BIGINT, idx), arg_max(outcome, idx) FROM events
           WHERE kind = 'store.told' GROUP BY 1"""
    ).fetchall()
    return {str(store): (int(version), str(outcome)) for store, version, outcome in found}
