"""What commands print. stdout is data in the format asked for; everything else goes to stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

FORMATS = ("table", "json", "yaml", "jsonl", "csv")
# A word first, a colour second: never colour alone.
MARKS = {
    "pass": "ok",
    "fail": "FAIL",
    "unknown": "UNKNOWN",
    "waived": "waived",
    "follows": "follows",
    "not-applicable": "n/a",
}
COLORS = {"ok": "", "FAIL": "red", "UNKNOWN": "yellow", "waived": "cyan", "follows": "cyan", "n/a": "bright_black"}


def emit(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], columns: Sequence[str], fmt: str) -> None:
    """Print one result: `document` for JSON and YAML, `rows` of `columns` for tables, CSV and JSON Lines."""
    if fmt == "json":
        click.echo(json.dumps(document, indent=2, default=str))
    elif fmt == "yaml":
        import yaml

        click.echo(yaml.safe_dump(json.loads(json.dumps(document, default=str)), sort_keys=False), nl=False)
    elif fmt == "jsonl":
        for row in rows:
            click.echo(json.dumps(row, default=str))
    elif fmt == "csv":
        click.echo(as_csv(rows, columns), nl=False)
    else:
        click.echo(table(rows, columns))


def as_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """RFC 4180 text; what a spreadsheet would take for a formula, or a terminal for a command, is made harmless."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        cells = ["" if row.get(c) is None else str(row[c]) for c in columns]
        writer.writerow([printable_lines("'" + c if c and c[0] in "=+-@\t\r" else c) for c in cells])
    return out.getvalue()


def width() -> int:
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return 100
    import shutil

    return max(60, min(100, shutil.get_terminal_size((100, 24)).columns))


Paint = Mapping[str, Callable[[str], str]]  # column -> the colour of a cell's text, "" for none


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], paint: Paint | None = None) -> str:
    """An aligned table. Only the last column wraps, so an id is never broken."""
    if not rows:
        return ""
    cells = [[printable(row.get(c)) for c in columns] for row in rows]
    sizes = [max(len(c), *(len(r[i]) for r in cells)) for i, c in enumerate(columns)]
    left = sum(s + 2 for s in sizes[:-1])
    last = max(24, width() - left)
    lines = ["  ".join(c.upper().replace("_", " ").ljust(s) for c, s in zip(columns, sizes, strict=True)).rstrip()]
    for row in cells:
        head = "".join(
            painted(t, c, paint) + " " * (s + 2 - len(t)) for t, c, s in zip(row, columns, sizes[:-1], strict=False)
        )
        for i, part in enumerate(wrap(row[-1], last)):
            lines.append(((head if i == 0 else " " * left) + part).rstrip())
    return "\n".join(lines)


def painted(text: str, column: str, paint: Paint | None) -> str:
    color = paint[column](text) if paint and column in paint else ""
    return colored(text, color) if color else text


def wrap(text: str, size: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, size, break_long_words=False, break_on_hyphens=False) or [""]


def printable(value: Any) -> str:
    """Text from a node may hold anything; control characters never reach the terminal."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else "?" for c in text)


def printable_lines(text: str) -> str:
    """`printable`, with the line breaks kept."""
    return "\n".join(map(printable, text.split("\n")))


def colored(text: str, color: str) -> str:
    """Colour only on a terminal and only when the user did not switch it off; never the only sign."""
    mode = os.environ.get("KVCTL_COLOR", "auto")
    on = mode == "always" or (
        mode == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    )
    return click.style(text, fg=color) if on else text


def note(text: str = "") -> None:
    """Narration, on stderr."""
    click.echo(printable_lines(text), err=True)
