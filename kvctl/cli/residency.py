"""kvctl residency: where chunks are, were, and would be outside."""

from typing import Any, TextIO

import click

from kvctl.cli.governance import connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import note
from kvctl.cli.policy import print_changes
from kvctl.types.errors import ExitCode
from kvctl.types.requests import PolicyText, ResidencyHistory, TenantScope

COPIES = ("tenant", "store", "tier", "site", "country", "entity_country", "controlled_by", "chunks", "verdict", "rule")
SHORT = ("tenant", "store", "tier", "country", "owners", "chunks", "verdict", "rule")
COUNTS = ("tenant", "country", "tier", "chunks", "bytes")


@click.group("residency")
def command() -> None:
    """Which countries chunks are in, were in, and may be in.

    \b
    Examples:
      kvctl residency now
      kvctl residency history acme --at 2026-03-01T12:00:00Z
      kvctl residency whatif policy.yaml
    """


@command.command("now")
@click.option("--tenant", help="Only this tenant.")
@click.option("--outside", "only", is_flag=True, help="Only what is outside its policy.")
@inventory_option
@output_option()
def now(tenant: str | None, only: bool, inventory: str | None, fmt: str | None) -> int:
    """Every copy by place, with the rule that allows it. Exit code 3 when one is outside."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("residency.now", TenantScope(tenant))
    return _tell(document, document["outside" if only else "copies"], form)


@command.command("history")
@click.argument("tenant")
@click.option("--at", required=True, metavar="TIME", help="RFC 3339, for example 2026-03-01T12:00:00Z.")
@inventory_option
@output_option()
def history(tenant: str, at: str, inventory: str | None, fmt: str | None) -> int:
    """Where a tenant's copies were, and what the policy of that time says. Exit code 3 when one was outside."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("residency.history", ResidencyHistory(tenant, at))
    policy = document["policy"]
    note(f"policy then in force: {'none' if policy is None else 'version ' + str(policy['version'])}")
    return _tell(document, document["copies"], form)


def _tell(document: dict[str, Any], rows: list[dict[str, Any]], form: str) -> int:
    if form == "table":  # whoever runs the site, and whoever controls them
        rows = [row | {"owners": f"{row['entity_country'] or '?'} {row['controlled_by'] or '?'}"} for row in rows]
    show(document, rows, SHORT if form == "table" else COPIES, form, "no copies")
    since = document["known_since"]
    note("the catalogue is empty" if since is None else f"the catalogue knows of copies since {since}")
    outside = document["totals"]["outside"]
    if outside["chunks"]:
        note(f"{outside['chunks']} copies, {outside['bytes']} bytes are outside")
    return int(ExitCode.CHECK_FAILED if outside["chunks"] else ExitCode.OK)


@command.command("whatif")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@inventory_option
@output_option()
def whatif(file: TextIO, inventory: str | None, fmt: str | None) -> int:
    """What would be outside under a policy file. Changes nothing. Exit code 3 when something would."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("residency.whatif", PolicyText(file.read()))
    if form == "table":
        print_changes(document["changes"])
    show(document, document["by_country"], COUNTS, form, "nothing would be outside")
    now, then = (document["totals"][name]["chunks"] for name in ("outside_now", "outside_then"))
    note(f"outside: {now} copies now, {then} under this policy")
    return int(ExitCode.CHECK_FAILED if then else ExitCode.OK)
