"""kvctl account: people who sign in to the console."""

from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import note
from kvctl.cli.told import dry_run_option, tell, yes_option
from kvctl.types.requests import AccountChange, AccountCreate, Nothing

ACCOUNTS = ("name", "tenant", "created", "until_at", "disabled", "joined", "roles")


@click.group("account")
def command() -> None:
    """People who sign in to the console, and their roles.

    \b
    Examples:
      kvctl account create ann --role operator
      kvctl account create bo --role tenant-admin --tenant acme
      kvctl account change ann --disable
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, help="Repeat for more. [default for the first account: admin, operator]"
)
@click.option("--tenant", help="The only tenant that it may see.")
@click.option("--until", help="When its access ends, like 2027-01-31T00:00:00Z.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def create(roles: tuple[str, ...], inventory: str | None, fmt: str | None, **asked: Any) -> None:
    """Make an account. Its owner sets a password by the link, which is printed once and good for a day."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("account.create", AccountCreate(roles=list(roles), **asked))
    if not tell(document, form):
        _link(document)


@command.command("ls")
@inventory_option
@output_option()
def list_accounts(inventory: str | None, fmt: str | None) -> None:
    """Accounts and their roles."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("account.ls", Nothing())
    rows = [row | {"roles": " ".join(row["roles"])} for row in document["accounts"]]
    show(document, rows, ACCOUNTS, form, "no accounts; kvctl account create makes the first")


@command.command("change")
@click.argument("name")
@click.option("--role", "roles", multiple=True, help="Its roles from now on; repeat for more.")
@click.option("--disable/--enable", "disabled", default=None, help="Shut it, or open it again.")
@click.option("--new-link", is_flag=True, help="A new link, for a password that was forgotten.")
@yes_option
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def change(
    name: str, roles: tuple[str, ...], disabled: bool | None, new_link: bool, yes: bool, dry_run: bool,
    inventory: str | None, fmt: str | None,
) -> None:  # fmt: skip
    """Other roles, disabled or not, a new link."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    if not dry_run:
        confirmed(f"change account {name}?", yes=yes)
    document = client.call("account.change", AccountChange(name, list(roles) or None, disabled, new_link, dry_run))
    if not tell(document, form):
        note(f"{name}: changed")
        if "link" in document:
            _link(document)


def _link(document: dict[str, Any]) -> None:
    click.echo(document["link"])
    note(f"open it at the console's address before {document['link_until']}; it works once and is not shown again")
