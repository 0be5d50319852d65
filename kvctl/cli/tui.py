"""kvctl tui: the console in a terminal."""

import os
import sys
from typing import Any

import click

from kvctl.cli.governance import connect_controller
from kvctl.cli.options import controller_option, inventory_option
from kvctl.types.errors import UsageError

NO_CURSOR = ("", "dumb", "unknown")  # terminals that cannot be drawn on


@click.command("tui")
@inventory_option
@controller_option
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw in ASCII. [default: where the locale is not UTF-8]")
def command(ascii_only: bool, **flags: Any) -> None:
    """The console in a terminal: fleet, tenants and tiers, runs, audit.

    \b
    Examples:
      kvctl tui
      kvctl tui --ascii
      kvctl tui --controller https://kvctl.example:8443 --as ann

    ? shows the keys. It starts read-only, and works in 80 columns and 24 lines.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("KV-TUI-002", "this is no terminal", fix="kvctl status -o json is for programs")
    if (term := os.environ.get("TERM", "")) in NO_CURSOR:
        raise UsageError(
            "KV-TUI-004", f"TERM={term} cannot be drawn on", why="such a terminal has no cursor to place",
            fix="set TERM to what the terminal is, like xterm; kvctl status needs none",
        )  # fmt: skip
    client, _ = connect_controller(**flags)
    from kvctl.client.controller import local_principal
    from kvctl.tui import local, terminal
    from kvctl.tui.app import Console

    account = flags["account"]
    console = Console(
        client, ascii_only=ascii_only or terminal.ascii_only(os.environ), account=account,
        who=account or local_principal().name,
        local={"run.resume": local.Resume(("-i", flags["inventory"]) if flags["inventory"] else ())},
    )  # fmt: skip
    console.run()
    console.finish()
