"""Erasure requests and their receipts: events to rows, and the queries on them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from kvctl.state.governance import Apply, Connection, rows
from kvctl.types.events import Recorded

BRIEF = """id, tenant, scope, domain, subject, model, stored_from, stored_until, requested_by, received, due, closed,
           outcome, receipt_idx"""


def received(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """INSERT INTO erasures BY NAME SELECT ? AS id, ? AS tenant, ? AS scope, ? AS domain, ? AS subject,
           ? AS model, ?::TIMESTAMP AS stored_from, ?::TIMESTAMP AS stored_until, ? AS requested_by,
           ?::TIMESTAMP AS received, ?::TIMESTAMP AS due, 'open' AS outcome""",
        [
            d["erasure"], event.tenant, d["scope"], d["domain"], d["subject"], d.get("model"), d.get("stored_from"),
            d.get("stored_until"), event.actor, event.at, d["due"],
        ],
    )  # fmt: skip


def closed(db: Connection, event: Recorded) -> None:
    d = event.data
    db.execute(
        """UPDATE erasures SET outcome = $outcome, receipt = $receipt, receipt_idx = $idx,
           closed = if($outcome = 'restricted', NULL, $at::TIMESTAMP) WHERE id = $id""",
        {
            "outcome": d["receipt"]["outcome"], "receipt": json.dumps(d["receipt"]), "idx": event.index,
            "at": event.at, "id": d["erasure"],
        },
    )  # fmt: skip


def flushed(db: Connection, event: Recorded) -> None:
    for one in event.data["engines"]:
        db.execute(
            "INSERT INTO engine_flushes VALUES (?, ?, ?, ?, ?)",
            [event.data["erasure"], one["engine"], one["answered"], event.at, one["why"]],
        )


def find(db: Connection, erasure: str) -> dict[str, Any] | None:
    found = rows(db, f"SELECT {BRIEF}, receipt FROM erasures WHERE id = ?", [erasure])  # noqa: S608
    return found[0] if found else None


def listed(db: Connection, tenant: str | None) -> list[dict[str, Any]]:
    return rows(
        db,
        f"""SELECT {BRIEF}, closed IS NULL AND due < now()::TIMESTAMP AS overdue FROM erasures
            WHERE coalesce(tenant = ?, true) ORDER BY received DESC, id""",  # noqa: S608
        [tenant],
    )


def unfinished(db: Connection) -> list[dict[str, Any]]:
    """Those that are open, and those that a hold restricted."""
    return rows(db, f"SELECT {BRIEF} FROM erasures WHERE outcome IN ('open', 'restricted') ORDER BY received, id")  # noqa: S608


Copy = tuple[str, str, str, datetime]  # domain, epoch, key, when it was placed
Scope = Mapping[str, Any]  # tenant, domain, subject, model, stored_from, stored_until; None: all of them


@dataclass(frozen=True, slots=True)
class Reach:
    """What an erasure is about, of what is in its scope: copies that were placed up to `upto`, without those that were
    gone before `gone`. Both are when it was received, unless the clock was put back: what was on record by then is
    older than the erasure, whatever the clock said."""

    upto: str
    gone: str


# Copies that an erasure is about: a user's own, and private ones of others that the user shared. What has gone since it
# was received counts as well, so that a run that was cut off is told whole. Clocks of stores may be some seconds apart,
# and what is erased too much is only computed again.
SLACK = "INTERVAL 5 SECONDS"
MATCH = f"""FROM chunks c WHERE c.tenant = $tenant AND ($domain IS NULL OR c.domain = $domain)
    AND ($model IS NULL OR c.model = $model) AND coalesce(c.stored_at >= $stored_from::TIMESTAMP, true)
    AND coalesce(c.stored_at < $stored_until::TIMESTAMP, true)
    AND c.placed_at <= $upto::TIMESTAMP + {SLACK}
    AND ($subject IS NULL OR c.subject = $subject OR (c.class <> 'common' AND EXISTS (
        SELECT 1 FROM lineage l WHERE l.subject = $subject AND l.tenant = c.tenant AND l.domain = c.domain
        AND l.key = c.key)))"""  # noqa: S608
ABOUT = f"{MATCH} AND (c.removed_at IS NULL OR c.removed_at >= $gone::TIMESTAMP - {SLACK})"
DESTROYED = "destroyed"  # why a copy is gone whose store somebody declared destroyed


def _about(scope: Scope, reach: Reach) -> dict[str, Any]:
    names = ("tenant", "domain", "subject", "model", "stored_from", "stored_until")
    return {**{name: scope[name] for name in names}, **asdict(reach)}


def _lost(scope: Scope, reach: Reach) -> dict[str, Any]:
    return {name: value for name, value in _about(scope, reach).items() if name != "gone"}


def newest(db: Connection, tenant: str, now: str) -> str | None:
    """When the newest of a tenant's copies was placed, if that is still to come: the clock was put back since."""
    (row,) = rows(
        db,
        f"""SELECT max(placed_at) AS at FROM chunks WHERE tenant = $tenant AND removed_at IS NULL
            AND placed_at > $now::TIMESTAMP + {SLACK}""",  # noqa: S608
        {"tenant": tenant, "now": now},
    )
    return None if row["at"] is None else str(row["at"])


