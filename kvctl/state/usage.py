"""Usage: what gateways metered, by hour, and what lies on the stores now."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kvctl.state.governance import Connection, rows

Record = Mapping[str, Any]
KINDS = pa.schema(
    [
        ("at", pa.float64()), ("tenant", pa.string()), ("key", pa.string()), ("model", pa.string()),
        ("requests", pa.int64()), ("prompt", pa.int64()), ("cached", pa.int64()), ("output", pa.int64()),
        ("subject", pa.bool_()), ("partial", pa.bool_()),
    ]
)  # fmt: skip


def take(db: Connection, source: str, records: Sequence[Record]) -> None:
    """Add a gateway's records, summed by hour. Inside the transaction that moves the gateway's counter."""
    columns = [pa.array([record.get(field.name) for record in records], field.type) for field in KINDS]
    db.register("records", pa.Table.from_arrays(columns, schema=KINDS))
    try:
        db.execute(
            """INSERT INTO usage BY NAME
               SELECT date_trunc('hour', make_timestamp((r."at" * 1e6)::BIGINT)) AS ts, tenant, ? AS source,
                   key AS key_id, model, sum(requests)::BIGINT AS requests,
                   coalesce(sum(prompt), 0)::BIGINT AS prompt_tokens,
                   coalesce(sum(cached), 0)::BIGINT AS cached_tokens, coalesce(sum(output), 0)::BIGINT AS output_tokens,
                   0 AS bytes_read, 0 AS bytes_written,
                   coalesce(sum(requests) FILTER (NOT subject), 0)::BIGINT AS anonymous,
                   coalesce(sum(requests) FILTER (partial OR prompt IS NULL OR output IS NULL), 0)::BIGINT AS unmetered
               FROM records r GROUP BY ALL""",
            [source],
        )
    finally:
        db.unregister("records")


def stored(db: Connection, tenant: str | None) -> list[dict[str, Any]]:
    """Copies and bytes there are now, by tenant, store and tier."""
    return rows(
        db,
        """SELECT tenant, store, tier, count(*) AS copies, sum(bytes)::BIGINT AS bytes FROM chunks
           WHERE removed_at IS NULL AND ($tenant IS NULL OR tenant = $tenant)
           GROUP BY tenant, store, tier ORDER BY tenant, store, tier""",
        {"tenant": tenant},
    )


def requests(db: Connection, tenant: str | None, since: str | None, until: str | None) -> list[dict[str, Any]]:
    """Requests and tokens by tenant and model, of the hours that begin from `since` on and before `until`."""
    return rows(
        db,
        """SELECT tenant, model, sum(requests)::BIGINT AS requests, sum(prompt_tokens)::BIGINT AS prompt_tokens,
               sum(cached_tokens)::BIGINT AS cached_tokens, sum(output_tokens)::BIGINT AS output_tokens,
               sum(anonymous)::BIGINT AS without_user,
               round(sum(anonymous) / sum(requests), 4)::DOUBLE AS share_without_user,
               sum(unmetered)::BIGINT AS unmetered
           FROM usage WHERE coalesce(tenant = $tenant, true) AND coalesce(ts >= $since::TIMESTAMP, true)
               AND coalesce(ts < $until::TIMESTAMP, true)
           GROUP BY tenant, model ORDER BY tenant, model""",
        {"tenant": tenant, "since": since, "until": until},
    )


def gateways(db: Connection) -> dict[str, dict[str, Any]]:
    """How far each gateway's records are taken in, and how many are missing in between."""
    found = rows(
        db,
        """SELECT source[9:] AS gateway, state, why, seen_at, stored AS records,
               (SELECT coalesce(sum(to_n - from_n + 1), 0)::BIGINT FROM gaps g WHERE g.source = s.source) AS lost
           FROM sources s WHERE starts_with(source, 'gateway:')""",
    )
    return {str(row["gateway"]): row for row in found}
