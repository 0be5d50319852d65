"""How long the catalogue's questions take at tens of millions of copies, beside the limits that they are held to."""

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from kvctl.bench.conditions import conditions
from kvctl.bench.report import table
from kvctl.govern.erasure import Scope
from kvctl.state import catalogue, copies, erasures, retention, usage
from kvctl.state.appliers import APPLIERS
from kvctl.state.governance import Connection, GovernanceState

TENANTS, STORES, BATCH, BATCHES = 20, 5, 10_000, 5
STEP = 5_000_000  # rows of one insert
NOW = datetime(2026, 3, 1)
# Seconds that a question may take at 20 million rows.
LIMITS = {"retention plan": 5.0, "usage": 2.0, "residency history": 5.0}
AGE = "to_seconds((hash(i + 7) % 5000000)::BIGINT)"
ROWS = f"""INSERT INTO chunks BY NAME
    SELECT 'store' || (i % {STORES}) AS store, ['flash', 'disk', 'object'][1 + i % 3] AS tier,
        'tenant' || (i % {TENANTS}) AS tenant, if(i % 10 = 0, 'common', 'user') AS domain,
        md5((i % {TENANTS})::VARCHAR) AS epoch,
        unhex(md5(i::VARCHAR) || md5((-i)::VARCHAR)) AS key, 2000000 + (hash(i) % 3000000)::BIGINT AS bytes,
        if(i % 10 = 0, NULL, md5((hash(i) % 200000)::VARCHAR)) AS subject, md5((i % 3)::VARCHAR) AS model,
        if(i % 10 = 0, 'common', 'conversation') AS class, TIMESTAMP '{NOW}' - {AGE} AS stored_at,
        if(i % 4 = 0, NULL, TIMESTAMP '{NOW}' - {AGE} + INTERVAL 40 DAY) AS expires_at,
        TIMESTAMP '{NOW}' - {AGE} AS placed_at,
        if(i % 5 = 0, TIMESTAMP '{NOW}' - {AGE} / 2, NULL) AS used_at,
        if(hash(i + 3) % 10 = 0, TIMESTAMP '{NOW}' - {AGE} / 3, NULL) AS removed_at,
        if(hash(i + 3) % 10 = 0, 'evicted', NULL) AS removed_why, 'xaes-256-gcm' AS sealed
    FROM range($first, $last) t(i)"""  # noqa: S608  numbers of this file


@click.command("catalogue")
@click.option("--rows", type=click.IntRange(1000), default=20_000_000, show_default=True, help="Copies of chunks.")
@click.option(
    "--rounds", type=click.IntRange(1), default=3, show_default=True, help="Of each question; the best counts."
)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Where. [default: a temporary one]"
)
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json"]), default="table", show_default=True)
def command(rows: int, rounds: int, folder: Path | None, fmt: str) -> None:
    """Retention plan, usage, residency history and ingest over a catalogue that is made up. About 100 bytes a row."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        document = run(Path(place), rows, rounds)
    if fmt == "json":
        click.echo(json.dumps(document, indent=2))
        return
    lines = [("question", "seconds", "CPU s", "limit", "")]
    for one in document["questions"]:
        limit = "" if one["limit"] is None else f"{one['limit']:.0f}"
        verdict = "" if one["limit"] is None else "ok" if one["ok"] else "MISSED"
        lines.append((one["name"], f"{one['seconds']:.2f}", f"{one['cpu']:.2f}", limit, verdict))
    click.echo(table(lines))
    for name in ("load", "ingest"):
        click.echo(f"{name}: {document[name]['rows_per_second']:,.0f} rows/s")
    about = document["conditions"]
    click.echo(
        f"{rows:,} rows, {document['file_bytes'] >> 20} MiB; {about['cores']} x {about['cpu']}, "
        f"load {about['load_before'][0]:.1f}"
    )


def run(folder: Path, rows: int, rounds: int) -> dict[str, Any]:
    """The document: each question's best time, load and ingest in rows a second, and the conditions."""
    about = conditions(
        at=datetime.now(UTC).isoformat(timespec="seconds"), hosts=0, rounds=rounds, load_before=os.getloadavg()
    )
    state = GovernanceState(folder / "governance.duckdb", APPLIERS)
    try:
        load = _timed(lambda: fill(state, rows))
        with state.reading() as db:
            questions = [_asked(name, ask, db, rounds) for name, ask in QUESTIONS.items()]
        ingest = _timed(lambda: take(state, rows))
        size = state.path.stat().st_size
    finally:
        state.close()
    return {
        "schema": "kvctl.bench.catalogue/1", "conditions": about, "rows": rows, "file_bytes": size,
        "questions": questions, "load": load | {"rows_per_second": rows / load["seconds"]},
        "ingest": ingest | {"rows_per_second": BATCH * BATCHES / ingest["seconds"], "batch": BATCH},
    }  # fmt: skip


