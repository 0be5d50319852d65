"""kvctl fingerprint: what an engine's KV was computed with, and in what two engines differ."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvctl.cli.options import group_flags, output_option
from kvctl.cli.output import emit, note, table
from kvctl.cli.settings import resolve_settings
from kvctl.types.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kvctl.connector.fingerprint import Difference, Fingerprint

DIFF_COLUMNS = ("field", "left", "right")
CONFIG = "config"
WORD = re.compile(r'"(?!null"|true"|false")[A-Za-z_][A-Za-z0-9_.:/-]*"')
DIFF = "kvctl.fingerprint.diff/1"


@click.command()
@click.argument("file", required=False)
@click.option("--diff", "pair", nargs=2, metavar="A B", help="Name the fields in which two fingerprints differ.")
@output_option()
def command(file: str | None, pair: tuple[str, str] | None, fmt: str | None) -> int:
    """Print the fingerprint in FILE (- is standard input), or compare two.

    Engines share stored KV only when every field is equal. With --diff the exit code is 0 when they are equal and 3
    when they are not.

    \b
    Examples:
      kvctl fingerprint gpu1.json
      kvctl fingerprint gpu1.json -o json | jq -r .digest
      kvctl fingerprint --diff gpu1.json gpu2.json
    """
    if (file is None) == (pair is None):
        raise click.UsageError("give one FILE, or --diff A B")
    form = resolve_settings(fmt=fmt, **group_flags()).output.value
    if pair is not None:
        return print_diff(read(pair[0]), read(pair[1]), form)
    assert file is not None
    print_one(read(file), form)
    return int(ExitCode.OK)


def read(file: str) -> "Fingerprint":
    from kvctl.connector.fingerprint import from_json

    where = "standard input" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            "KV-CONN-023",
            "a fingerprint's file cannot be read",
            where=where,
            why=error.strerror or str(error),
            fix="give a file as kvctl fingerprint -o json prints it",
        ) from error
    return from_json(data, where=where)


def print_one(fingerprint: "Fingerprint", form: str) -> None:
    lines = [("digest", fingerprint.digest().hex()), *((name, plain(value)) for name, value in fingerprint.rows())]
    rows = [{"field": name, "value": value} for name, value in lines]
    if form == "table":
        print_tables(rows, ("value",))
    else:
        emit(fingerprint.as_dict(), rows, ("field", "value"), form)


def print_diff(left: "Fingerprint", right: "Fingerprint", form: str) -> int:
    from kvctl.connector.fingerprint import diff

    found = diff(left, right)
    document = {"schema": DIFF, "equal": not found, "differences": [values(item) for item in found]}
    if form == "table":
        print_tables(sides(found), ("in", "value"))
    else:
        emit(document, [shown(item) for item in found], DIFF_COLUMNS, form)
    if not found:
        note("the fingerprints are equal: the engines share stored KV")
        return int(ExitCode.OK)
    note(f"{len(found)} differ: to each engine, what the other stored is a miss")
    return int(ExitCode.CHECK_FAILED)


def print_tables(rows: list[dict[str, str]], columns: tuple[str, ...]) -> None:
    """The fields, then the config: its long names beside the fields' digests would not fit a terminal."""
    config = [{**row, CONFIG: row["field"].removeprefix(f"{CONFIG}.")} for row in rows if in_config(row)]
    tables = (
        table([row for row in rows if not in_config(row)], ("field", *columns)),
        table(config, (CONFIG, *columns)),
    )
    click.echo("\n\n".join(text for text in tables if text))


def in_config(row: dict[str, str]) -> bool:
    return row["field"].startswith(CONFIG)


def values(item: "Difference") -> dict[str, Any]:
    """A difference for programs; the side whose config has no such entry has no value."""
    texts = {"left": item.left, "right": item.right}
    return {"field": item.name, **{side: json.loads(text) for side, text in texts.items() if text is not None}}


def shown(item: "Difference") -> dict[str, str]:
    return {"field": item.name, "left": plain(item.left), "right": plain(item.right)}


def sides(found: "list[Difference]") -> list[dict[str, str]]:
    """Two lines a field: digests side by side are wider than a terminal."""
    return [
        {"field": item.name, "in": side, "value": plain(text)}
        for item in found
        for side, text in (("A", item.left), ("B", item.right))
    ]


def plain(text: str | None) -> str:
    """A value's JSON for people: words without their quotes."""
    if text is None:
        return "(not there)"
    return text[1:-1] if WORD.fullmatch(text) else text
