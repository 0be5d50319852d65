"""The control log's events for other tools: JSON Lines, CSV, Parquet."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet

from kvctl.state import audit as state
from kvctl.state.governance import Connection
from kvctl.types.errors import UsageError
from kvctl.types.requests import AuditExport

PAGE = 10_000
COLUMNS = ("idx", "ts", "kind", "actor", "actor_tenant", "tenant", "outcome", "data")


def events(db: Connection, asked: AuditExport) -> tuple[bytes, int]:
    """The file, and how many events it holds. UsageError KV-AUD-007 for a format that there is not."""
    writers = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet}
    if asked.format not in writers:
        raise UsageError("KV-AUD-007", f"there is no format {asked.format!r}", fix=", ".join(writers))
    found = list(_pages(db, asked))
    return writers[asked.format](found), len(found)


def _pages(db: Connection, asked: AuditExport) -> Iterator[dict[str, Any]]:
    after = -1
    while True:
        page = state.events(db, tenant=asked.tenant, since=asked.since, until=asked.until, after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = int(page[-1]["idx"])


def _jsonl(found: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in found)


def _csv(found: list[dict[str, Any]]) -> bytes:
    return table_csv(found, COLUMNS)


def table_csv(found: list[dict[str, Any]], columns: tuple[str, ...] = ()) -> bytes:
    """RFC 4180; what a spreadsheet would take for a formula is made harmless. Without columns: those of all rows."""
    names = columns or tuple(dict.fromkeys(name for row in found for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(names)
    for row in found:
        writer.writerow([_cell(row.get(name)) for name in names])
    return out.getvalue().encode()


def _parquet(found: list[dict[str, Any]]) -> bytes:
    table = pa.table({column: [_text(row[column]) for row in found] for column in COLUMNS})
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> str:
    return _harmless(value) if isinstance(value, str) else _text(value)  # a number below zero is no formula


def _harmless(text: str) -> str:
    return "'" + text if text[:1] in tuple("=+-@\t\r") else text
