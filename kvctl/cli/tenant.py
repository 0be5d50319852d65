"""kvctl tenant: who shares the cache, and what each may take."""

from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import note
from kvctl.cli.told import dry_run_option, partial, tell, yes_option
from kvctl.types.requests import TenantChange, TenantCreate, TenantNamed, TenantOffboard, TenantQuota, TenantScope

TENANTS = ("tenant", "state", "sla", "quota_bytes", "max_concurrent", "require_subject", "created_at", "entity")
EPOCHS = ("domain", "epoch", "created_at", "retired_at", "destroyed_at")


NO_LIMIT = "none"


class Limit(click.ParamType[Any]):
    """A whole number, also with a unit of bytes; or none."""

    name = "number|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from kvctl.daemon.fields import Size

        if value == NO_LIMIT or isinstance(value, int):
            return value
        try:
            return int(Size.parse(value))
        except ValueError as error:
            self.fail(f"{error}; or {NO_LIMIT}", param, ctx)


LIMIT = Limit()


@click.group("tenant")
def command() -> None:
    """Tenants: taken in, suspended, off-boarded.

    \b
    Examples:
      kvctl tenant create acme --entity "Acme SAS" --country FR --domain common --domain user
      kvctl tenant ls
      kvctl tenant quota acme --bytes 500GiB --requests none
      kvctl tenant suspend acme --reason "invoice 4711"
      kvctl tenant offboard acme --dry-run
    """


@command.command("create")
@click.argument("tenant")
@click.option("--entity", required=True, help="Legal entity that is responsible for its data.")
@click.option("--country", "entity_country", default="", help="Country of that entity, two letters.")
@click.option("--sla", type=click.Choice(["gold", "silver", "bronze"]), default="silver", show_default=True)
@click.option("--quota-bytes", type=click.IntRange(1), help="On each store. [default: as the store says]")
@click.option("--requests-per-minute", type=click.IntRange(1), help="[default: no limit]")
@click.option("--tokens-per-day", type=click.IntRange(1), help="[default: no limit]")
@click.option("--max-concurrent", type=click.IntRange(1), default=16, show_default=True, help="Requests at once.")
@click.option(
    "--require-subject", type=click.Choice(["refuse", "warn", "off"]), default="warn", show_default=True,
    help="What a gateway does with a request that names no end user.",
)  # fmt: skip
@click.option("--domain", "domains", multiple=True, default=("user",), show_default=True, help="Trust domain; repeat.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def create(inventory: str | None, fmt: str | None, domains: tuple[str, ...], **asked: Any) -> int:
    """Take in a tenant, with a key for each of its trust domains."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("tenant.create", TenantCreate(domains=list(domains), **asked))
    if not tell(document, form):
        note(f"{document['tenant']}: active; next: kvctl key create {document['tenant']}")
    return partial(document)


@command.command("ls")
@inventory_option
@output_option()
def list_tenants(inventory: str | None, fmt: str | None) -> None:
    """Every tenant that there is or was."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("tenant.ls", TenantScope())
    show(document, document["tenants"], TENANTS, form, "no tenants; kvctl tenant create makes one")


@command.command("show")
@click.argument("tenant")
@inventory_option
@output_option()
def show_tenant(tenant: str, inventory: str | None, fmt: str | None) -> None:
    """One tenant: limits, epochs of its trust domains, live keys and leases, holds."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("tenant.show", TenantNamed(tenant))
    if form == "table":
        about = document["about"]
        click.echo(f"{tenant}  {about['state']}  {about['sla']}  {about['entity']}")
        click.echo(f"live API keys {document['live_keys']}, leases {document['live_capabilities']}")
        click.echo(f"holds {', '.join(document['holds']) or 'none'}")
    show(document, document["epochs"], EPOCHS, form, "no trust domains")


@command.command("quota")
@click.argument("tenant")
@click.option("--bytes", "quota_bytes", type=LIMIT, help="On each store, over all its tiers: 500GiB, or none.")
@click.option("--requests", "requests_per_minute", type=LIMIT, help="A minute, at the gateways; or none.")
@click.option("--tokens", "tokens_per_day", type=LIMIT, help="A day, at the gateways; or none.")
@click.option("--concurrent", "max_concurrent", type=click.IntRange(1), help="Requests at once.")
@click.option("--reason", default="", help="Goes on record.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def quota(tenant: str, inventory: str | None, fmt: str | None, **asked: Any) -> int:
    """Give a tenant other limits; what is not named stays. Exit code 5 when a store was not told.

    A store that holds more of the tenant than the new limit takes nothing more of it, and makes room at its cost first.
    """
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    unlimited = [name for name, value in asked.items() if value == NO_LIMIT]
    given: dict[str, Any] = {name: None if name in unlimited else value for name, value in asked.items()}
    document = client.call("tenant.quota", TenantQuota(tenant, unlimited=unlimited, **given))
    if not tell(document, form):
        changed = [f"{name} {one['to'] or 'without limit'}" for name, one in document["changed"].items()]
        note(f"{tenant}: {', '.join(changed) or 'no changes'}")
    return partial(document)


@command.command("suspend")
@click.argument("tenant")
@click.option("--reason", default="", help="Goes on record.")
@yes_option
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def suspend(tenant: str, reason: str, yes: bool, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Stop a tenant at every gateway and store. Its data stays. Exit code 5 when a store was not told."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    if not dry_run:
        confirmed(f"suspend {tenant}: its requests are refused until it is resumed?", yes=yes)
    document = client.call("tenant.suspend", TenantChange(tenant, reason, dry_run))
    if not tell(document, form):
        note(f"{tenant}: suspended; {document['revoked_capabilities']} leases revoked")
    return partial(document)


@command.command("resume")
@click.argument("tenant")
@click.option("--reason", default="", help="Goes on record.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def resume(tenant: str, reason: str, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Serve a suspended tenant again."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("tenant.resume", TenantChange(tenant, reason, dry_run))
    if not tell(document, form):
        note(f"{tenant}: active; connectors lease its keys again within five minutes")
    return partial(document)


@command.command("offboard")
@click.argument("tenant")
@click.option("--confirm", default="", metavar="TENANT", help="The tenant's name once more, instead of being asked.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def offboard(tenant: str, confirm: str, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Destroy a tenant's keys: nothing of it can be read again. Exit code 5 when a store has still to erase."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    if not dry_run and not confirm:
        would = client.call("tenant.offboard", TenantOffboard(tenant, dry_run=True))["would"]
        for line in would:
            note(f"would {line}")
        confirmed(f"off-board {tenant}: {len(would)} steps, and no way back.", yes=False, word=tenant)
        confirm = tenant
    document = client.call("tenant.offboard", TenantOffboard(tenant, confirm, dry_run))
    if not tell(document, form):
        for name in ("covered", "not_covered"):
            click.echo(name.replace("_", " ") + ":")
            for line in document[name]:
                click.echo(f"  {line}")
    return partial(document)
