"""kvctl key: API keys of tenants, and the epochs of their trust domains."""

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import note
from kvctl.cli.told import dry_run_option, partial, tell, yes_option
from kvctl.types.requests import EpochRotate, KeyCreate, KeyNamed, TenantScope

KEYS = ("tenant", "id", "domain", "state", "created_at", "expires_at", "label")


@click.group("key")
def command() -> None:
    """API keys of tenants, and the epochs of their trust domains.

    \b
    Examples:
      kvctl key create acme --label "chat front end" --days 30
      kvctl key ls --tenant acme
      kvctl key revoke acme k7q2hzta
      kvctl key rotate acme user --dry-run
    """


@command.command("create")
@click.argument("tenant")
@click.option("--domain", default="user", show_default=True, help="Trust domain of the requests that it is used for.")
@click.option("--label", default="", help="What it is for.")
@click.option("--days", type=click.IntRange(1, 366), default=90, show_default=True, help="How long it is good.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def create(
    tenant: str, domain: str, label: str, days: int, dry_run: bool, inventory: str | None, fmt: str | None
) -> int:
    """Make an API key. It is printed once, on stdout, and kept nowhere."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("key.create", KeyCreate(tenant, domain, label, days, dry_run))
    if not tell(document, form):
        click.echo(document["api_key"])
        note(f"key {document['id']} of {tenant}, good until {document['expires_at']}; it is not shown again")
    return partial(document)


@command.command("ls")
@click.option("--tenant", help="Only this tenant.")
@inventory_option
@output_option()
def list_keys(tenant: str | None, inventory: str | None, fmt: str | None) -> None:
    """API keys: whose, for what, how long. Never the keys themselves."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("key.ls", TenantScope(tenant))
    show(document, document["keys"], KEYS, form, "no API keys; kvctl key create makes one")


@command.command("revoke")
@click.argument("tenant")
@click.argument("key")
@yes_option
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def revoke(tenant: str, key: str, yes: bool, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Have gateways refuse an API key, given by its id, for good."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    if not dry_run:
        confirmed(f"revoke API key {key} of {tenant}: whoever uses it is refused?", yes=yes)
    document = client.call("key.revoke", KeyNamed(tenant, key, dry_run))
    if not tell(document, form):
        note(f"key {key} of {tenant}: revoked")
    return partial(document)


@command.command("rotate")
@click.argument("tenant")
@click.argument("domain")
@click.option("--destroy-old", is_flag=True, help="Destroy the keys of older epochs: what they seal is gone for good.")
@click.option("--confirm", default="", metavar="DOMAIN", help="The domain once more, instead of being asked.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def rotate(
    tenant: str, domain: str, destroy_old: bool, confirm: str, dry_run: bool, inventory: str | None, fmt: str | None
) -> int:
    """Begin a new epoch of a trust domain: everything stored for it is cold, and computed again."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    if not dry_run and confirm != domain:
        plan = client.call("key.rotate", EpochRotate(tenant, domain, destroy_old, dry_run=True))
        note(_cold(plan))
        for line in plan["would"]:
            note(f"would {line}")
        confirmed(f"rotate {tenant}/{domain}.", yes=False, word=domain)
    document = client.call("key.rotate", EpochRotate(tenant, domain, destroy_old, dry_run))
    if form == "table":
        note(_cold(document))
    if not tell(document, form):
        note(f"{tenant}/{domain}: epoch {document['epoch']}")
        for one in document["destroyed"]:
            click.echo(f"epoch {one['epoch']}: {one['receipt']}")
    return partial(document)


def _cold(document: dict[str, dict[str, object]]) -> str:
    cold = document["cold"]
    if cold["chunks"] is None and not cold["unread_stores"]:
        return "this controller has no stores: what goes cold elsewhere is not known"
    if cold["chunks"] is None:
        return "how many chunks go cold is not known: the catalogue has not read every store"
    return f"{cold['chunks']} chunks, {cold['bytes']} bytes go cold"
