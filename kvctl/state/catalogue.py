"""The catalogue of chunks: what stores say they hold, taken in from counted deltas and from whole listings.

A row is one copy: a chunk on one tier of one store, from the moment it was placed there until it left. Rows stay when a
copy is gone; where something was at any past time is read from them. There is no index: everything is a scan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kvctl.state.governance import Connection, rows

SEALED = "xaes-256-gcm"  # the block protocol takes chunks of that format and no other: docs/sealed-chunk.md
Delta = Mapping[str, Any]
ARRIVING = pa.schema(
    [
        ("n", pa.int64()), ("op", pa.string()), ("tier", pa.string()), ("tenant", pa.string()), ("domain", pa.string()),
        ("epoch", pa.string()), ("key", pa.binary()), ("bytes", pa.int64()), ("subject", pa.string()),
        ("model", pa.string()), ("class", pa.string()), ("stored", pa.float64()), ("expires", pa.float64()),
        ("seen", pa.float64()), ("why", pa.string()),
    ]
)  # fmt: skip
COPY = "tier, tenant, domain, epoch, key"
SAME = " AND ".join(f"{{0}}.{name} = {{1}}.{name}" for name in COPY.split(", "))
MOMENT = "make_timestamp(({} * 1e6)::BIGINT)"
TOLD = f"bytes, subject, model, class, {MOMENT.format('stored')} AS stored_at, {MOMENT.format('expires')} AS expires_at"
KEPT = ", ".join(f"{{0}}.{name}" for name in ("bytes", "subject", "model", "class", "stored_at", "expires_at"))


@dataclass(frozen=True, slots=True)
class Source:
    """How far a store's deltas are in the catalogue."""

    boot: str
    next: int
    state: str  # ok | unreachable | gap


def source(db: Connection, name: str) -> Source | None:
    row = db.execute("SELECT boot, next, state FROM sources WHERE source = ?", [name]).fetchone()
    return Source(*row) if row else None


def sources(db: Connection) -> list[dict[str, Any]]:
    """Every store that was ever asked, with what the catalogue has of it."""
    return rows(
        db,
        """SELECT s.source AS store, s.state, s.why, s.seen_at, s.next, s.sent, s.stored,
               if(isnan(s.clock_ms), NULL, s.clock_ms) AS clock_ms,
               coalesce(c.copies, 0) AS copies, coalesce(c.bytes, 0) AS bytes
           FROM sources s LEFT JOIN (SELECT store, count(*) AS copies, sum(bytes)::BIGINT AS bytes FROM chunks
                                     WHERE removed_at IS NULL GROUP BY store) c ON c.store = s.source
           WHERE NOT starts_with(s.source, 'gateway:') ORDER BY s.source""",
    )


def states(db: Connection) -> list[dict[str, Any]]:
    """Whether each store could be read when it was last tried, and when it last was."""
    return rows(
        db,
        """SELECT source AS store, state, why, if(boot = '', NULL, seen_at) AS seen_at FROM sources
           WHERE NOT starts_with(source, 'gateway:') ORDER BY source""",
    )


def keep_source(
    db: Connection, name: str, boot: str, following: int, *, now: datetime, sent: int, stored: int, clock_ms: float
) -> None:
    """`following`: the number that the next reading goes on from. `sent`, `stored`: deltas that came with this one."""
    db.execute(
        """INSERT INTO sources VALUES ($name, $boot, $next, $now, $sent, $stored, $clock, 'ok', '')
           ON CONFLICT (source) DO UPDATE SET boot = $boot, next = $next, seen_at = $now, sent = sent + $sent,
               stored = stored + $stored, clock_ms = $clock, state = 'ok', why = ''""",
        {"name": name, "boot": boot, "next": following, "now": now, "sent": sent, "stored": stored, "clock": clock_ms},
    )


def mark_source(db: Connection, name: str, state: str, why: str, now: datetime) -> None:
    """A store that was not read, and why. What is known of it stays as it is."""
    db.execute(
        """INSERT INTO sources VALUES ($name, '', 0, $now, 0, 0, 'nan', $state, $why)
           ON CONFLICT (source) DO UPDATE SET state = $state, why = $why""",
        {"name": name, "now": now, "state": state, "why": why},
    )


# --- deltas ---------------------------------------------------------------------------------------------------------
def arriving(deltas: Sequence[Delta], ahead: float = 0.0) -> Any:
    """Deltas, or rows of a listing, as an Arrow table. KeyError, TypeError or ValueError for what is neither.

    `ahead`: seconds that the store's clock is ahead of ours. When something came or went is kept by our clock; when a
    chunk was stored and when it ends are the store's own, who goes by them.
    """
    columns = zip(*(_columns(delta, ahead) for delta in deltas), strict=True) if deltas else ([] for _ in ARRIVING)
    return pa.Table.from_arrays(
        [pa.array(values, kind) for values, kind in zip(columns, ARRIVING.types, strict=True)], schema=ARRIVING
    )


