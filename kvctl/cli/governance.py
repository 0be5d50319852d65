"""What the governance verbs share: which controller is asked, confirming, and showing a document."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kvctl.cli.options import group_flags
from kvctl.cli.output import emit, note, table
from kvctl.cli.signin import signed_in
from kvctl.client.controller import ControllerClient
from kvctl.types.errors import UsageError


def connect_controller(account: str | None = None, **flags: Any) -> tuple[ControllerClient, str]:
    """The controller that these flags, the environment and the files name, and the output format.

    `account`: be this person of the site's, who gives the password.
    """
    from kvctl.cli.settings import resolve_settings
    from kvctl.client.choose import controller

    settings = resolve_settings(**flags, **group_flags())
    client = controller(
        settings.inventory.value, settings.state_dir.value, endpoint=settings.controller.value,
        ca=settings.controller_ca.value,
    )  # fmt: skip
    if account is not None:
        client = signed_in(client, account)
    return client, settings.output.value


def confirmed(question: str, *, yes: bool, word: str = "") -> None:
    """Ask on a terminal; `word` must be typed for what destroys. UsageError KV-CLI-004 when nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("KV-CLI-004", "nobody is there to confirm", fix="add --yes, or run on a terminal")
    if word:
        if click.prompt(f"{question} Type {word} to go on", err=True) != word:
            raise click.Abort
    elif not click.confirm(question, err=True):
        raise click.Abort


def show(
    document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], columns: Sequence[str], fmt: str, empty: str
) -> None:
    """A document as JSON or YAML, its rows otherwise; what there is none of is said on stderr."""
    if fmt == "table":
        if rows:
            click.echo(table(rows, columns))
        else:
            note(empty)
    else:
        emit(document, rows, columns, fmt)
