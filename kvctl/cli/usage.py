"""kvctl usage: bytes, requests and tokens by tenant."""

import click

from kvctl.cli.governance import connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import note, table
from kvctl.types.errors import ExitCode
from kvctl.types.requests import UsageShow

STORED = ("tenant", "store", "tier", "copies", "bytes")
REQUESTS = (
    "tenant", "model", "requests", "prompt_tokens", "cached_tokens", "output_tokens", "share_without_user", "unmetered",
)  # fmt: skip


@click.command("usage")
@click.option("--tenant", help="Only this tenant.")
@click.option("--since", metavar="TIME", help="RFC 3339; requests of the hours from then on.")
@click.option("--until", metavar="TIME", help="RFC 3339; of the hours before then.")
@click.option("--requests", "by_request", is_flag=True, help="Rows of requests and tokens, for csv and jsonl.")
@inventory_option
@output_option()
def command(
    tenant: str | None, since: str | None, until: str | None, by_request: bool, inventory: str | None, fmt: str | None
) -> int:  # fmt: skip
    """Bytes there are now, and requests and tokens, by tenant. Exit code 5 while somebody was not read.

    \b
    Examples:
      kvctl usage
      kvctl usage --tenant acme --since 2026-03-01T00:00:00Z
      kvctl usage --requests -o csv
    """
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("usage.show", UsageShow(tenant, since, until))
    if form == "table":
        click.echo(table(document["stored"], STORED) or "nothing is stored")
        click.echo(table(document["requests"], REQUESTS) or "no requests")
    else:
        rows, columns = (document["requests"], REQUESTS) if by_request else (document["stored"], STORED)
        show(document, rows, columns, form, "")
    away = [one for one in (*document["stores"], *document["gateways"]) if one["state"] != "ok"]
    for one in away:
        name = f"store {one['store']}" if "store" in one else f"gateway {one['gateway']}"
        note(f"{name}: {one['state']} {one['why']}: its numbers are not whole")
    return int(ExitCode.PARTIAL if away else ExitCode.OK)
