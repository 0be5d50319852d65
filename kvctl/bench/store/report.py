"""The store's benchmark as a document, and the document as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kvctl.bench.report import Row, rendered
from kvctl.bench.store.cells import Cell, Op, size_text
from kvctl.bench.store.contestants import ALL, Contestant
from kvctl.bench.store.figures import Figures, Sample, Scaled, figures
from kvctl.bench.store.targets import targets

SCHEMA = 1
TITLES = {Op.GET: "GET", Op.PUT: "PUT, visible", Op.DURABLE: "PUT, durable"}
Absence = tuple[str, str]  # what a row says, and why
UNMEASURED = ("not measured", "")
RANK = {one.name: place for place, one in enumerate(ALL)}


def document(
    conditions: Mapping[str, Any],
    contestants: Sequence[Contestant],
    cells: Sequence[Cell],
    samples: Sequence[Sample],
    absent: Mapping[str, Absence],
    scale: Scaled | None,
) -> dict[str, Any]:
    """Everything of a run, with every sample. `absent`: contestant -> why it has no figures."""
    found = figures(samples)
    return {
        "schema": SCHEMA,
        "benchmark": "store",
        "conditions": dict(conditions),
        "targets": [asdict(one) for one in targets(found, scale)],
        "cells": [row for cell in cells for row in rows(cell, contestants, found.get(cell, {}), absent)],
        "absent": {name: {"status": status, "why": why} for name, (status, why) in absent.items()},
        "scale": scale.as_dict() if scale else None,
        "samples": [flat(sample) for sample in samples],
    }


def rows(
    cell: Cell, contestants: Sequence[Contestant], found: Mapping[str, Figures], absent: Mapping[str, Absence]
) -> Iterator[dict[str, Any]]:
    """A cell's row for each contestant that does this operation."""
    for one in sorted(contestants, key=lambda one: RANK.get(one.name, len(RANK))):
        if cell.op not in one.ops:
            continue
        figure = found.get(one.name)
        yield {
            "op": str(cell.op), "size": cell.size, "connections": cell.connections, "contestant": one.name,
            "absent": None if figure else absent.get(one.name, UNMEASURED)[0],
            "figures": None if figure is None else asdict(figure),
        }  # fmt: skip


def flat(sample: Sample) -> dict[str, Any]:
    cell = {"op": str(sample.cell.op), "size": sample.cell.size, "connections": sample.cell.connections}
    return {"contestant": sample.contestant, "round": sample.round, **cell, **asdict(sample.taken)}


def render(document: Mapping[str, Any], fmt: str) -> str:
    return rendered(document, fmt, sections, notes)


def sections(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    """Title and rows, the header first."""
    for op, title in TITLES.items():
        found = [row for row in document["cells"] if row["op"] == op]
        if found:
            yield f"{title} (medians)", costs(found)
    if document["scale"]:
        yield "Scale", scaled(document["scale"])
    yield "Targets", judged(document["targets"])


def costs(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One line for each cell and contestant; CPU in seconds per GB of plaintext."""
    lines: list[Row] = [
        ("chunk, connections, contestant", "GB/s", "client", "of it seal", "server", "CPU s/GB", "p50 ms", "p99 ms")
    ]
    for row in found:
        name = f"{size_text(row['size'])} x{row['connections']} {row['contestant']}"
        one = row["figures"]
        if one is None:
            lines.append((name, row["absent"], *[""] * 6))
            continue
        spent = (one["client_cpu"], one["seal_cpu"], one["server_cpu"], one["total_cpu"])
        times = (None if one[rank] is None else 1000 * one[rank] for rank in ("p50", "p99"))
        lines.append((name, number(one["gbps"]), *map(number, spent), *map(number, times)))
    return lines


def scaled(one: Mapping[str, Any]) -> list[Row]:
    small = size_text(one["small_bytes"])
    return [
        ("measure", "value"),
        (f"fill with {one['chunks']} chunks, s", number(one["fill_seconds"])),
        ("reopen after an orderly end, s", number(one["reopen_seconds"])),
        ("until it knows every chunk's recency, s", number(one["counted_seconds"])),
        ("reopen after SIGKILL, s", number(one["reopen_killed_seconds"])),
        ("HAS of 1000 keys, p50 ms", number(1000 * one["has_p50"])),
        ("HAS of 1000 keys, p99 ms", number(1000 * one["has_p99"])),
        (f"GET 256 KiB x4 from disk, {small} stored, p99 ms", number(1000 * one["p99_small"])),
        (f"the same, {one['factor']} times as much stored, p99 ms", number(1000 * one["p99_large"])),
    ]


def judged(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    said = {True: "yes", False: "NO", None: "not measured"}
    lines: list[Row] = [("target", "measured", "required", "holds")]
    return lines + [(one["name"], number(one["measured"]), one["required"], said[one["ok"]]) for one in found]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def notes(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Title and lines, the same in both forms, of what goes with the numbers."""
    if document["absent"]:
        yield "Left out", [f"- {name}: {one['status']}: {one['why']}" for name, one in document["absent"].items()]
    lines = []
    for name, value in document["conditions"].items():
        if isinstance(value, Mapping):
            lines += [f"- {name}, {part}: {one}" for part, one in value.items()]
        else:
            lines.append(f"- {name}: {value}")
    yield "Conditions", lines
