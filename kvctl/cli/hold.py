"""kvctl hold: what must stay, whatever else says."""

from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import note
from kvctl.cli.told import dry_run_option, yes_option
from kvctl.cli.user import user_id, user_options
from kvctl.types.errors import ExitCode
from kvctl.types.requests import HoldLift, HoldSet, TenantScope

STORES = ("store", "in_force", "why")
HOLDS = ("id", "tenant", "state", "domain", "subject", "model", "from_at", "until_at", "at_stores", "reason")


@click.group("hold")
def command() -> None:
    """Legal holds: they win over erasure and retention.

    \b
    Examples:
      kvctl hold set acme --reason "case 7" --user-file -
      kvctl hold ls
      kvctl hold lift acme h-20260301-0a1b2c3d --reason "case closed"
    """


@command.command("set")
@click.argument("tenant")
@click.option("--reason", required=True, help="What it is for; goes on record.")
@click.option("--domain", help="Only this trust domain.")
@click.option("--model", help="Only this model: the first 32 digits of its fingerprint.")
@click.option("--until", metavar="TIME", help="RFC 3339; it ends by itself then. [default: until it is lifted]")
@user_options
@dry_run_option
@inventory_option
@output_option()
def set_hold(
    user: str | None, user_file: Any, inventory: str | None, fmt: str | None, **asked: Any
) -> int:  # fmt: skip
    """Keep everything that matches, at once. Exit code 5 when a store was not told yet."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("hold.set", HoldSet(user=user_id(user, user_file), **asked))
    if "would" in document:
        would = document["would"]
        show(document, [], STORES, form, f"would keep {would['hold']['copies']} copies, {would['hold']['bytes']} bytes")
        return int(ExitCode.OK)
    rows = [{**one, "in_force": "yes" if one["ok"] else "NOT YET"} for one in document["stores"]]
    show(document, rows, STORES, form, "no stores are configured: it is in force at none")
    if form == "table":
        note(f"hold {document['hold']}")
    return int(ExitCode.OK if all(one["ok"] for one in document["stores"]) else ExitCode.PARTIAL)


@command.command("lift")
@click.argument("tenant")
@click.argument("hold")
@click.option("--reason", required=True, help="Goes on record.")
@yes_option
@dry_run_option
@inventory_option
@output_option()
def lift(
    tenant: str, hold: str, reason: str, yes: bool, dry_run: bool, inventory: str | None, fmt: str | None
) -> None:  # fmt: skip
    """Ask for a hold to be lifted: two others must agree."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    would = client.call("hold.lift", HoldLift(tenant, hold, reason, dry_run=True))
    impact = would["impact"]
    what = f"{impact['copies']} copies, {impact['bytes']} bytes, {impact['erasures']} erasures that wait"
    if dry_run:
        show(would, [], (), form, f"would {would['would']}; it keeps {what}")
        return
    confirmed(f"Ask to lift {hold}? It keeps {what}.", yes=yes)
    document = client.call("hold.lift", HoldLift(tenant, hold, reason))
    show(document, [], (), form, f"approval {document['approval']} is pending, until {document['expires']}")
    for line in document["warnings"]:
        note(line)


@command.command("ls")
@click.option("--tenant", help="Only this tenant.")
@inventory_option
@output_option()
def list_holds(tenant: str | None, inventory: str | None, fmt: str | None) -> None:
    """Every hold there was, and at how many stores those in force are."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("hold.ls", TenantScope(tenant))
    rows = [
        row | {"at_stores": f"{sum(s['in_force'] for s in row['stores'])} of {len(row['stores'])}"}
        for row in document["holds"]
    ]
    show(document, rows, HOLDS, form, "no holds")
