"""kvctl audit: the log of what happened, proofs of it, and packs of evidence."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import controller_option, inventory_option, output_option
from kvctl.cli.output import emit, note, table
from kvctl.types import requests as r
from kvctl.types.errors import ExitCode, UsageError
from kvctl.types.eventwords import detail

LOGS = ("control", "data")
GAPS = ("idx", "source", "from", "to", "cause", "at")
LOG = ("idx", "ts", "kind", "actor", "tenant", "outcome", "data")
SHORT = ("idx", "time", "kind", "actor", "tenant", "detail")
PROBLEMS = ("idx", "place", "what")
VERDICTS = ("id", "verdict", "judged", "violations", "question")
FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.group("audit")
def command() -> None:
    """The log of what happened, proofs of it, and packs of evidence.

    \b
    Examples:
      kvctl audit log --tenant acme --kind 'erasure.*'
      kvctl audit verify --since last-audit.checkpoint
      kvctl audit prove 421 -o acme-421
      kvctl audit run gdpr -o packs/
      python3 packs/20260301T120000-gdpr/verify.py packs/20260301T120000-gdpr --key ...
    """


@command.command("log")
@inventory_option
@controller_option
@click.option("--tenant", help="Only this tenant's.")
@click.option("--kind", help="Only events of this kind; a glob: 'tenant.*'.")
@click.option("--actor", help="Only what this one did.")
@click.option("--since", metavar="TIME", help="RFC 3339.")
@click.option("--until", metavar="TIME", help="RFC 3339.")
@click.option("--after", type=int, metavar="INDEX", help="Events behind this one, oldest first.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@output_option()
def log(
    tenant: str | None, kind: str | None, actor: str | None, since: str | None, until: str | None, after: int | None,
    limit: int, fmt: str | None, **flags: Any,
) -> None:  # fmt: skip
    """Events of the control log, newest first. The table has what matters of each; -o json has all of it."""
    client, form = connect_controller(fmt=fmt, **flags)
    found = client.call("audit.log", r.AuditLog(tenant, kind, actor, since, until, after, limit))
    if form == "table":
        show(found, [shortened(row) for row in found["events"]], SHORT, form, "no events match")
    else:
        rows = [row | {"data": json.dumps(row["data"], ensure_ascii=False)} for row in found["events"]]
        show(found, rows, LOG, form, "no events match")


def shortened(event: dict[str, Any]) -> dict[str, Any]:
    """An event's row: to the second, and its outcome only when that is not `ok`."""
    ended = "" if event["outcome"] == "ok" else f"{event['outcome'].upper()} "
    return event | {"time": f"{event['ts'][:19]}Z", "detail": ended + detail(event["kind"], event["data"])}


@command.command("verify")
@inventory_option
@controller_option
@click.option("--log", "which", type=click.Choice(LOGS), help="Only this log. [default: both]")
@click.option("--since", type=FILE, metavar="FILE", help="A checkpoint that was kept: its log must continue it.")
@click.option("--keep", type=FILE, metavar="FILE", help="Write today's checkpoint here, for the next time.")
@output_option("table", "json", "yaml")
def verify(which: str | None, since: Path | None, keep: Path | None, fmt: str | None, **flags: Any) -> int:
    """Compute the whole logs again from their entries and compare. Exits 3 when anything was changed.

    A gap of the data log, events that it could not take, is shown and is no change.
    """
    client, form = connect_controller(fmt=fmt, **flags)
    earlier = read(since) if since else None
    told = {}
    for name in [which] if which else LOGS:
        own = earlier if earlier and (which or of_log(earlier, name)) else None
        told[name] = client.call("audit.verify", r.AuditVerify(name, own))
    found = told[which or "control"]
    if form != "table":
        emit(found if which else {**found, "data_log": told["data"]}, found["problems"], PROBLEMS, form)
    else:
        for name, one in told.items():
            show_verified(name, one)
    sound = all(one["sound"] for one in told.values())
    if not since and sound:
        note("without --since, a log that was written anew from its beginning would look the same: keep checkpoints")
    if keep:
        keep.write_text(found["checkpoint"])
        note(f"checkpoint of {found['size']} entries kept in {keep}")
    return int(ExitCode.OK if sound else ExitCode.CHECK_FAILED)


def of_log(checkpoint: str, name: str) -> bool:
    return checkpoint.partition("\n")[0].endswith(f"/{name}")


def show_verified(name: str, found: dict[str, Any]) -> None:
    if found["problems"]:
        click.echo(table(found["problems"], PROBLEMS))
    else:
        click.echo(f"{name}: {found['size']} entries, every byte as it was written; root {found['root']}")
    if found["gaps"]:
        click.echo(table(found["gaps"], GAPS))
        note(f"{name}: {len(found['gaps'])} gaps: numbers that sources told and no entry has")


