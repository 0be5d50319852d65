"""kvctl erase: erasure of a tenant, a domain, a user, a model or a time, and its receipts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import emit, note
from kvctl.cli.told import dry_run_option, yes_option
from kvctl.cli.user import user_id, user_options
from kvctl.types.errors import ExitCode, UsageError
from kvctl.types.requests import EraseChunks, EraseSubject, EraseTenant, ErasureNamed, TenantScope

COPIES = ("store", "tier", "site", "domain", "copies", "bytes", "method")
ERASURES = ("id", "tenant", "scope", "domain", "subject", "received", "due", "closed", "outcome")
CODES = {"erased": ExitCode.OK, "restricted": ExitCode.REFUSED, "open": ExitCode.PARTIAL}


@click.group("erase")
def command() -> None:
    """Erase a tenant, one of its users, a model or a time everywhere, with a receipt.

    \b
    Examples:
      kvctl erase subject acme --user-file - --dry-run
      kvctl erase tenant acme --domain user
      kvctl erase chunks acme --model 9f2c41aa0b6d7e8891c3d5f7a9bbcd01
      kvctl erase chunks acme --since 2026-03-01T00:00:00Z --until 2026-03-02T00:00:00Z
      kvctl erase ls
      kvctl erase receipt e-20260301-0a1b2c3d --proof erasure.tlog-proof
    """


@command.command("subject")
@click.argument("tenant")
@user_options
@yes_option
@dry_run_option
@inventory_option
@output_option()
def subject(
    tenant: str, user: str | None, user_file: Any, subject: str | None, yes: bool, dry_run: bool, inventory: str | None,
    fmt: str | None,
) -> int:  # fmt: skip
    """Erase everything of one user. Exit code 5 when a store is still to do it, 7 when a hold keeps some of it."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    named = user_id(user, user_file)
    would = client.call("erase.subject", EraseSubject(tenant, named, subject, dry_run=True))
    if dry_run:
        return _show_would(would, form)
    _tell_would(would)
    confirmed(f"Erase everything of this user of {tenant}?", yes=yes)
    return _tell(client.call("erase.subject", EraseSubject(tenant, named, subject)), form)


@command.command("tenant")
@click.argument("tenant")
@click.option("--domain", help="Only this trust domain.")
@click.option("--confirm", default="", metavar="TENANT", help="The tenant's name once more, in place of the question.")
@dry_run_option
@inventory_option
@output_option()
def tenant(
    tenant: str, domain: str | None, confirm: str, dry_run: bool, inventory: str | None, fmt: str | None
) -> int:  # fmt: skip
    """Erase a tenant's chunks by destroying their keys; the tenant begins anew, cold. Exit codes as for subject."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    would = client.call("erase.tenant", EraseTenant(tenant, domain, dry_run=True))
    if dry_run:
        return _show_would(would, form)
    _confirm(would, f"Destroy the keys of {tenant}{f'/{domain}' if domain else ''}?", tenant, confirm)
    return _tell(client.call("erase.tenant", EraseTenant(tenant, domain, confirm=tenant)), form)


@command.command("chunks")
@click.argument("tenant")
@click.option("--model", help="What was stored for this model: 32 hexadecimal digits.")
@click.option("--since", metavar="TIME", help="What was stored from then on, RFC 3339.")
@click.option("--until", metavar="TIME", help="What was stored before then.")
@click.option("--domain", help="Only of this trust domain.")
@click.option("--confirm", default="", metavar="TENANT", help="The tenant's name once more, in place of the question.")
@dry_run_option
@inventory_option
@output_option()
def chunks(
    tenant: str, model: str | None, since: str | None, until: str | None, domain: str | None, confirm: str,
    dry_run: bool, inventory: str | None, fmt: str | None,
) -> int:  # fmt: skip
    """Erase what a tenant stored for one model, or in a time, or both. Exit codes as for subject."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    asked = EraseChunks(tenant, model, since, until, domain)
    would = client.call("erase.chunks", replace(asked, dry_run=True))
    if dry_run:
        return _show_would(would, form)
    _confirm(would, f"Erase these chunks of {tenant}?", tenant, confirm)
    return _tell(client.call("erase.chunks", replace(asked, confirm=tenant)), form)


def _confirm(would: Mapping[str, Any], question: str, tenant: str, confirm: str) -> None:
    if confirm and confirm != tenant:
        raise UsageError("KV-CLI-013", "--confirm is not the tenant's name", fix=f"--confirm {tenant}")
    if not confirm:
        _tell_would(would)
        confirmed(question, yes=False, word=tenant)


def _show_would(document: Mapping[str, Any], form: str) -> int:
    show(document, document["would"]["copies"], COPIES[:-1], form, "the catalogue has no copies of it")
    if form == "table":
        _tell_would(document)
    return int(ExitCode.OK)


def _tell_would(document: Mapping[str, Any]) -> None:
    would = document["would"]
    note(f"copies: {sum(row['copies'] for row in would['copies'])}, holds: {', '.join(would['holds']) or 'none'}")
    for key in would["destroy_keys"]:
        note(f"would destroy the key of {key['domain']}, epoch {key['epoch']}")
    for line in would["not_covered"]:
        note(f"not covered: {line}")


def _tell(document: Mapping[str, Any], form: str) -> int:
    receipt = document["receipt"]
    show(document, receipt["copies"], COPIES, form, "the catalogue had no copies of it")
    if form == "table":
        note(f"erasure {document['erasure']}: {document['outcome']}")
        for line in (*document["why"], *(f"not covered: {line}" for line in receipt["not_covered"])):
            note(line)
    return int(CODES[document["outcome"]])


@command.command("ls")
@click.option("--tenant", help="Only this tenant.")
@inventory_option
@output_option()
def list_erasures(tenant: str | None, inventory: str | None, fmt: str | None) -> None:
    """Every erasure that was asked for, newest first, and by when it is due."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("erase.ls", TenantScope(tenant))
    show(document, document["erasures"], ERASURES, form, "no erasures")


@command.command("receipt")
@click.argument("erasure")
@click.option("--proof", type=click.Path(path_type=Path), help="Write the proof of the control log into this file.")
@inventory_option
@output_option("json", "yaml")
def receipt(erasure: str, proof: Path | None, inventory: str | None, fmt: str | None) -> int:
    """The receipt of an erasure, the log entry it stands in, and the proof. Exit code 5 while there is none."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("erase.receipt", ErasureNamed(erasure))
    emit(document, [], [], "yaml" if form == "yaml" else "json")
    if document["receipt"] is None:
        note(f"{erasure} is {document['outcome']}: there is no receipt yet")
        return int(ExitCode.PARTIAL)
    if proof is not None:
        proof.write_text(document["proof"])
        note(f"proof: {proof}")
    return int(ExitCode.OK)