def fill(state: GovernanceState, rows: int) -> None:
    for first in range(0, rows, STEP):
        with state.writing() as db:
            db.execute(ROWS, {"first": first, "last": min(first + STEP, rows)})
    with state.writing() as db:
        db.execute(
            f"""INSERT INTO retention_policies BY NAME
                SELECT 'tenant' || t AS tenant, c AS class, v AS version, 3600 AS minimum_s,
                    if(c = 'common', NULL, 3000000) AS maximum_s, 2500000 AS idle_s, if(v = 1, TIMESTAMP '2025-01-01',
                    TIMESTAMP '2026-02-01') AS valid_from, if(v = 1, TIMESTAMP '2026-02-01', NULL) AS valid_to,
                    '' AS sha256
                FROM range({TENANTS}) a(t), (VALUES ('common'), ('conversation')) b(c), range(1, 3) d(v)"""  # noqa: S608
        )
        db.execute(
            """INSERT INTO holds BY NAME SELECT 'h' || t AS id, 'tenant' || t AS tenant,
               if(t = 0, NULL, md5(t::VARCHAR)) AS subject, '' AS reason, '' AS set_by,
               TIMESTAMP '2026-01-01' AS from_at FROM range(5) a(t)"""
        )
        db.execute(
            f"""INSERT INTO places BY NAME SELECT 'store' || s AS store, '*' AS tier, 'site' || (s % 2) AS site,
                TIMESTAMP '2025-01-01' AS valid_from FROM range({STORES}) a(s)"""  # noqa: S608
        )
    with state.reading() as db:
        db.execute("CHECKPOINT")


def take(state: GovernanceState, rows: int) -> None:
    """New chunks as deltas, and as many removals, in transactions as large as the controller's."""
    for batch in range(BATCHES):
        first = rows + batch * BATCH
        with state.writing() as db:
            catalogue.take(
                db, "store0", [_delta(first + n, "put" if n % 2 == 0 else "removed", n) for n in range(BATCH)]
            )


def _delta(number: int, op: str, n: int) -> dict[str, Any]:
    at = NOW.replace(tzinfo=UTC).timestamp() + n / 1000
    return {
        "n": number, "op": op, "tier": "flash", "tenant": "tenant0", "domain": "user", "epoch": "ee" * 16,
        "key": (number - n % 2).to_bytes(32, "big").hex(), "length": 2_000_000, "subject": None, "model": "0f" * 16,
        "kind": "private", "position": 0, "stored_at": int(at), "expires_at": None, "at": at, "why": None,
    }  # fmt: skip


def plan(db: Connection) -> None:
    retention.totals(db, NOW)
    retention.going(db, NOW, None, 100)


QUESTIONS: dict[str, Callable[[Connection], Any]] = {
    "retention plan": plan,
    "usage": lambda db: usage.stored(db, None),
    "residency history": lambda db: copies.held_at(db, "tenant3", (NOW - timedelta(days=20)).isoformat()),
    "one user's copies": lambda db: erasures.copies(
        db, asdict(Scope("subject", "tenant3", subject="ab" * 16)), erasures.Reach(NOW.isoformat(), NOW.isoformat())
    ),
    "one chunk": lambda db: retention.copies(db, "tenant3", "0badcafe"),
}  # fmt: skip


def _asked(name: str, ask: Callable[[Connection], Any], db: Connection, rounds: int) -> dict[str, Any]:
    best = min((_timed(lambda: ask(db)) for _ in range(rounds)), key=lambda one: one["seconds"])
    limit = LIMITS.get(name)
    return {"name": name, **best, "limit": limit, "ok": None if limit is None else best["seconds"] <= limit}


def _timed(work: Callable[[], Any]) -> dict[str, float]:
    wall, cpu = time.monotonic(), time.process_time()
    work()
    return {"seconds": time.monotonic() - wall, "cpu": time.process_time() - cpu}
