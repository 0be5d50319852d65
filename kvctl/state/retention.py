"""The rules of kvctl.govern.retention in SQL, over every copy that is there. A property test compares the two."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kvctl.state.governance import Connection, rows

NAMES = ("domain", "subject", "model")
ACTIVE = """SELECT id, tenant, domain, subject, model FROM holds
    WHERE lifted_at IS NULL AND (until_at IS NULL OR until_at > $now)"""
# Ages become moments once a policy, so that a copy costs comparisons only. Two plain comparisons let DuckDB hash by
# tenant and class; any other wording of "in force" has it compare every copy with every policy, ten times slower.
POLICIES = """SELECT *, $now - minimum AS minimum_cut, $now - maximum AS maximum_cut, $now - idle AS idle_cut,
        epoch_us(maximum) AS maximum_us, epoch_us(idle) AS idle_us
    FROM (SELECT tenant, class, version, valid_from, coalesce(valid_to, 'infinity'::TIMESTAMP) AS ended,
              to_seconds(least(minimum_s, 10000000000)) AS minimum,
              if(maximum_s IS NULL, NULL, to_seconds(least(maximum_s, 10000000000))) AS maximum,
              if(idle_s IS NULL, NULL, to_seconds(least(idle_s, 10000000000))) AS idle FROM retention_policies)"""
RULED = """SELECT *, rule IN ('maximum', 'idle') AS go FROM (
    SELECT c.*, p.version, p.maximum_us, p.idle_us, {hold} AS hold, CASE
        WHEN {hold} IS NOT NULL THEN 'hold'
        WHEN c.expires_at <= $now OR c.stored_at <= p.maximum_cut THEN 'maximum'
        WHEN c.stored_at > p.minimum_cut THEN 'minimum'
        WHEN coalesce(c.used_at, c.stored_at) <= p.idle_cut THEN 'idle'
        WHEN p.version IS NULL THEN 'none' ELSE 'within' END AS rule
    FROM (SELECT * FROM chunks WHERE removed_at IS NULL AND ($tenant IS NULL OR tenant = $tenant)) c
    LEFT JOIN ({policies}) p ON c.tenant = p.tenant AND c.class = p.class AND c.stored_at >= p.valid_from
        AND c.stored_at < p.ended
    {joins})"""
# Microseconds: adding an interval to a timestamp costs several times as much.
GONE_BY = """CASE WHEN rule = 'idle' THEN epoch_us(coalesce(used_at, stored_at)) + idle_us
    ELSE least(epoch_us(expires_at), epoch_us(stored_at) + maximum_us) END"""


def ruled(db: Connection, now: datetime) -> str:
    """A query that gives every copy with its `rule`, `hold` and whether it must `go`; takes $now and $tenant."""
    ids, joins = [], []
    shapes = [(shape, sql) for shape, sql in _hold_shapes(db, now) if _any(db, sql, now)]
    for number, (shape, sql) in enumerate(shapes):
        on = " AND ".join(f"c.{name} = h{number}.{name}" for name in shape)
        ids.append(f"h{number}.id")
        joins.append(f"LEFT JOIN ({sql}) h{number} ON {on}")
    hold = f"least({', '.join(ids)})" if ids else "NULL::VARCHAR"
    return RULED.format(hold=hold, policies=POLICIES, joins="\n".join(joins))


def _hold_shapes(db: Connection, now: datetime) -> Iterator[tuple[tuple[str, ...], str]]:
    """For each combination of names that holds in force give: the columns to join by, and the joined query."""
    shapes = db.execute(
        f"SELECT DISTINCT domain IS NOT NULL, subject IS NOT NULL, model IS NOT NULL FROM ({ACTIVE}) ORDER BY ALL",  # noqa: S608
        {"now": now},
    ).fetchall()
    for given in shapes:
        named = ("tenant", *(name for name, there in zip(NAMES, given, strict=True) if there))
        where = " AND ".join(f"{n} IS {'NOT ' if there else ''}NULL" for n, there in zip(NAMES, given, strict=True))
        yield named, f"SELECT {', '.join(named)}, min(id) AS id FROM ({ACTIVE}) WHERE {where} GROUP BY ALL"  # noqa: S608
        if "subject" in named:
            # A chunk that a held subject used, stored for somebody else.
            rest = ("l.tenant", "l.domain", "l.key", *(["h.model"] if "model" in named else []))
            domain = "AND h.domain = l.domain" if "domain" in named else ""
            yield (
                tuple(name.split(".")[1] for name in rest),
                f"""SELECT {", ".join(rest)}, min(h.id) AS id FROM lineage l
                    JOIN (SELECT * FROM ({ACTIVE}) WHERE {where}) h ON h.tenant = l.tenant AND h.subject = l.subject
                    {domain} GROUP BY ALL""",  # noqa: S608
            )


def _any(db: Connection, sql: str, now: datetime) -> bool:
    return db.execute(f"SELECT 1 FROM ({sql}) LIMIT 1", {"now": now}).fetchone() is not None  # noqa: S608


def totals(db: Connection, now: datetime, tenant: str | None = None) -> list[dict[str, Any]]:
    """Copies and bytes by tenant, class, tier and the rule that decides, for holds by each hold.

    Where copies must go: when the oldest of them was due, and the median and the 99th percentile of how long ago that
    was, in seconds: what policy says is gone and stores still have.
    """
    return rows(
        db,
        f"""SELECT tenant, class, tier, rule, hold, go, copies, bytes, oldest, make_timestamp(due) AS oldest_due,
                round((epoch_us($now) - late[1]) / 1e6, 1) AS late_p50_s,
                round((epoch_us($now) - late[2]) / 1e6, 1) AS late_p99_s
            FROM (SELECT tenant, class, tier, rule, hold, go, count(*) AS copies, sum(bytes)::BIGINT AS bytes,
                      min(stored_at) AS oldest, min(due) AS due, approx_quantile(due, [0.5, 0.01]) AS late
                  FROM (SELECT *, CASE WHEN go THEN {GONE_BY} END AS due FROM ({ruled(db, now)}))
                  GROUP BY tenant, class, tier, rule, hold, go)
            ORDER BY tenant, class, tier, rule, hold""",  # noqa: S608
        {"now": now, "tenant": tenant},
    )


def going(db: Connection, now: datetime, tenant: str | None, limit: int) -> list[dict[str, Any]]:
    """Copies that must go, in the order in which they came to the catalogue, at most `limit`."""
    return rows(
        db,
        f"""SELECT store, tier, tenant, domain, key, bytes, class, rule, stored_at,
                make_timestamp({GONE_BY}) AS due
            FROM ({ruled(db, now)}) WHERE go LIMIT $limit""",  # noqa: S608
        {"now": now, "tenant": tenant, "limit": limit},
    )


def victims(db: Connection, now: datetime, tenant: str | None) -> Iterator[tuple[dict[str, str], list[str]]]:
    """What must go, as scopes (store, tenant, domain, epoch) with up to BATCH keys each.

    A store removes a chunk from all its tiers: one whose copy on another tier of that store stays is left out.
    """
    db.execute(
        f"""CREATE OR REPLACE TEMP TABLE victims AS
            SELECT DISTINCT store, tenant, domain, epoch, key FROM ({ruled(db, now)}) WHERE go""",  # noqa: S608
        {"now": now, "tenant": tenant},
    )
    db.execute(
        f"""DELETE FROM victims v USING ({ruled(db, now)}) k
            WHERE NOT k.go AND k.key = v.key AND k.store = v.store AND k.tenant = v.tenant AND k.domain = v.domain
                AND k.epoch = v.epoch""",  # noqa: S608
        {"now": now, "tenant": tenant},
    )
    found = db.execute(
        """SELECT store, tenant, domain, epoch, lower(hex(key)) FROM victims ORDER BY store, tenant, domain, epoch"""
    )
    yield from batches(iter(found.fetchone, None))


BATCH = 5000  # keys of a request: a store takes 10,000


def batches(found: Iterator[Any]) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Rows of a scope and a key, in the order of scopes, as scopes with up to BATCH keys each."""
    scope, keys = None, list[str]()
    for *place, key in found:
        if scope is not None and (place != scope or len(keys) == BATCH):
            yield _named(scope), keys
            keys = []
        scope = place
        keys.append(key)
    if scope is not None:
        yield _named(scope), keys


def _named(place: list[str]) -> dict[str, str]:
    return dict(zip(("store", "tenant", "domain", "epoch"), place, strict=True))


def copies(db: Connection, tenant: str, prefix: str) -> list[dict[str, Any]]:
    """Copies of chunks whose key begins so, with everybody who used them; what is gone, too."""
    low, high = (bytes.fromhex(prefix.ljust(64, digit)) for digit in "0f")
    return rows(
        db,
        """SELECT store, tier, domain, epoch, key, bytes, subject, model, class, stored_at, expires_at, placed_at,
               used_at, removed_at, removed_why,
               (SELECT list(l.subject) FROM lineage l WHERE l.tenant = c.tenant AND l.domain = c.domain
                AND l.key = c.key) AS users
           FROM chunks c WHERE tenant = $tenant AND key BETWEEN $low AND $high ORDER BY key, store, tier, placed_at""",
        {"tenant": tenant, "low": low, "high": high},
    )


def policies(db: Connection, tenant: str) -> list[Mapping[str, Any]]:
    found = db.execute(
        """SELECT tenant, class, version, minimum_s, maximum_s, idle_s, valid_from, valid_to
           FROM retention_policies WHERE tenant = ? ORDER BY class, valid_from""",
        [tenant],
    )
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
