"""kvctl deploy: daemons onto nodes that are provisioned."""

from pathlib import Path
from typing import Any

import click

from kvctl.cli.follow import Follower
from kvctl.cli.governance import confirmed
from kvctl.cli.options import (
    choose,
    confirm_options,
    connect,
    inventory_option,
    output_option,
    pace_options,
    selection_options,
)
from kvctl.cli.output import emit, note, table
from kvctl.types.errors import ExitCode

COLUMNS = ("node", "address", "mounts", "capacity", "bundle")


@click.group("deploy")
def command() -> None:
    """Daemons onto nodes that are provisioned.

    \b
    Examples:
      kvctl deploy storage               kvstored on every storage node
      kvctl deploy storage -l storage1 --dry-run
    """


@command.command("storage")
@inventory_option
@selection_options
@pace_options
@click.option(
    "--wheels",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Take packages from here, not from an index.",
)
@confirm_options
@output_option("table", "json")
def storage(
    inventory: str | None,
    limit: tuple[str, ...],
    roles: tuple[str, ...],
    wheels: Path | None,
    yes: bool,
    dry_run: bool,
    diff: bool,
    fmt: str | None,
    **pace: Any,
) -> int:
    """Install kvstored, have each node make its keys, start it, write a sealed chunk and read it back.

    Nodes need python3 and their drives mounted (kvctl provision does that): packages travel in one archive, pinned by
    hash. Repeating it changes only what differs.

    Exits 0 when every store answered with its chunk, 5 when some nodes could not be deployed to.
    """
    client, form = connect(inventory=inventory, fmt=fmt, **pace)
    storage_nodes = {name: role for name, role in client.nodes().items() if client.kind(name) == "storage"}
    nodes = choose(storage_nodes, limit, roles)
    wanted, problems = client.deployment(nodes, wheels)
    rows = [row(one) for one in wanted]
    for node, why in problems.items():
        note(f"not deployed to: {node}: {why}")
    if form == "table":
        click.echo(table(rows, COLUMNS), err=not dry_run)
    if not wanted:
        return int(ExitCode.UNREACHABLE)
    if dry_run:
        if form != "table":
            emit({"schema": "kvctl.deploy.storage/1", "would": rows, "problems": problems}, rows, COLUMNS, form)
        return int(ExitCode.PARTIAL if problems else ExitCode.OK)
    confirmed(f"deploy kvstored to {len(wanted)} nodes: {', '.join(r['node'] for r in rows)}?", yes=yes)
    with Follower() as follow:
        done = client.deploy(wanted, on_event=follow, say=note)
    if form == "json":
        emit({"schema": "kvctl.deploy.storage/1", **done, "problems": problems}, done["stores"], COLUMNS, form)
    if len(done["stores"]) < len(wanted):
        return int(done["runs"][-1]["exit_code"]) or int(ExitCode.FAILED)
    return int(ExitCode.PARTIAL if problems else ExitCode.OK)


def row(one: Any) -> dict[str, Any]:
    return {
        "node": one.node.name,
        "address": one.address,
        "mounts": len(one.mounts),
        "capacity": f"{sum(m.capacity for m in one.mounts) / (1 << 30):.1f} GiB",
        "bundle": one.bundle.name,
    }
