"""kvctl policy: what may be where, and for how long."""

from typing import Any, TextIO

import click

from kvctl.cli.governance import confirmed, connect_controller
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import emit, note, table
from kvctl.cli.told import dry_run_option, yes_option
from kvctl.types.requests import PolicyApply, PolicyShow

CHANGES = ("change", "section", "key", "what")
OUTSIDE = ("tenant", "country", "store", "tier", "chunks", "bytes", "rule")
RESIDENCY = ("tenant", "version", "change", "storage", "processing", "support", "controlled_by", "valid_from")
RETENTION = ("tenant", "kind", "version", "change", "minimum", "maximum", "idle", "valid_from")
PLACES = ("store", "tier", "site", "country", "entity_country", "controlled_by")


@click.group("policy")
def command() -> None:
    """Residency and retention policies: one file, in versions, with approvals.

    \b
    Examples:
      kvctl policy apply policy.yaml --dry-run
      kvctl policy apply policy.yaml --reason "contract 2026-14"
      kvctl policy show --tenant acme --at 2026-03-01T12:00:00Z
    """


@command.command("apply")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--reason", default="", help="Goes on record.")
@yes_option
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def apply(file: TextIO, reason: str, yes: bool, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Put a policy file in force, or ask for the approvals that it needs. "-" reads it from standard input."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    text = file.read()
    if not dry_run:
        would = client.call("policy.apply", PolicyApply(text, reason, dry_run=True))
        if would["changes"] and not yes:
            for change in would["changes"]:
                note(f"{change['change']}: {change['section']} {change['key']}: {_what(change)}")
            confirmed(f"{len(would['changes'])} rows change ({_needs(would['required'])}); go on?", yes=yes)
    document = client.call("policy.apply", PolicyApply(text, reason, dry_run))
    if form != "table":
        emit(document, [], [], form)
        return 0
    print_changes(document["changes"])
    print_outside(document["violations"])
    for warning in document["warnings"]:
        note(f"warning: {warning}")
    note(_said(document))
    return 0


def _said(document: dict[str, Any]) -> str:
    state = document["state"]
    if state == "dry run":
        needs = f" ({_needs(document['required'])})" if document["would"] == "pending" else ""
        return "no changes" if document["would"] == "unchanged" else f"would be {document['would']}{needs}"
    if state == "pending":
        return f"waits for approval, {_needs(document['required'])}: kvctl approve show {document['approval']}"
    return "no changes" if state == "unchanged" else state


def _needs(votes: int) -> str:
    return "takes effect at once" if not votes else f"needs {votes} vote{'s' if votes > 1 else ''} of others"


def print_changes(changes: list[dict[str, Any]]) -> None:
    if changes:
        click.echo(table([change | {"what": _what(change)} for change in changes], CHANGES))


def print_outside(found: list[dict[str, Any]]) -> None:
    if found:
        click.echo(table(found, OUTSIDE))
        note(f"{sum(row['chunks'] for row in found)} copies would be outside")


def _what(change: dict[str, Any]) -> str:
    before, after = change["before"], change["after"]
    if after is None:
        return "withdrawn"
    fields = [name for name in after if before is None or before[name] != after[name]]
    shown = {
        name: after[name] if before is None else f"{_text(before[name])} -> {_text(after[name])}" for name in fields
    }
    plain = [
        f"{n} {_text(v)}"
        for n, v in shown.items()
        if before is not None or n not in ("tenant", "name", "kind", "store", "tier")
    ]
    return ", ".join(plain)


def _text(value: Any) -> str:
    return "[" + " ".join(value) + "]" if isinstance(value, list) else "none" if value is None else str(value)


@command.command("show")
@click.option("--tenant", help="Only this tenant.")
@click.option("--at", metavar="TIME", help="As it was then, RFC 3339. [default: now]")
@inventory_option
@output_option("table", "json", "yaml")
def show_policy(tenant: str | None, at: str | None, inventory: str | None, fmt: str | None) -> None:
    """What is in force, or was: versions, places, and whose laws reach each site."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("policy.show", PolicyShow(tenant, at))
    if form != "table":
        emit(document, [], [], form)
        return
    residency = [
        row | {side: " ".join(row[f"{side}_countries"]) for side in ("storage", "processing", "support")}
        for row in document["residency"]
    ]
    retention = [row | {n: _lasting(row[n]) for n in ("minimum", "maximum", "idle")} for row in document["retention"]]
    shown = (
        (residency, RESIDENCY, "residency"),
        (retention, RETENTION, "retention"),
        (document["places"], PLACES, "place"),
    )
    for found, columns, name in shown:
        if found:
            click.echo(table(found, columns) + "\n")
        else:
            note(f"no {name} in force")


def _lasting(seconds: int | None) -> str:
    if seconds is None:
        return "never"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
