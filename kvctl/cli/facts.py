"""kvctl facts: what was observed on a node, and the parsers of tool outputs on their own."""

import json
from collections.abc import Iterator
from typing import Any

import click

from kvctl.cli.options import complete_nodes, connect, inventory_option, output_option
from kvctl.cli.output import emit
from kvctl.types.codec import to_builtins
from kvctl.types.errors import KvctlError, UsageError
from kvctl.types.facts import NOT_LOOKED_FOR


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
    path = getattr(file, "name", "<stdin>")
    where = "standard input" if path == "<stdin>" else str(path)
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
    click.echo(json.dumps(to_builtins(parsed), indent=2))


@command.command()
@click.argument("node", shell_complete=complete_nodes)
@inventory_option
@output_option("table", "json", "yaml")
def show(node: str, inventory: str | None, fmt: str | None) -> None:
    """What NODE last said: each value with where it was read, or why it is unknown.

    \b
    Examples:
      kvctl facts show storage1
      kvctl facts show storage1 -o json | jq '.nics[0].qos.pfc'
    """
    client, form = connect(inventory=inventory, fmt=fmt)
    print_facts(client.facts(node), form)


@command.command()
@output_option("table", "json", "yaml")
def local(fmt: str | None) -> None:
    """Read this machine, without SSH and without changing anything."""
    from kvctl.client.local import local_facts

    print_facts(to_builtins(local_facts()), fmt or "table")


def print_facts(facts: dict[str, Any], form: str) -> None:
    rows = list(fact_rows(facts))
    emit({"schema": "kvctl.facts/1", **facts}, rows, ("fact", "value", "source"), form)


def fact_rows(value: Any, path: str = "") -> Iterator[dict[str, str]]:
    """One row a fact. What the probe never looks for on this kind of device is left out of the table."""
    if isinstance(value, dict) and value.keys() == {"value", "source", "unknown", "simulated"}:
        if value["unknown"] == NOT_LOOKED_FOR:
            return
        text = f"unknown, because {value['unknown']}" if value["unknown"] else json.dumps(value["value"])
        source = value["source"] + (" (simulated)" if value["simulated"] else "")
        yield {"fact": path, "value": shorten(text), "source": source}
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from fact_rows(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            if not isinstance(item, dict):
                continue
            name = next((item[k] for k in ("netdev", "controller", "name", "uuid") if isinstance(item.get(k), str)), i)
            yield from fact_rows(item, f"{path}.{name}")


def shorten(text: str, size: int = 44) -> str:
    return text if len(text) <= size else text[: size - 3] + "..."