def reach(db: Connection, erasure: str, received: str, index: int, now: str) -> Reach:
    """`erasure.reaches` is on record when the clock had been put back before it began."""
    (row,) = rows(
        db,
        """SELECT least(min(ts), $now::TIMESTAMP) AS earliest,
             (SELECT max(data->>'upto') FROM events WHERE kind = 'erasure.reaches' AND (data->>'erasure') = $erasure)
               AS upto
           FROM events WHERE idx >= $index""",
        {"erasure": erasure, "now": now, "index": index},
    )
    return Reach(max(received, str(row["upto"] or "")), min(received, str(row["earliest"])))


def index(db: Connection, erasure: str) -> int:
    """Of the log's entry that received it: what has a lower one was on record before."""
    row = db.execute(
        "SELECT idx FROM events WHERE kind = 'erasure.received' AND (data->>'erasure') = ?", [erasure]
    ).fetchone()
    assert row is not None
    return int(row[0])


def copies(db: Connection, scope: Scope, reach: Reach) -> list[dict[str, Any]]:
    """Copies and bytes by store, tier, site and domain."""
    return rows(
        db,
        f"""SELECT c.store, c.tier, c.domain, coalesce(any_value(p.site), 'unknown') AS site, count(*) AS copies,
                sum(c.bytes)::BIGINT AS bytes
            FROM (SELECT c.* {ABOUT}) c
            LEFT JOIN (SELECT store, tier, site FROM places WHERE valid_to IS NULL) p ON p.store = c.store
                AND p.tier = CASE WHEN EXISTS (SELECT 1 FROM places q WHERE q.store = c.store AND q.tier = c.tier
                                               AND q.valid_to IS NULL) THEN c.tier ELSE '*' END
            GROUP BY c.store, c.tier, c.domain ORDER BY c.store, c.tier, c.domain""",  # noqa: S608
        _about(scope, reach),
    )


def names(db: Connection, store: str, scope: Scope, reach: Reach, limit: int) -> tuple[int, list[tuple[str, str, str]]]:
    """How many chunks at a store it is about, and up to `limit` of their names: domain, epoch, key."""
    parameters = _about(scope, reach) | {"store": store}
    chosen = f"SELECT DISTINCT c.domain, c.epoch, lower(hex(c.key)) AS key {ABOUT} AND c.store = $store"
    total = db.execute(f"SELECT count(*) FROM ({chosen})", parameters).fetchone()  # noqa: S608
    found = db.execute(
        f"{chosen} ORDER BY c.domain, c.epoch, key LIMIT $limit", parameters | {"limit": limit}
    ).fetchall()
    assert total is not None
    return total[0], found


def left(db: Connection, store: str, scope: Scope, reach: Reach) -> list[Copy]:
    """Those that the catalogue still has there."""
    return db.execute(
        f"""SELECT DISTINCT c.domain, c.epoch, lower(hex(c.key)) AS key, c.placed_at {ABOUT} AND c.store = $store
            AND c.removed_at IS NULL ORDER BY ALL""",
        _about(scope, reach) | {"store": store},
    ).fetchall()


def holders(db: Connection, scope: Scope, reach: Reach) -> list[str]:
    """Stores of which the catalogue has any of them now."""
    found = db.execute(
        f"SELECT DISTINCT c.store {ABOUT} AND c.removed_at IS NULL ORDER BY ALL",
        _about(scope, reach),
    )
    return [str(row[0]) for row in found.fetchall()]


def lost(db: Connection, scope: Scope, reach: Reach) -> list[str]:
    """Stores that had any of them and were declared destroyed."""
    found = db.execute(
        f"SELECT DISTINCT c.store {MATCH} AND c.removed_why = '{DESTROYED}' ORDER BY ALL",
        _lost(scope, reach),
    )
    return [str(row[0]) for row in found.fetchall()]