def _columns(d: Delta, ahead: float) -> tuple[Any, ...]:
    if "kind" not in d:  # one more subject used it, or everything of a scope went
        key = bytes.fromhex(d["key"]) if d.get("key") else None
        plain = (d["n"], d["op"], d.get("tier"), d["tenant"], d["domain"], d["epoch"], key, None, d.get("subject"))
        return (*plain, None, None, None, None, d["at"] - ahead, d.get("why"))
    stored = float(d["stored_at"])
    return (
        d.get("n", 0), d.get("op", "put"), d["tier"], d["tenant"], d["domain"], d["epoch"], bytes.fromhex(d["key"]),
        d["length"], d.get("subject"), d["model"], "common" if d["kind"] == "common" else "conversation", stored,
        None if d["expires_at"] is None else float(d["expires_at"]), d["at"] - ahead if "at" in d else stored,
        d.get("why"),
    )  # fmt: skip


def take(db: Connection, store: str, deltas: Sequence[Delta], ahead: float = 0.0) -> dict[str, int]:
    """Bring the catalogue up to these deltas, in their order; how many of each kind. Inside a transaction."""
    counts = {"put": 0, "removed": 0, "removed_scope": 0, "seen": 0}
    for whole, run in groupby(deltas, key=lambda delta: delta["op"] == "removed_scope"):
        part = list(run)
        for delta in part:
            counts[delta["op"]] += 1
        if whole:
            for delta in part:
                _take_scope(db, store, delta, ahead)
        else:
            _take_run(db, store, arriving(part, ahead))
    return counts


def _take_scope(db: Connection, store: str, delta: Delta, ahead: float) -> None:
    db.execute(
        f"""UPDATE chunks SET removed_at = {MOMENT.format("$at")}, removed_why = $why
            WHERE store = $store AND tenant = $tenant AND domain = $domain AND epoch = $epoch AND removed_at IS NULL""",  # noqa: S608
        {"at": delta["at"] - ahead, "why": delta["why"], "store": store}
        | {name: delta[name] for name in ("tenant", "domain", "epoch")},
    )


def _take_run(db: Connection, store: str, table: Any) -> None:
    db.register("arriving", table)
    try:
        db.execute(
            f"""CREATE OR REPLACE TEMP TABLE fates AS
                SELECT *, lead(op) OVER copy AS then_op, lead(seen) OVER copy AS then_at,
                    lead(why) OVER copy AS then_why, row_number() OVER copy AS place
                FROM arriving WHERE op IN ('put', 'removed') WINDOW copy AS (PARTITION BY {COPY} ORDER BY n)"""  # noqa: S608
        )
        _close(db, store)
        _insert(db, store)
        db.execute("CREATE OR REPLACE TEMP TABLE users AS SELECT * FROM arriving WHERE op = 'seen'")
    finally:
        db.unregister("arriving")
    if db.execute("SELECT 1 FROM users LIMIT 1").fetchone():
        _take_seen(db, store)


