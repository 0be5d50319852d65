"""Options that many verbs share, and how they become a client."""

import fnmatch
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kvctl.cli.output import FORMATS
from kvctl.types.errors import KvctlError, UsageError

if TYPE_CHECKING:
    from kvctl.cli.settings import Settings
    from kvctl.client.controller import ControllerClient
    from kvctl.client.direct import Direct

F = TypeVar("F", bound=Callable[..., Any])


def inventory_option(function: F) -> F:
    return click.option("-i", "--inventory", metavar="FILE", help="Inventory file. [default: see kvctl config show]")(
        function
    )


def controller_option(function: F) -> F:
    for option in (
        click.option(
            "-c", "--controller", metavar="ENDPOINT",
            help="unix:/PATH, https://HOST:PORT, or direct. [default: a kvctld that runs here, or this process]",
        ),
        click.option("--as", "account", metavar="NAME", help="Be this local account; asks for its password."),
    ):  # fmt: skip
        function = option(function)
    return function


def output_option(*formats: str) -> Callable[[F], F]:
    return click.option(
        "-o",
        "--output",
        "fmt",
        type=click.Choice(formats or FORMATS),
        default=None,
        help="Format of the data on stdout.",
    )


def complete_nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from kvctl.cli.completion import node_names

    return list(node_names(ctx, param, incomplete))


def selection_options(function: F) -> F:
    for option in (
        click.option(
            "-l",
            "--limit",
            "-N",
            "--node",
            "limit",
            multiple=True,
            metavar="PATTERN",
            shell_complete=complete_nodes,
            help="Node names or globs, comma separated, or @FILE.",
        ),
        click.option("-R", "--role", "roles", multiple=True, metavar="ROLE", help="Only nodes of this role."),
    ):
        function = option(function)
    return function


def pace_options(function: F) -> F:
    for option in (
        click.option("--concurrency", type=click.IntRange(1, 512), default=None, help="Nodes at once. [default: 32]"),
        click.option(
            "--timeout", type=click.FloatRange(1), default=None, help="Seconds for one node's facts. [default: 60]"
        ),
        click.option(
            "--ssh", "transport", type=click.Choice(["paramiko", "system"]), default=None, help="SSH implementation."
        ),
    ):
        function = option(function)
    return function


def confirm_options(function: F) -> F:
    for option in (
        click.option("-y", "--yes", is_flag=True, envvar="KVCTL_YES", show_envvar=True, help="Do not ask."),
        click.option("--dry-run", "--check", "dry_run", is_flag=True, help="Show what would be done; change nothing."),
        click.option("--diff", is_flag=True, help="Show each value before and after."),
    ):
        function = option(function)
    return function


def expand(limit: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns from `a,b`, `@file` (one a line, # comments) and globs, still as patterns."""
    patterns: list[str] = []
    for item in limit:
        if item.startswith("@"):
            try:
                lines = Path(item[1:]).read_text().splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(
                    "KV-CLI-001",
                    f"--limit {item} cannot be read",
                    why=str(error),
                    fix="@FILE names a file with one node a line",
                ) from error
            patterns += [line.split("#")[0].strip() for line in lines]
        else:
            patterns += [part.strip() for part in item.split(",")]
    return tuple(p for p in patterns if p)


def choose(names: dict[str, str], limit: tuple[str, ...], roles: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the nodes (name -> role) that the selection means. An empty outcome is an error, not "all"."""
    patterns = expand(limit)
    if limit and not patterns:
        raise UsageError("KV-CLI-002", "--limit names no node", fix=f"nodes are {', '.join(sorted(names))}")
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise UsageError("KV-CLI-002", f"no node matches {pattern!r}", fix=f"nodes are {', '.join(sorted(names))}")
    unknown = set(roles) - set(names.values())
    if unknown:
        raise UsageError(
            "KV-CLI-003",
            f"no node has the role {', '.join(sorted(unknown))}",
            fix=f"roles are {', '.join(sorted(set(names.values())))}",
        )
    chosen = tuple(
        name
        for name, role in names.items()
        if (not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)) and (not roles or role in roles)
    )
    if not chosen:
        fix = "leave one of them out, or read: kvctl node ls"
        raise UsageError("KV-CLI-002", "no node matches --limit and --role together", fix=fix)
    return chosen


def group_flags() -> dict[str, Any]:
    """Settings that are options of `kvctl` itself, as they were given there; None when they were not."""
    context = click.get_current_context(silent=True)
    return {"color": context.find_root().params.get("color") if context else None}


def unrecorded(kind: str, error: KvctlError) -> None:
    from kvctl.cli.output import note

    note(f"not on record: {kind}: {error.code} {error.what}{f': {error.why}' if error.why else ''}")


def recorder(settings: "Settings", account: str | None) -> "Callable[[], ControllerClient] | None":
    """How to reach the controller in whose log the verb goes; None: the one that is on this state."""
    if settings.controller.value is None and account is None:
        return None
    from kvctl.cli.signin import signed_in
    from kvctl.client.choose import controller

    find = partial(
        controller, settings.inventory.value, settings.state_dir.value, endpoint=settings.controller.value,
        ca=settings.controller_ca.value,
    )  # fmt: skip
    if account is None:
        return find
    person = signed_in(find(), account)
    return lambda: person


def connect(account: str | None = None, **flags: Any) -> "tuple[Direct, str]":
    """The client for what these flags, the environment and the files say, and the output format they ask for."""
    from kvctl.cli.settings import inventory_path, resolve_settings
    from kvctl.client.direct import Direct

    settings = resolve_settings(**flags, **group_flags())
    os.environ["KVCTL_COLOR"] = settings.color.value
    ssh = settings.ssh.value
    client = Direct(
        inventory_path(settings),
        settings.state_dir.value,
        settings.concurrency.value,
        settings.timeout.value,
        "" if ssh == "auto" else ssh,
        recorder(settings, account),
        unrecorded,
    )
    return client, settings.output.value
