"""Places, entities and versioned policies: events to rows, and the queries on them."""

from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded

# What is in force at $at, or now when that is null. A version holds from its beginning up to, and without, its end.
THEN = """CASE WHEN $at::TIMESTAMP IS NULL THEN valid_to IS NULL
          ELSE valid_from <= $at::TIMESTAMP AND coalesce(valid_to > $at::TIMESTAMP, true) END"""
RESIDENCY = "tenant, storage_countries, processing_countries, support_countries, coalesce(controlled_by, 'any')"
RETENTION = 'tenant, "class" AS kind, minimum_s AS minimum, maximum_s AS maximum, idle_s AS idle'
# The last by the order in which they were put on record: their times may go back, when the clock did.
LAST = "QUALIFY row_number() OVER (PARTITION BY {} ORDER BY {} DESC) = 1 AND valid_to IS NOT NULL"


def in_force(db: Connection, at: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """The rows of every section at a time (RFC 3339), now without one. Entities are those that the sites had then."""
    when = {"at": at}
    return {
        "entities": rows(
            db,
            """SELECT entity AS name, country, controlled_by, role FROM entities WHERE role <> 'tenant' ORDER BY ALL""",
        )
        if at is None
        else rows(
            db, f"""SELECT DISTINCT ON (entity) entity AS name, entity_country AS country, controlled_by
                    FROM site_versions WHERE {THEN} ORDER BY entity, valid_from DESC""", when,  # noqa: S608
        ),
        "sites": rows(
            db, f"SELECT site AS name, country, entity FROM site_versions WHERE {THEN} ORDER BY ALL", when  # noqa: S608
        ),
        "places": rows(db, f"SELECT store, site, tier FROM places WHERE {THEN} ORDER BY ALL", when),  # noqa: S608
        "residency": rows(
            db, f"SELECT {RESIDENCY} AS controlled_by FROM residency_policies WHERE {THEN} ORDER BY ALL", when  # noqa: S608
        ),
        "retention": rows(db, f"SELECT {RETENTION} FROM retention_policies WHERE {THEN} ORDER BY ALL", when),  # noqa: S608
        "subprocessors": rows(
            db, """SELECT tenant, entity, country, strftime(notified, '%Y-%m-%d') AS notified,
                   strftime(effective, '%Y-%m-%d') AS effective FROM subprocessors ORDER BY ALL""",
        ),
    }  # fmt: skip


def withdrawn(db: Connection) -> dict[str, list[dict[str, Any]]]:
    """The last row of each key that is not in force any more."""
    return {
        "places": rows(
            db, f"SELECT store, site, tier FROM places {LAST.format('store, tier', 'valid_to IS NULL DESC, rowid')}"  # noqa: S608
        ),
        "residency": rows(
            db, f"SELECT {RESIDENCY} AS controlled_by FROM residency_policies {LAST.format('tenant', 'version')}"  # noqa: S608
        ),
        "retention": rows(
            db, f"SELECT {RETENTION} FROM retention_policies {LAST.format('tenant, class', 'version')}"  # noqa: S608
        ),
    }  # fmt: skip


def versions(db: Connection, at: str | None = None) -> dict[str, int]:
    """Tenant -> the version of its residency policy at a time."""
    found = db.execute(f"SELECT tenant, version FROM residency_policies WHERE {THEN}", {"at": at})  # noqa: S608
    return dict(found.fetchall())


def next_version(db: Connection, section: str, key: str) -> int | None:
    """Of a section whose rows are numbered; the key is TENANT or TENANT/CLASS."""
    if section == "residency":
        sql, parameters = "SELECT max(version) FROM residency_policies WHERE tenant = ?", [key]
    elif section == "retention":
        sql, parameters = (
            "SELECT max(version) FROM retention_policies WHERE tenant = ? AND class = ?",
            key.rsplit("/", 1),
        )
    else:
        return None
    row = db.execute(sql, parameters).fetchone()
    return (row[0] or 0) + 1 if row else 1


def listed(db: Connection, tenant: str | None, at: str | None) -> dict[str, list[dict[str, Any]]]:
    """Residency and retention policies in force, with their versions and how they came to be."""
    of = {"at": at, "tenant": tenant}
    mine = f"{THEN} AND coalesce(tenant = $tenant::VARCHAR, true) ORDER BY ALL"
    about = "version, valid_from, valid_to, change, approval, sha256"
    return {
        "residency": rows(db, f"SELECT {RESIDENCY} AS controlled_by, {about} FROM residency_policies WHERE {mine}", of),  # noqa: S608
        "retention": rows(db, f"SELECT {RETENTION}, {about} FROM retention_policies WHERE {mine}", of),  # noqa: S608
    }  # fmt: skip


def knows(db: Connection, tenant: str) -> bool:
    """Whether a tenant was ever made, has a policy, or has or had copies."""
    found = db.execute(
        """SELECT EXISTS (SELECT 1 FROM tenants WHERE tenant = $tenant)
           OR EXISTS (SELECT 1 FROM residency_policies WHERE tenant = $tenant)
           OR EXISTS (SELECT 1 FROM chunks WHERE tenant = $tenant)""",
        {"tenant": tenant},
    ).fetchone()
    return bool(found and found[0])


def activated(db: Connection, event: Recorded) -> None:
    """policy.activated: the rows that differ from what was in force, each closing the one before."""
    for change in event.data["changes"]:
        SECTIONS[change["section"]](db, event, change)
    _note_jurisdictions(db, event.at)


def _entity(db: Connection, event: Recorded, change: dict[str, Any]) -> None:
    row = change["after"]
    db.execute(
        """INSERT INTO entities VALUES ($name, $country, $controlled_by, $role) ON CONFLICT (entity)
           DO UPDATE SET country = excluded.country, controlled_by = excluded.controlled_by, role = excluded.role""",
        row,
    )


def _site(db: Connection, event: Recorded, change: dict[str, Any]) -> None:
    db.execute(
        """INSERT INTO sites VALUES ($name, $country, $entity) ON CONFLICT (site)
           DO UPDATE SET country = excluded.country, entity = excluded.entity""",
        change["after"],
    )


def _note_jurisdictions(db: Connection, at: str) -> None:
    now = """sites s JOIN entities e USING (entity)"""
    db.execute(
        f"""UPDATE site_versions v SET valid_to = $at::TIMESTAMP FROM {now} WHERE v.site = s.site AND v.valid_to IS NULL
            AND (v.country, v.entity, v.entity_country, v.controlled_by) <>
                (s.country, s.entity, e.country, e.controlled_by)""",  # noqa: S608
        {"at": at},
    )
    db.execute(
        f"""INSERT INTO site_versions SELECT s.site, s.country, s.entity, e.country, e.controlled_by,
            $at::TIMESTAMP, NULL FROM {now}
            WHERE s.site NOT IN (SELECT site FROM site_versions WHERE valid_to IS NULL)""",  # noqa: S608
        {"at": at},
    )


def _place(db: Connection, event: Recorded, change: dict[str, Any]) -> None:
    store, tier = change["key"].rsplit("/", 1)
    db.execute(
        "UPDATE places SET valid_to = ?::TIMESTAMP WHERE store = ? AND tier = ? AND valid_to IS NULL",
        [event.at, store, tier],
    )
    if change["after"]:
        db.execute("INSERT INTO places VALUES (?, ?, ?, ?, NULL)", [store, tier, change["after"]["site"], event.at])


def _residency(db: Connection, event: Recorded, change: dict[str, Any]) -> None:
    db.execute(
        "UPDATE residency_policies SET valid_to = ?::TIMESTAMP WHERE tenant = ? AND valid_to IS NULL",
        [event.at, change["key"]],
    )
    if change["after"]:
        db.execute(
            """INSERT INTO residency_policies BY NAME SELECT $tenant AS tenant, $version AS version,
               $storage_countries::VARCHAR[] AS storage_countries,
               $processing_countries::VARCHAR[] AS processing_countries,
               $support_countries::VARCHAR[] AS support_countries, $controlled_by AS controlled_by,
               $at::TIMESTAMP AS valid_from, $approval AS approval, $sha256 AS sha256, $change AS change""",
            {**change["after"], **_about(event, change)},
        )


def _retention(db: Connection, event: Recorded, change: dict[str, Any]) -> None:
    tenant, kind = change["key"].rsplit("/", 1)
    db.execute(
        """UPDATE retention_policies SET valid_to = ?::TIMESTAMP WHERE tenant = ? AND class = ? AND valid_to IS NULL""",
        [event.at, tenant, kind],
    )
    if change["after"]:
        db.execute(
            """INSERT INTO retention_policies BY NAME SELECT $tenant AS tenant, $kind AS class, $version AS version,
               $minimum AS minimum_s, $maximum AS maximum_s, $idle AS idle_s, $at::TIMESTAMP AS valid_from,
               $approval AS approval, $sha256 AS sha256, $change AS change""",
            {**change["after"], **_about(event, change)},
        )


def _about(event: Recorded, change: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": change["version"], "change": change["change"], "at": event.at, "approval": event.data["approval"],
        "sha256": event.data["sha256"],
    }  # fmt: skip


def _subprocessor(db: Connection, event: Recorded, change: dict[str, Any]) -> None:
    tenant, entity = change["key"].split("/", 1)
    db.execute("DELETE FROM subprocessors WHERE tenant = ? AND entity = ?", [tenant, entity])
    row = change["after"]
    if row:
        db.execute(
            """INSERT INTO subprocessors
               VALUES ($entity, $tenant, $country, $notified::TIMESTAMP, $effective::TIMESTAMP)""",
            row,
        )


SECTIONS = {
    "entities": _entity, "sites": _site, "places": _place, "residency": _residency, "retention": _retention,
    "subprocessors": _subprocessor,
}  # fmt: skip
APPLY: dict[str, Apply] = {"policy.activated": activated}
