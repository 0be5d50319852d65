"""kvctl account: people who sign in to the console."""

from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import controller_option, inventory_option, output_option
from kvctl.cli.output import note
from kvctl.cli.told import dry_run_option, tell, yes_option
from kvctl.client.controller import ControllerClient
from kvctl.client.http import Http
from kvctl.types.requests import AccountChange, AccountCreate, AccountTotp, Nothing

ACCOUNTS = ("name", "tenant", "created", "until_at", "disabled", "joined", "authenticator", "roles")


@click.group("account")
def command() -> None:
    """People who sign in to the console, and their roles.

    \b
    Examples:
      kvctl account create ann --role operator
      kvctl account create bo --role tenant-admin --tenant acme
      kvctl account create cy --role approver --oidc-subject 4f1c2a7e
      kvctl account change ann --disable
      kvctl account totp --as ann
    """


@command.command("create")
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, help="Repeat for more. [default for the first account: admin, operator]"
)
@click.option("--tenant", help="The only tenant that it may see.")
@click.option("--until", help="When its access ends, like 2027-01-31T00:00:00Z.")
@click.option("--oidc-subject", metavar="SUB", help="Its owner signs in with the OpenID provider, as this subject.")
@dry_run_option
@inventory_option
@controller_option
@output_option("table", "json", "yaml")
def create(
    name: str, roles: tuple[str, ...], tenant: str | None, until: str | None, oidc_subject: str | None, dry_run: bool,
    fmt: str | None, **flags: Any,
) -> None:  # fmt: skip
    """Make an account. Its owner sets a password by the link, which is printed once and good for a day; with
    --oidc-subject there is neither.
    """
    client, form = connect_controller(fmt=fmt, **flags)
    asked = AccountCreate(name, list(roles), tenant, until, dry_run, oidc_subject)
    document = whole(client, client.call("account.create", asked))
    if tell(document, form):
        return
    if "link" in document:
        _link(document)
    else:
        note(f"{name}: {oidc_subject} at {document['oidc']['issuer']} signs in to it")


@command.command("ls")
@inventory_option
@controller_option
@output_option()
def list_accounts(fmt: str | None, **flags: Any) -> None:
    """Accounts and their roles."""
    client, form = connect_controller(fmt=fmt, **flags)
    document = client.call("account.ls", Nothing())
    rows = [row | {"roles": " ".join(row["roles"])} for row in document["accounts"]]
    bound = ("oidc_subject",) if any(row["oidc_subject"] for row in rows) else ()
    show(document, rows, ACCOUNTS + bound, form, "no accounts; kvctl account create makes the first")


@command.command("change")
@click.argument("name")
@click.option("--role", "roles", multiple=True, help="Its roles from now on; repeat for more.")
@click.option("--disable/--enable", "disabled", default=None, help="Shut it, or open it again.")
@click.option("--new-link", is_flag=True, help="A new link, for a password that was forgotten.")
@click.option("--reset-totp", is_flag=True, help="Take its authenticator away, for a telephone that was lost.")
@click.option(
    "--oidc-subject", metavar="SUB", help="Bind it to this subject of the OpenID provider: no password opens it then."
)
@click.option("--unbind-oidc", is_flag=True, help="Unbind it; with --new-link its owner sets a password.")
@yes_option
@dry_run_option
@inventory_option
@controller_option
@output_option("table", "json", "yaml")
def change(
    name: str, roles: tuple[str, ...], disabled: bool | None, new_link: bool, reset_totp: bool,
    oidc_subject: str | None, unbind_oidc: bool, yes: bool, dry_run: bool, fmt: str | None, **flags: Any,
) -> None:  # fmt: skip
    """Other roles, disabled or not, a new link, another way to sign in."""
    client, form = connect_controller(fmt=fmt, **flags)
    if not dry_run:
        confirmed(f"change account {name}?", yes=yes)
    asked = AccountChange(
        name, list(roles) or None, disabled, new_link, dry_run, reset_totp, oidc_subject, unbind_oidc
    )  # fmt: skip
    document = whole(client, client.call("account.change", asked))
    if not tell(document, form):
        note(f"{name}: changed")
        if "link" in document:
            _link(document)


@command.command("totp")
@click.option("--remove", is_flag=True, help="Take the authenticator away again.")
@dry_run_option
@inventory_option
@controller_option
@output_option("table", "json", "yaml")
def totp(remove: bool, dry_run: bool, fmt: str | None, **flags: Any) -> None:
    """Put an authenticator app before your own account: --as NAME says whose it is.

    From then on signing in takes its present code, too. Ten recovery codes are printed once; each works once.
    """
    client, form = connect_controller(fmt=fmt, **flags)
    document = client.call("account.totp", AccountTotp(remove=remove, dry_run=dry_run))
    if dry_run or remove:
        if not tell(document, form):
            note(f"{document['name']}: a password is enough")
        return
    note("give this to your authenticator app, then type its code")
    click.echo(document["uri"])
    code = click.prompt("code", err=True)
    document = client.call("account.totp", AccountTotp(code))
    if not tell(document, form):
        click.echo("\n".join(document["recovery_codes"]))
        note("recovery codes: keep them apart from the telephone; they are not shown again")


def whole(client: ControllerClient, document: dict[str, Any]) -> dict[str, Any]:
    """The document with its link from https:// on, as far as it is known where the console is."""
    if "link" not in document:
        return document
    asked = client.endpoint.rstrip("/") if isinstance(client, Http) and client.endpoint.startswith("https:") else ""
    return {**document, "link": (asked or document["console"]) + document["link"]}


def _link(document: dict[str, Any]) -> None:
    click.echo(document["link"])
    where = "" if document["link"].startswith("https:") else " at the console's address"
    note(f"open it{where} before {document['link_until']}; it works once and is not shown again")
