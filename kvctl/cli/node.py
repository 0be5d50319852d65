"""kvctl node: who is in the fleet, and how kvctl gets in."""

import sys
from pathlib import Path
from typing import Any

import click

from kvctl.cli.options import (
    choose,
    complete_nodes,
    connect,
    controller_option,
    inventory_option,
    output_option,
)
from kvctl.cli.output import emit, note, table
from kvctl.types.errors import ExitCode, UsageError

NODES = click.argument("patterns", nargs=-1, required=True, shell_complete=complete_nodes)


@click.group("node")
def command() -> None:
    """Trust a node's host key; give kvctl access to it.

    \b
    Examples:
      kvctl node ls
      kvctl node trust '*'
      kvctl node bootstrap store1 --key ~/.ssh/id_ed25519.pub --login admin --ask-password
    """


@command.command("ls")
@inventory_option
@output_option()
def list_nodes(inventory: str | None, fmt: str | None) -> None:
    """The nodes of the inventory."""
    client, form = connect(inventory=inventory, fmt=fmt)
    rows = client.node_rows()
    columns = ("node", "role", "pool", "address", "user")
    if form == "table":
        click.echo(table(rows, columns))
    else:
        emit({"schema": "kvctl.nodes/1", "nodes": rows}, rows, columns, form)


@command.command("trust")
@NODES
@inventory_option
@controller_option
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    envvar="KVCTL_YES",
    show_envvar=True,
    help="Do not ask; compare the fingerprints yourself.",
)
@click.option("--dry-run", "--check", "dry_run", is_flag=True, help="Show the fingerprints; enrol nothing.")
def trust(patterns: tuple[str, ...], yes: bool, dry_run: bool, **flags: Any) -> int:
    """Show the nodes' host key fingerprints, ask, and enrol them.

    A key that changed is never overwritten: remove the old line yourself when you know why it changed.
    """
    client, _ = connect(**flags)
    failed = 0
    chosen = choose(client.nodes(), patterns, ())
    for shown in client.host_keys(chosen):
        if shown.error is not None:
            note(f"{shown.node}: {shown.error.code} {shown.error.why or shown.error.what}. {shown.error.fix}")
            failed += 1
            continue
        for kind, fingerprint, known in shown.keys:
            click.echo(f"{shown.node}  {kind}  {fingerprint}  {'known' if known else 'new'}")
        if dry_run or not shown.new:
            continue
        if not yes and not sys.stdin.isatty():
            raise UsageError("KV-CLI-004", "nobody is there to confirm", fix="add --yes, or run on a terminal")
        if yes or click.confirm(f"trust {shown.node}?", err=True):
            note(f"{shown.node}: {client.trust(shown)} keys enrolled")
    if failed == len(chosen):
        return int(ExitCode.UNREACHABLE)
    return int(ExitCode.PARTIAL if failed else ExitCode.OK)


@command.command("bootstrap")
@click.argument("node", shell_complete=complete_nodes)
@click.option(
    "--key", "key_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True, help="Public key."
)
@click.option("--login", default="", metavar="USER", help="User to log in as today. [default: the inventory's]")
@click.option("--ask-password", is_flag=True, help="Ask for that user's password; it is never stored.")
@click.option("--dry-run", "--check", "dry_run", is_flag=True, help="Say what would be installed; log in nowhere.")
@inventory_option
@controller_option
def bootstrap(node: str, key_file: Path, login: str, ask_password: bool, dry_run: bool, **flags: Any) -> None:
    """Install a public key and, for users other than root, a sudo rule without a password.

    The rule is validated by visudo on the node before it takes effect. The host key must be trusted first.
    """
    client, _ = connect(**flags)
    root = client.is_root(node)
    if dry_run:
        note(f"{node}: would add the key {key_file}" + ("" if root else " and a sudo rule, where they are missing"))
        return
    password = click.prompt("password", hide_input=True, err=True) if ask_password else None
    done: Any = client.bootstrap(node, key_file.read_text(), login, password)
    key, sudo = ("added" if new else "there already" for new in (done.key_added, done.sudo_added))
    note(f"{node}: key {key}" + ("" if root else f", sudo rule {sudo}"))
