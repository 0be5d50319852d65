"""kvctl deploy: daemons onto nodes that are provisioned."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kvctl.cli.follow import Follower
from kvctl.cli.governance import confirmed
from kvctl.cli.options import (
    choose,
    confirm_options,
    connect,
    controller_option,
    inventory_option,
    output_option,
    pace_options,
    selection_options,
)
from kvctl.cli.output import emit, note, table
from kvctl.types.errors import ExitCode, UsageError

T = TypeVar("T")
ADDRESS = re.compile(r"https://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
KEY = re.compile(r"kv-[A-Za-z0-9_-]+")

COLUMNS = ("node", "address", "mounts", "capacity", "bundle")
ENGINE_COLUMNS = ("node", "engine", "vllm", "model", "packages")
GATEWAY_COLUMNS = ("node", "address", "model", "slots", "bundle")


@click.group("deploy")
def command() -> None:
    """Daemons onto nodes that are provisioned.

    \b
    Examples:
      kvctl deploy storage               kvstored on every storage node
      kvctl deploy storage -l storage1 --dry-run
      kvctl deploy serving -f serving.yaml --kvctld https://10.0.0.1:8443
      kvctl deploy gateway -f serving.yaml --kvctld https://10.0.0.1:8443 --key-file KEY
      kvctl deploy serving --revert      engines stopped and forgotten
    """


@command.command("storage")
@inventory_option
@selection_options
@pace_options
@controller_option
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
    return deployed(
        "storage", [row(one) for one in wanted], problems, COLUMNS, form, yes=yes, dry_run=dry_run,
        deploy=lambda follow: client.deploy(wanted, on_event=follow, say=note), answers="stores",
    )  # fmt: skip


def row(one: Any) -> dict[str, Any]:
    return {
        "node": one.node.name,
        "address": one.address,
        "mounts": len(one.mounts),
        "capacity": f"{sum(m.capacity for m in one.mounts) / (1 << 30):.1f} GiB",
        "bundle": one.bundle.name,
    }


def description_options(function: Any) -> Any:
    for option in (
        click.option(
            "-f", "--description", type=click.Path(path_type=Path, dir_okay=False, exists=True),
            help="What the engines run: docs/serving.md.",
        ),
        click.option(
            "--kvctld", metavar="URL", envvar="KVCTL_KVCTLD", show_envvar=True,
            help="https://HOST:PORT at which nodes reach the controller.",
        ),
        click.option("--revert", is_flag=True, help="Take it off these nodes again."),
    ):  # fmt: skip
        function = option(function)
    return function


@command.command("serving")
@inventory_option
@selection_options
@pace_options
@controller_option
@description_options
@click.option("--engine", metavar="DIR|ARCHIVE", help="Instead of the description's: on the nodes, or a file here.")
@confirm_options
@output_option("table", "json")
def serving(
    inventory: str | None,
    limit: tuple[str, ...],
    roles: tuple[str, ...],
    description: Path | None,
    kvctld: str | None,
    engine: str | None,
    revert: bool,
    yes: bool,
    dry_run: bool,
    diff: bool,
    fmt: str | None,
    **pace: Any,
) -> int:
    """Install vLLM with kvctl's tier on GPU nodes, give it leases, and see a context come back from the stores.

    --engine is a directory on the nodes, of their image say, or an archive on this machine that is sent once; in it
    is bin/python with vLLM. Its model must be pinned: kvctl model pin. Nodes make their keys themselves.

    Exits 0 when every engine gave the tokens of a forgotten context from the stores, 5 when some nodes could not be
    deployed to.
    """
    client, form = connect(inventory=inventory, fmt=fmt, **pace)
    nodes = gpu_nodes(client, limit, roles)
    if revert:
        return take_back(client, "serving", nodes, form, yes=yes, dry_run=dry_run)
    path = needed(description, "--description")
    endpoint = address_for_nodes(needed(kvctld, "--kvctld")) if not dry_run else ""
    wanted, problems = client.serving(nodes, path, engine)
    return deployed(
        "serving", [one.row() for one in wanted], problems, ENGINE_COLUMNS, form, yes=yes, dry_run=dry_run,
        deploy=lambda follow: client.deploy_serving(wanted, endpoint, follow, note), answers="engines",
    )  # fmt: skip


@command.command("gateway")
@inventory_option
@selection_options
@pace_options
@controller_option
@description_options
@click.option("--key-file", type=click.File("r"), help="A tenant's API key to judge with; - for stdin.")
@click.option(
    "--wheels",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Take packages from here, not from an index.",
)
@confirm_options
@output_option("table", "json")
def gateway(
    inventory: str | None,
    limit: tuple[str, ...],
    roles: tuple[str, ...],
    description: Path | None,
    kvctld: str | None,
    revert: bool,
    key_file: Any,
    wheels: Path | None,
    yes: bool,
    dry_run: bool,
    diff: bool,
    fmt: str | None,
    **pace: Any,
) -> int:
    """Install kvgated in front of each GPU node's engine, have it follow the controller, and see a token come through.

    Deploy the engines first. Clients reach it at https://NODE:8443, with a certificate of the site's own CA.

    Exits 0 when every gateway gave tokens for the API key, 5 when some nodes could not be deployed to.
    """
    client, form = connect(inventory=inventory, fmt=fmt, **pace)
    nodes = gpu_nodes(client, limit, roles)
    if revert:
        return take_back(client, "gateway", nodes, form, yes=yes, dry_run=dry_run)
    path = needed(description, "--description")
    endpoint = address_for_nodes(needed(kvctld, "--kvctld")) if not dry_run else ""
    key = api_key(needed(key_file, "--key-file").read()) if not dry_run else ""
    wanted, problems = client.gateways(nodes, path, wheels)
    return deployed(
        "gateway", [one.row() for one in wanted], problems, GATEWAY_COLUMNS, form, yes=yes, dry_run=dry_run,
        deploy=lambda follow: client.deploy_gateway(wanted, endpoint, key, follow, note), answers="gateways",
    )  # fmt: skip


def gpu_nodes(client: Any, limit: tuple[str, ...], roles: tuple[str, ...]) -> tuple[str, ...]:
    return choose({name: role for name, role in client.nodes().items() if client.kind(name) == "gpu"}, limit, roles)


def needed(value: T | None, option: str) -> T:
    if value is None:
        raise UsageError("KV-DEP-021", f"{option} is needed", fix="see kvctl deploy --help and docs/serving.md")
    return value


def address_for_nodes(text: str) -> str:
    """It stands in units: UsageError KV-DEP-022 for what they, or services that ask there, would not understand."""
    found = ADDRESS.fullmatch(text)
    if not found or int(found["port"] or 443) not in range(1, 1 << 16):
        raise UsageError("KV-DEP-022", f"nodes cannot ask a controller at {text!r}", fix="--kvctld https://HOST:PORT")
    return text


def api_key(text: str) -> str:
    """The key in a file's text. UsageError KV-DEP-023, which does not show it, before anything is deployed."""
    key = text.strip()
    if not KEY.fullmatch(key):
        raise UsageError(
            "KV-DEP-023", "--key-file holds no API key", why="a key is one line, and begins with kv-",
            fix="kvctl key create TENANT >FILE",
        )  # fmt: skip
    return key