def _close(db: Connection, store: str) -> None:
    """End the copies that the first delta of their name removes or puts anew."""
    # One scan by the key alone finds them; the rest of the name is compared for those few.
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE ending AS
            SELECT c.rowid AS id, {MOMENT.format("f.seen")} AS at, if(f.op = 'put', 'replaced', f.why) AS why
            FROM chunks c JOIN (SELECT * FROM fates WHERE place = 1) f
                ON c.key = f.key AND c.store = ? AND c.removed_at IS NULL
            WHERE {SAME.format("c", "f")}""",  # noqa: S608
        [store],
    )
    db.execute("UPDATE chunks SET removed_at = e.at, removed_why = e.why FROM ending e WHERE chunks.rowid = e.id")


def _insert(db: Connection, store: str) -> None:
    db.execute(
        f"""INSERT INTO chunks BY NAME
            SELECT ? AS store, {COPY}, bytes, subject, model, class, {MOMENT.format("stored")} AS stored_at,
                {MOMENT.format("expires")} AS expires_at, {MOMENT.format("seen")} AS placed_at,
                NULL::TIMESTAMP AS used_at, {MOMENT.format("then_at")} AS removed_at,
                if(then_op = 'put', 'replaced', then_why) AS removed_why, '{SEALED}' AS sealed
            FROM fates WHERE op = 'put'""",  # noqa: S608
        [store],
    )


def _take_seen(db: Connection, store: str) -> None:
    """One more subject used a chunk: a lineage row, and a later use for its copies at this store."""
    db.execute(
        f"""INSERT INTO lineage
            SELECT u.tenant, u.domain, u.subject, u.key, min({MOMENT.format("u.seen")}) FROM users u
            WHERE NOT EXISTS (SELECT 1 FROM lineage l WHERE l.key = u.key AND l.tenant = u.tenant
                              AND l.domain = u.domain AND l.subject = u.subject)
            GROUP BY u.tenant, u.domain, u.subject, u.key"""  # noqa: S608
    )
    db.execute(
        f"""UPDATE chunks SET used_at = greatest(used_at, u.at) FROM
                (SELECT tenant, domain, epoch, key, max({MOMENT.format("seen")}) AS at FROM users GROUP BY ALL) u
            WHERE chunks.key = u.key AND chunks.store = ? AND chunks.removed_at IS NULL AND chunks.tenant = u.tenant
                AND chunks.domain = u.domain AND chunks.epoch = u.epoch""",  # noqa: S608
        [store],
    )


# --- whole listings -------------------------------------------------------------------------------------------------
def begin_listing(db: Connection) -> None:
    """An empty table for a store's whole listing. It lasts over transactions and is this connection's alone."""
    _list(db, "CREATE OR REPLACE TEMP TABLE listed AS SELECT * FROM arriving", [])


def add_listed(db: Connection, page: Sequence[Delta]) -> None:
    _list(db, "INSERT INTO listed SELECT * FROM arriving", page)


def _list(db: Connection, sql: str, page: Sequence[Delta]) -> None:
    db.register("arriving", arriving(page))
    try:
        db.execute(sql)
    finally:
        db.unregister("arriving")


def end_listing(db: Connection) -> None:
    """A chunk that a move carried past the reading may have come twice."""
    db.execute(f"CREATE OR REPLACE TEMP TABLE listed AS SELECT DISTINCT ON ({COPY}) * FROM listed")  # noqa: S608


@dataclass(frozen=True, slots=True)
class Difference:
    """A listing against the catalogue, in copies."""

    catalogued: int
    found: int
    untracked: int  # at the store and not in the catalogue
    missing: int  # in the catalogue and not at the store
    unlike: int = 0  # in both, and not the same


def difference(db: Connection, store: str, before: datetime | None = None) -> Difference:
    """What `listed` and the catalogue do not have in common. `before`: what came later, or has expired, is left out."""
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE untracked AS
            SELECT l.* FROM listed l ANTI JOIN (SELECT * FROM chunks WHERE store = $store
                AND (removed_at IS NULL OR removed_at >= $before)) c ON {SAME.format("c", "l")}""",  # noqa: S608
        {"store": store, "before": before},
    )
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE missing AS
            SELECT c.id FROM (SELECT rowid AS id, * FROM chunks WHERE store = $store AND removed_at IS NULL
                AND ($before IS NULL OR (placed_at < $before AND coalesce(expires_at > $before, true)))) c
            ANTI JOIN listed l ON {SAME.format("c", "l")}""",  # noqa: S608
        {"store": store, "before": before},
    )
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE unlike AS SELECT c.id, l.* FROM
                (SELECT rowid AS id, * FROM chunks WHERE store = $store AND removed_at IS NULL
                    AND ($before IS NULL OR placed_at < $before)) c
            JOIN (SELECT {COPY}, {TOLD} FROM listed) l ON {SAME.format("c", "l")}
            WHERE row({KEPT.format("c")}) IS DISTINCT FROM row({KEPT.format("l")})""",  # noqa: S608
        {"store": store, "before": before},
    )
    counted = db.execute(
        """SELECT (SELECT count(*) FROM chunks WHERE store = $store AND removed_at IS NULL),
                  (SELECT count(*) FROM listed), (SELECT count(*) FROM untracked), (SELECT count(*) FROM missing),
                  (SELECT count(*) FROM unlike)""",
        {"store": store},
    ).fetchone()
    assert counted is not None
    return Difference(*counted)


def reconcile(db: Connection, store: str, now: datetime) -> None:
    """Make the catalogue what `difference` found: what is missing has ended, what is untracked begins; of what is
    unlike, the store is right."""
    db.execute(
        """UPDATE chunks SET bytes = u.bytes, subject = u.subject, model = u.model, class = u.class,
           stored_at = u.stored_at, expires_at = u.expires_at FROM unlike u WHERE chunks.rowid = u.id"""
    )
    db.execute(
        "UPDATE chunks SET removed_at = ?, removed_why = 'unknown' FROM missing m WHERE chunks.rowid = m.id", [now]
    )
    db.execute(
        f"""INSERT INTO chunks BY NAME
            SELECT ? AS store, {COPY}, bytes, subject, model, class, {MOMENT.format("stored")} AS stored_at,
                {MOMENT.format("expires")} AS expires_at, {MOMENT.format("seen")} AS placed_at,
                NULL::TIMESTAMP AS used_at, NULL::TIMESTAMP AS removed_at, NULL AS removed_why, '{SEALED}' AS sealed
            FROM untracked""",  # noqa: S608
        [store],
    )


def add_gap(db: Connection, name: str, boot: str, start: int, stop: int | None, now: datetime, cause: str) -> None:
    db.execute("INSERT INTO gaps VALUES (?, ?, ?, ?, ?, ?)", [name, boot, start, stop, now, cause])


def add_comparison(db: Connection, store: str, now: datetime, found: Difference) -> None:
    counts = [found.catalogued, found.found, found.untracked + found.unlike, found.missing]
    db.execute("INSERT INTO comparisons VALUES (?, ?, ?, ?, ?, ?)", [store, now, *counts])


def prune(db: Connection, before: datetime) -> int:
    """Forget copies that were gone before then; how many. Open erasures need none of them."""
    row = db.execute("DELETE FROM chunks WHERE removed_at < ?", [before]).fetchone()
    return int(row[0]) if row else 0