@command.command("prove")
@click.argument("index", type=int)
@inventory_option
@controller_option
@click.option("-d", "--to", "directory", type=DIRECTORY, help="Write entry, proof and key there.")
@output_option("table", "json")
def prove(index: int, directory: Path | None, fmt: str | None, **flags: Any) -> None:
    """One event with the proof that it is in the log, for somebody who has only the log's key."""
    client, form = connect_controller(fmt=fmt, **flags)
    found = client.call("audit.prove", r.AuditProve(index))
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{index}.json").write_text(found["entry"])
        (directory / f"{index}.json.tlog-proof").write_text(found["proof"])
        (directory / "site.pub").write_text(found["key"] + "\n")
        note(f"written to {directory}: {index}.json, its proof, and the log's key")
    elif form == "json":
        emit(found, [], (), form)
    else:
        click.echo(found["entry"])
        click.echo(found["proof"], nl=False)


@command.command("export")
@inventory_option
@controller_option
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    default="jsonl",
    show_default=True,
    help="Of the file.",
)
@click.option("--tenant", help="Only this tenant's.")
@click.option("--since", metavar="TIME", help="RFC 3339.")
@click.option("--until", metavar="TIME", help="RFC 3339.")
@click.argument("file", type=FILE)
def export(kind: str, tenant: str | None, since: str | None, until: str | None, file: Path, **flags: Any) -> None:
    """Write the log's events to FILE for other tools. The export itself is an event."""
    client, _ = connect_controller(**flags)
    found = client.call("audit.export", r.AuditExport(kind, tenant, since, until))
    file.write_bytes(base64.b64decode(found["content"]))
    note(f"{found['events']} events in {file}")


@command.command("packs")
@inventory_option
@controller_option
@output_option()
def packs(fmt: str | None, **flags: Any) -> None:
    """Which packs there are."""
    client, form = connect_controller(fmt=fmt, **flags)
    found = client.call("audit.packs", r.Nothing())
    show(found, found["packs"], ("pack", "rules", "title"), form, "no packs")


@command.command("run")
@click.argument("pack")
@inventory_option
@controller_option
@click.option(
    "-o",
    "--out",
    "directory",
    type=DIRECTORY,
    default=Path(),
    show_default="here",
    help="Where the pack's directory goes.",
)
@click.option("--tenant", help="Evidence of this tenant alone.")
@click.option("--format", "fmt", type=click.Choice(["table", "json"]), help="Of the verdicts on stdout.")
def run(pack: str, directory: Path, tenant: str | None, fmt: str | None, **flags: Any) -> int:
    """Judge every check of PACK now and write a pack that verifies without this site. Exits 3 when a check fails."""
    import zipfile

    client, form = connect_controller(fmt=fmt, **flags)
    found = client.call("audit.run", r.AuditRun(pack, tenant))
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(found["zip"]))) as archive:
        archive.extractall(directory)
    place = directory / found["name"]
    rows = [one | {"judged": one["population"]} for one in found["verdicts"]]
    if form == "table":
        click.echo(table(rows, VERDICTS))
    else:
        emit({k: v for k, v in found.items() if k != "zip"} | {"directory": str(place)}, rows, VERDICTS, form)
    note(f"pack in {place}; read report.html; verify: python3 {place}/verify.py {place} --key {place}/keys/site.pub")
    failed = [one["id"] for one in found["verdicts"] if one["verdict"] == "FAIL"]
    return int(ExitCode.CHECK_FAILED if failed else ExitCode.OK)


@command.command("waive")
@click.argument("check")
@inventory_option
@controller_option
@click.option("--until", required=True, metavar="TIME", help="RFC 3339.")
@click.option("--reason", required=True, help="Why it is accepted.")
@click.option("-y", "--yes", is_flag=True, envvar="KVCTL_YES", show_envvar=True, help="Do not ask.")
@click.option("--dry-run", "--check", "dry_run", is_flag=True, help="Show what would be done; change nothing.")
def waive(check: str, until: str, reason: str, yes: bool, dry_run: bool, **flags: Any) -> None:
    """Accept what CHECK finds until a day, by name. For approvers and data protection officers."""
    client, _ = connect_controller(**flags)
    if not dry_run:
        confirmed(f"accept failures of {check} until {until}?", yes=yes)
    client.call("audit.waive", r.AuditWaive(check, until, reason, dry_run))
    note(f"{'would waive' if dry_run else 'waived'} {check} until {until}")


@command.command("reindex")
@inventory_option
@click.option("-y", "--yes", is_flag=True, envvar="KVCTL_YES", show_envvar=True, help="Do not ask.")
def reindex(inventory: str | None, yes: bool) -> None:
    """Empty the tables and make them again from the log. No kvctld may run; the catalogue stays."""
    from kvctl.cli.controller import places
    from kvctl.client.offline import reindex as again

    confirmed("make all governance tables again from the log?", yes=yes)
    note(f"{again(*places(inventory))} events applied")


def read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("KV-AUD-008", "the checkpoint cannot be read", where=str(path), why=str(error)) from error
