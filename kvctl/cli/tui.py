"""kvctl tui: the console in a terminal."""

from typing import Any

import click

from kvctl.cli.governance import connect_controller
from kvctl.cli.options import controller_option, inventory_option


@click.command("tui")
@inventory_option
@controller_option
def command(**flags: Any) -> None:
    """The console in a terminal: findings, stores, tenants, tiers, moves, approvals, runs, audit.

    \b
    Examples:
      kvctl tui
      kvctl tui --controller https://kvctl.example:8443 --as ann

    ? shows the keys. It starts read-only; works in 80 columns and over SSH.
    """
    client, _ = connect_controller(**flags)
    from kvctl.tui.app import Console

    Console(client).run()
