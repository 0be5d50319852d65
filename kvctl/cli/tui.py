"""kvctl tui: the console in a terminal."""

import os
import sys
from typing import Any

import click

from kvctl.cli.governance import connect_controller
from kvctl.cli.options import controller_option, inventory_option
from kvctl.types.errors import UsageError


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
    client, _ = connect_controller(**flags)
    from kvctl.tui import terminal
    from kvctl.tui.app import Console

    console = Console(client, ascii_only=ascii_only or terminal.ascii_only(os.environ))
    console.run()
    console.finish()