def deployed(
    what: str, rows: list[dict[str, Any]], problems: dict[str, str], columns: tuple[str, ...], form: str, *, yes: bool,
    dry_run: bool, deploy: Callable[[Follower], dict[str, Any]], answers: str,
) -> int:  # fmt: skip
    """Show what would be done, ask, do it and show what came of it."""
    for node, why in problems.items():
        note(f"not deployed to: {node}: {why}")
    if form == "table":
        click.echo(table(rows, columns), err=not dry_run)
    if not rows:
        return int(ExitCode.UNREACHABLE)
    schema = f"kvctl.deploy.{what}/1"
    if dry_run:
        if form != "table":
            emit({"schema": schema, "would": rows, "problems": problems}, rows, columns, form)
        return int(ExitCode.PARTIAL if problems else ExitCode.OK)
    confirmed(f"deploy {what} to {len(rows)} nodes: {', '.join(row['node'] for row in rows)}?", yes=yes)
    with Follower() as follow:
        done = deploy(follow)
    if form == "json":
        emit({"schema": schema, **done, "problems": problems}, done[answers], columns, form)
    if len(done[answers]) < len(rows):
        return int(done["runs"][-1]["exit_code"]) or int(ExitCode.FAILED)
    return int(ExitCode.PARTIAL if problems else ExitCode.OK)


def take_back(client: Any, what: str, nodes: tuple[str, ...], form: str, *, yes: bool, dry_run: bool) -> int:
    schema, rows = f"kvctl.deploy.{what}/1", [{"node": node} for node in nodes]
    client.may_revert(what, nodes)
    if dry_run:
        emit({"schema": schema, "would": {"revert": list(nodes)}}, rows, ("node",), form)
        return int(ExitCode.OK)
    confirmed(f"take {what} off {len(nodes)} nodes: {', '.join(nodes)}?", yes=yes)
    with Follower() as follow:
        done = client.revert(what, nodes, follow)
    for node, why in done["problems"].items():
        note(f"forgotten, but not stopped: {node}: {why}")
    if form == "json":
        emit({"schema": schema, **done}, rows, ("node",), form)
    code = next((int(run["exit_code"]) for run in done["runs"] if run["exit_code"]), 0)
    return code or int(ExitCode.PARTIAL if done["problems"] else ExitCode.OK)
