"""kvctl facts: what was observed on a node, and the parsers of tool outputs on their own."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from kvctl.types.errors import KvctlError, UsageError


@click.group()
def command() -> None:
    """Show what was observed on a node; parse a tool's output.

    \b
    Examples:
      mlnx_qos -i enp65s0f0np0 | kvctl facts parse mlnx_qos -
      kvctl facts parse nvme.list nvme-list.json
      kvctl facts parse --list
    """


def print_names(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from kvctl.fleet.probe.tools.catalogue import PARSERS

    click.echo("\n".join(sorted(PARSERS)))
    context.exit()


@command.command()
@click.option(
    "--list", is_flag=True, expose_value=False, is_eager=True, callback=print_names, help="Print the parsers' names."
)
@click.argument("name")
@click.argument("file", type=click.File("rb"))
def parse(name: str, file: Any) -> None:
    """Print what the parser NAME makes of FILE (- is standard input) as JSON; null is "the output does not say"."""
    from kvctl.fleet.probe.tools import ToolOutputError
    from kvctl.fleet.probe.tools.catalogue import PARSERS

    if name not in PARSERS:
        raise UsageError(
            "KV-TOOL-001", f"there is no parser {name}", where="NAME", fix="kvctl facts parse --list prints the names"
        )
    where = "standard input" if file.name == "<stdin>" else str(Path(file.name))
    text = file.read().decode("utf-8", "replace")
    try:
        parsed = PARSERS[name](text)
    except ToolOutputError as error:
        raise KvctlError(
            "KV-TOOL-002",
            f"this is not what {name} reads",
            where=where,
            why=str(error),
            fix="give the tool's whole output, as it printed it",
        ) from error
    click.echo(json.dumps(plain(parsed), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Dataclasses, sets and tuples as JSON has them. Sets are sorted, so that two runs compare equal."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