def attempts(db: Connection, erasure: str, after: int | None) -> tuple[int, str, list[str]]:
    """How often it was tried in vain behind an entry of the log, when at last, and which stores were away then."""
    found = rows(
        db,
        """SELECT ts, CAST(data->'away' AS VARCHAR[]) AS away FROM events WHERE kind = 'erasure.attempted'
           AND (data->>'erasure') = ? AND idx > ? ORDER BY idx""",
        [erasure, -1 if after is None else after],
    )
    if not found:
        return 0, "", []
    away: Any = found[-1]["away"]
    return len(found), str(found[-1]["ts"]), away or []


# --- stores that are no more ----------------------------------------------------------------------------------------
def destroyed(db: Connection, event: Recorded) -> None:
    """Its copies are gone. Not those that came later: a store of that name that is there again.

    On a clock that was put back, later than all that was on record before.
    """
    db.execute(
        f"""UPDATE chunks SET removed_at = $at::TIMESTAMP, removed_why = '{DESTROYED}'
            WHERE store = $store AND removed_at IS NULL
            AND placed_at <= (SELECT greatest(max(ts), $at::TIMESTAMP) FROM events WHERE idx < $index)""",  # noqa: S608
        {"at": event.at, "store": event.data["store"], "index": event.index},
    )


def declared(db: Connection) -> dict[str, dict[str, Any]]:
    """Stores that were declared destroyed: when, why, by whom and who agreed."""
    found = rows(db, "SELECT ts, data FROM events WHERE kind = 'store.destroyed' AND outcome = 'ok' ORDER BY idx")
    return {one["store"]: {**one, "at": row["ts"]} for row in found for one in [json.loads(str(row["data"]))]}


def at_store(db: Connection, store: str) -> dict[str, Any]:
    """What the catalogue has at a store: copies, bytes, tenants, and holds in force of those tenants."""
    (found,) = rows(
        db,
        """SELECT count(*) AS copies, coalesce(sum(bytes), 0)::BIGINT AS bytes, count(DISTINCT tenant) AS tenants,
             (SELECT coalesce(list(h.id ORDER BY h.id), []) FROM holds h WHERE h.lifted_at IS NULL AND h.tenant IN (
              SELECT tenant FROM chunks WHERE store = $store AND removed_at IS NULL)) AS holds
           FROM chunks WHERE store = $store AND removed_at IS NULL""",
        {"store": store},
    )
    return found


def anew(db: Connection, store: str, tenant: str, reach: Reach) -> set[tuple[str, str, str]]:
    """Names of what was stored there after the request came: another's by now."""
    found = db.execute(
        f"""SELECT DISTINCT domain, epoch, lower(hex(key)) FROM chunks
            WHERE store = $store AND tenant = $tenant AND removed_at IS NULL
            AND placed_at > $upto::TIMESTAMP + {SLACK}""",  # noqa: S608
        {"store": store, "tenant": tenant, "upto": reach.upto},
    )
    return set(found.fetchall())


def epochs_held(db: Connection, store: str, tenant: str) -> set[tuple[str, str]]:
    """Domains and epochs of which the catalogue has anything at a store."""
    found = db.execute(
        "SELECT DISTINCT domain, epoch FROM chunks WHERE store = ? AND tenant = ? AND removed_at IS NULL",
        [store, tenant],
    )
    return set(found.fetchall())


def without_user(db: Connection, tenant: str) -> int:
    """Private copies that were stored for nobody who was named."""
    row = db.execute(
        """SELECT count(*) FROM chunks WHERE tenant = ? AND removed_at IS NULL AND subject IS NULL
           AND class <> 'common'""",
        [tenant],
    ).fetchone()
    assert row is not None
    return int(row[0])


def forget_lineage(db: Connection, tenant: str, subject: str) -> None:
    db.execute("DELETE FROM lineage WHERE tenant = ? AND subject = ?", [tenant, subject])


def policy_versions(db: Connection, tenant: str) -> dict[str, Any]:
    """Of the policies in force: {"residency": n, "retention": {class: n}}."""
    retention = db.execute(
        "SELECT class, version FROM retention_policies WHERE tenant = ? AND valid_to IS NULL", [tenant]
    ).fetchall()
    residency = db.execute(
        "SELECT max(version) FROM residency_policies WHERE tenant = ? AND valid_to IS NULL", [tenant]
    ).fetchone()
    return {"residency": residency[0] if residency else None, "retention": dict(retention)}


APPLY: dict[str, Apply] = {
    "erasure.received": received, "erasure.flushed": flushed, "erasure.restricted": closed, "erasure.closed": closed,
    "store.destroyed": destroyed,
}  # fmt: skip
