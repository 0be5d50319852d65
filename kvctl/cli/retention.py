"""kvctl retention: what must go, what the rest is kept by, and having it gone."""

from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import note, table
from kvctl.cli.told import dry_run_option, yes_option
from kvctl.types.errors import ExitCode
from kvctl.types.requests import RetentionApply, RetentionExplain, RetentionPlan

TOTALS = ("tenant", "class", "tier", "rule", "copies", "bytes", "goes", "late_p99_s", "hold")
ITEMS = ("tenant", "store", "tier", "key", "rule", "due")
STORES = ("store", "asked", "removed", "held", "absent", "error")
COPIES = ("store", "tier", "key", "state", "rule", "until", "text")


@click.group("retention")
def command() -> None:
    """What policies say must go, and what each rest is kept by.

    \b
    Examples:
      kvctl retention plan
      kvctl retention plan --tenant acme --items 20
      kvctl retention apply --dry-run
      kvctl retention explain acme 6f1d2c
    """


@command.command("plan")
@click.option("--tenant", help="Only this tenant.")
@click.option("--items", type=click.IntRange(0), default=0, show_default=True, help="Copies that must go to list.")
@inventory_option
@output_option()
def plan(tenant: str | None, items: int, inventory: str | None, fmt: str | None) -> int:
    """Copies and bytes by the rule that decides. Exit code 5 while a store was not read."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("retention.plan", RetentionPlan(tenant, items))
    rows = [row | {"goes": "GOES" if row["go"] else "kept"} for row in document["totals"]]
    show(document, rows, TOTALS, form, "the catalogue is empty")
    if form == "table":
        if document["items"]:
            click.echo(table([row | {"key": row["key"][:16]} for row in document["items"]], ITEMS))
        going, kept = document["going"], document["kept"]
        note(f"goes: {going['copies']} copies, {going['bytes']} bytes; kept: {kept['copies']}, {kept['bytes']} bytes")
        if document["lag"]["oldest_due"]:
            note(f"the oldest of them was due at {document['lag']['oldest_due']} and is still there")
    return _unread(document)


def _unread(document: dict[str, Any]) -> int:
    for one in document["not_known"]:
        note(f"store {one['store']}: {one['state']} {one['why']}: what it has now is not known")
    return int(ExitCode.PARTIAL if document["not_known"] else ExitCode.OK)


@command.command("apply")
@click.option("--tenant", help="Only this tenant.")
@yes_option
@dry_run_option
@inventory_option
@output_option()
def apply(tenant: str | None, yes: bool, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Have the stores remove what must go. Exit code 5 when a store did not do all of it."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    would = client.call("retention.apply", RetentionApply(tenant, dry_run=True))
    if dry_run:
        rows = [row | {"goes": "GOES"} for row in would["would"]]
        show(would, rows, TOTALS, form, "no changes")
        return int(ExitCode.OK)
    copies, size = would["going"]["copies"], would["going"]["bytes"]
    if copies:
        tenants = ", ".join(sorted({row["tenant"] for row in would["would"]}))
        confirmed(f"Remove {copies} copies, {size} bytes, of {tenants}?", yes=yes)
    document = client.call("retention.apply", RetentionApply(tenant))
    show(document, document["stores"], STORES, form, "nothing had to go")
    return int(ExitCode.PARTIAL if any(one["error"] for one in document["stores"]) else ExitCode.OK)


@command.command("explain")
@click.argument("tenant")
@click.argument("key")
@inventory_option
@output_option()
def explain(tenant: str, key: str, inventory: str | None, fmt: str | None) -> None:
    """Which rule keeps each copy of a chunk, and until when. KEY: its first digits."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("retention.explain", RetentionExplain(tenant, key))
    rows = document["copies"] if form != "table" else [row | {"key": row["key"][:16]} for row in document["copies"]]
    show(document, rows, COPIES, form, "")
    if form == "table":
        for row in document["copies"]:
            for said in row["rules"]:
                note(f"{row['store']}/{row['tier']} {row['key'][:16]}  {said['rule']}: {said['says']}")
