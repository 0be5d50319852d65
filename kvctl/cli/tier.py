"""kvctl tier: chunks from one tier to another, with an approval and on record."""

import logging
from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import inventory_option, output_option
from kvctl.cli.output import emit, note
from kvctl.cli.told import dry_run_option, yes_option
from kvctl.types.chunks import TierName
from kvctl.types.errors import ExitCode
from kvctl.types.requests import MoveNamed, TenantScope, TierPropose

TIERS = [str(tier) for tier in TierName]
COLUMNS = ("id", "tenant", "state", "approval_state", "source", "target", "moved", "failed", "skipped", "why")
SHORT = ("id", "tenant", "state", "approval", "from", "to", "moved", "why")
EXITS = {"failed": ExitCode.FAILED, "stopped": ExitCode.PARTIAL}


@click.group("tier")
def command() -> None:
    """Move a tenant's chunks between tiers: proposed, approved, carried out, brought back.

    \b
    Examples:
      kvctl tier propose acme --from flash --to object --reason "quarter end"
      kvctl approve show a-20260301-1f2e3d4c
      kvctl tier move m-20260301-5a6b7c8d
      kvctl tier ls
    """


@command.command("propose")
@click.argument("tenant")
@click.option("--from", "source", type=click.Choice(TIERS), required=True, help="The tier that has them.")
@click.option("--to", "target", type=click.Choice(TIERS), required=True, help="The tier that gets them.")
@click.option("--store", help="Only of this store. [default: every store]")
@click.option("--model", help="Only of this model: 32 hexadecimal digits.")
@click.option("--kind", type=click.Choice(["common", "private"]), help="Only of prompts that are common, or private.")
@click.option("--reason", default="", help="Goes on record.")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def propose(inventory: str | None, fmt: str | None, **asked: Any) -> None:
    """Ask for a move: what it touches is shown, residency decides at once, a person approves."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("tier.propose", TierPropose(**asked))
    if form != "table":
        emit(document, [], [], form)
        return
    impact = document["impact"]
    rows = [{"store": store, **sizes} for store, sizes in impact["stores"].items()]
    show(document, rows, ("store", "chunks", "bytes"), form, "nothing to move")
    note(f"{impact['chunks']} chunks, {impact['bytes']} bytes, holds met: {', '.join(impact['holds']) or 'none'}")
    for decision in document["decisions"]:
        note(f"{decision['store']}/{decision['tier']}: {decision['verdict']}: {decision['rule']}")
    for warning in document["warnings"]:
        note(f"warning: {warning}")
    if document["state"] == "dry run":
        note("would ask for 1 vote of another person")
    else:
        note(f"{document['move']}: waits for approval: kvctl approve show {document['approval']}")


@command.command("move")
@click.argument("move")
@yes_option
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def move(move: str, **asked: Any) -> int:
    """Carry out a move that was approved. Ctrl-C stops it behind the chunk that it is at."""
    return _do("tier.move", move, "move the chunks", **asked)


@command.command("resume")
@click.argument("move")
@yes_option
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def resume(move: str, **asked: Any) -> int:
    """Go on where a move was stopped, failed or was cut off."""
    return _do("tier.resume", move, "go on with it", **asked)


@command.command("rollback")
@click.argument("move")
@yes_option
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def rollback(move: str, **asked: Any) -> int:
    """Bring back what a move has moved, and nothing else."""
    return _do("tier.rollback", move, "bring the chunks back", **asked)


@command.command("stop")
@click.argument("move")
@dry_run_option
@inventory_option
@output_option("table", "json", "yaml")
def stop(move: str, dry_run: bool, inventory: str | None, fmt: str | None) -> None:
    """Have a running move end behind the chunk that it is at. What was moved stays moved."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("tier.stop", MoveNamed(move, dry_run))
    if form != "table":
        emit(document, [], [], form)
    else:
        note(f"{move}: {'would be ' + document['would'] if dry_run else document['state']}")


@command.command("ls")
@click.option("--tenant", help="Only this tenant's.")
@inventory_option
@output_option()
def list_moves(tenant: str | None, inventory: str | None, fmt: str | None) -> None:
    """Moves, newest first."""
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("move.ls", TenantScope(tenant))
    rows = document["moves"]
    if form == "table":
        rows = [row | {"approval": row["approval_state"], "from": row["source"], "to": row["target"]} for row in rows]
    show(document, rows, SHORT if form == "table" else COLUMNS, form, "no moves")


def _do(
    operation: str, move: str, what: str, *, yes: bool, dry_run: bool, inventory: str | None, fmt: str | None
) -> int:
    client, form = connect_controller(inventory=inventory, fmt=fmt)
    if not dry_run:
        confirmed(f"{move}: {what}?", yes=yes)
        _narrate()
    document = client.call(operation, MoveNamed(move, dry_run))
    if form != "table":
        emit(document, [], [], form)
    else:
        note(_said(move, document))
    if dry_run:
        return int(ExitCode.REFUSED if document["would"] == "refused" else ExitCode.OK)
    if document.get("interrupted"):
        return int(ExitCode.INTERRUPTED)
    return int(EXITS.get(document["state"], ExitCode.OK))


def _said(move: str, document: dict[str, Any]) -> str:
    why = document.get("why")
    if document["state"] == "dry run":
        return f"{move}: would be {document['would']}" + (f": {why}" if why else "")
    if "moved" not in document:
        return f"{move}: {document['state']}; kvctl tier ls shows how far it is"
    counts = f"{document['moved'] or 0} chunks, {document['bytes'] or 0} bytes are in {document['target']} by it"
    return f"{move}: {document['state']}; {counts}" + (f"; {why}" if why else "")


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


def _narrate() -> None:
    """How far a move is, when this process carries it out."""
    log = logging.getLogger("kvctl.controller.moving")
    log.setLevel(logging.INFO)
    log.addHandler(_Notes())
