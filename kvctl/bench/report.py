"""A benchmark's document as a table for terminals or as Markdown for documentation."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = tuple[str, ...]
Sections = Callable[[Mapping[str, Any]], Iterable[tuple[str, list[Row]]]]  # title and rows, the header first
Notes = Callable[[Mapping[str, Any]], Iterable[tuple[str, list[str]]]]  # title and lines


def rendered(document: Mapping[str, Any], fmt: str, sections: Sections, notes: Notes) -> str:
    """A document as `fmt`, which is table, json or markdown: its sections, and the notes behind them."""
    if fmt == "json":
        return json.dumps(document, indent=2)
    title, body = (heading_md, table_md) if fmt == "markdown" else (heading, table)
    parts = [f"{title(name)}\n{body(rows)}" for name, rows in sections(document)]
    return "\n\n".join([*parts, *(f"{title(name)}\n" + "\n".join(lines) for name, lines in notes(document))])


def render(document: Mapping[str, Any], fmt: str) -> str:
    return rendered(document, fmt, sections, notes)


def sections(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    """Title and rows, the header first, of every part that was measured."""
    yield "Targets", targets(document["targets"])
    facts = document["facts"]
    yield f"Facts and check, {facts['hosts']} hosts (medians)", costs(facts["medians"])
    yield "Ratios", ratios(facts["ratios"])
    yield "Start-up", starts(document["startup"])
    for part in document["converge"]:
        yield f"Converge no-op, {part['hosts']} hosts (medians)", costs(part["medians"])


def targets(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    rows: list[Row] = [("target", "measured", "required", "")]
    for one in found:
        rows.append((one["name"], f"{one['measured']:.2f}", one["required"], "ok" if one["ok"] else "MISSED"))
    return rows


def costs(medians: Mapping[str, Mapping[str, float]]) -> list[Row]:
    rows: list[Row] = [("contestant", "wall s", "controller CPU s", "node CPU s", "total CPU s")]
    for name, one in medians.items():
        keys = ("wall", "controller_cpu", "node_cpu", "total_cpu")
        rows.append((name, *(f"{one[key]:.2f}" for key in keys)))
    return rows


def ratios(found: Mapping[str, float]) -> list[Row]:
    return [("ratio", "times"), *((name, f"{value:.2f}") for name, value in found.items())]


def starts(part: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = [("command", "min ms", "median ms", "of min", "of median")]
    for name in part["median"]:
        times = (f"{1000 * part[which][name]:.1f}" for which in ("min", "median"))
        shares = (part[which].get(name) for which in ("ratios_of_min", "ratios_of_median"))
        rows.append((name, *times, *("" if share is None else f"{share:.2f}" for share in shares)))
    return rows


def notes(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Title and lines, the same in both forms, of what goes with the numbers."""
    yield "Conditions", [f"- {name}: {value}" for name, value in conditions(document["conditions"])]
    commands = document["commands"].items()
    yield "Commands, DIR being the benchmark's directory", [f"- {name}: `{argv}`" for name, argv in commands]


def conditions(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("date", found["at"]),
        ("processor", f"{found['cores']} x {found['cpu']}"),
        ("memory", f"{found['memory_bytes'] / 2**30:.1f} GiB"),
        ("kernel", found["kernel"]),
        ("load before", ", ".join(f"{value:.2f}" for value in found["load_before"])),
        ("rounds", str(found["rounds"])),
        *((name, value) for name, value in found["versions"].items()),
    ]


def heading(name: str) -> str:
    return f"{name}\n{'-' * len(name)}"


def heading_md(name: str) -> str:
    return f"### {name}\n"


def table(rows: Sequence[Row]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        # the first column is a name and reads from the left, numbers line up at the right
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def table_md(rows: Sequence[Row]) -> str:
    header, *body = rows
    rule = "|".join(["", "---", *("---:" for _ in header[1:]), ""])
    return "\n".join([line_md(header), rule, *map(line_md, body)])


def line_md(row: Row) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
