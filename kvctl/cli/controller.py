"""kvctl controller: run it, ask how it stands, back it up and put a backup back."""

from pathlib import Path
from typing import Any

import click

from kvctl.cli.governance import confirmed, connect_controller
from kvctl.cli.options import controller_option, group_flags, inventory_option, output_option
from kvctl.cli.output import emit, note, table
from kvctl.types.requests import BackupMake, EventRecord, Nothing, ServiceAdd, ServiceNamed

FILE = click.Path(path_type=Path, dir_okay=False)
JOBS = ("job", "outcome", "last", "took_seconds", "failed", "detail")
SERVICES = ("name", "expires_at", "certificate_sha256")
dry_run_option = click.option(
    "--dry-run", "--check", "dry_run", is_flag=True, help="Show what would be done; change nothing."
)


@click.group("controller")
def command() -> None:
    """Run the controller; back it up; let gateways in.

    \b
    Examples:
      kvctl controller serve --listen 127.0.0.1:8443
      kvctl controller status
      kvctl controller backup /srv/backup/par1.kvbackup --with-master-key /media/safe/par1.key
      kvctl controller restore /srv/backup/par1.kvbackup --master-key /media/safe/par1.key
      kvctl controller certify gateway1 --to /etc/kvctl/tls
    """


@command.command("serve")
@inventory_option
@click.option("--socket", type=FILE, help="Unix socket. [default: <state>/<site>/kvctld.sock]")
@click.option("--listen", metavar="ADDRESS:PORT[,...]", help="https, too. [default: as controller.yaml says]")
def serve(inventory: str | None, socket: Path | None, listen: str | None) -> None:
    """Be the site's kvctld in the foreground, until Ctrl-C."""
    from kvctl.client.offline import serve as run

    found, state_dir = places(inventory)
    run(found, state_dir, socket, listen)


@command.command("status")
@inventory_option
@controller_option
@output_option("table", "json", "yaml")
def status(fmt: str | None, **flags: Any) -> None:
    """Process, log, tables, disk and jobs."""
    client, form = connect_controller(fmt=fmt, **flags)
    found = client.call("controller.status", Nothing())
    rows = [row | {"detail": (row["error"] or {}).get("what", "")} for row in found["jobs"]]
    if form != "table":
        emit(found, rows, JOBS, form)
        return
    who = f"kvctld {found['version']}, PID {found['pid']}" if found["daemon"] else "no kvctld: asked in this process"
    click.echo(f"site {found['site']}  {who}")
    click.echo(f"log {found['log_size']} events, {found['applied']} applied  free {found['free_bytes'] >> 20} MiB")
    if rows:
        click.echo(table(rows, JOBS))


@command.command("backup")
@click.argument("file", type=FILE)
@inventory_option
@controller_option
@click.option("--label", default="", help="A word on what it is for.")
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, help="Until it is to be gone.")
@click.option("--site", "kept_at", metavar="NAME", help="The declared site where it will be kept. [default: this one]")
@click.option("--with-master-key", "master", type=FILE, help="Copy the master key there, too. Keep the two apart.")
@dry_run_option
@output_option("table", "json", "yaml")
def backup(
    file: Path, label: str, days: int, kept_at: str | None, master: Path | None, dry_run: bool, fmt: str | None,
    inventory: str | None, **flags: Any,
) -> None:  # fmt: skip
    """Copy log, tables and keys as of this moment, while the controller runs."""
    client, form = connect_controller(fmt=fmt, inventory=inventory, **flags)
    found = client.call("controller.backup", BackupMake(str(file.absolute()), label, days, kept_at, dry_run))
    if master is not None and not dry_run:
        from kvctl.client.offline import export_master_key

        client.call("event.record", EventRecord("controller.master-key-copied", {"to": master.name}))
        export_master_key(*places(inventory), master)
    told = found.get("would", found)
    if form != "table":
        emit(found, [told], ("backup", "file", "expires_at"), form)
    elif dry_run:
        note(f"would write {told['file']}, to be gone by {told['expires_at']}")
    else:
        note(f"{told['backup']}: {told['bytes']} bytes, {told['size']} events, to be gone by {told['expires_at']}")


@command.command("restore")
@click.argument("file", type=FILE)
@inventory_option
@click.option("--master-key", "master", type=FILE, help="The key store's master key. [default: the one that is here]")
@click.option("--force", default="", metavar="SITE", help="Replace a log that is newer; type the site's name.")
@click.option("-y", "--yes", is_flag=True, envvar="KVCTL_YES", show_envvar=True, help="Do not ask.")
@dry_run_option
@output_option("table", "json", "yaml")
def restore(
    file: Path, inventory: str | None, master: Path | None, force: str, yes: bool, dry_run: bool, fmt: str | None
) -> int:
    """Verify a backup and put it in the place of the state that is here. No controller may run."""
    from kvctl.client.offline import restore as put_back

    if not dry_run:
        confirmed(f"put {file} in the place of the state of this site?", yes=yes)
    found = put_back(*places(inventory), file, master=master, force=force, dry_run=dry_run)
    told = found.get("would", found)
    if fmt in ("json", "yaml"):
        emit(found, [told], ("backup", "events", "same"), fmt)
    else:
        verb = "would restore" if dry_run else "restored"
        note(f"{verb} {told['backup']} of site {told['site']}: {told['events']} events, verified")
        if told["aside"]:
            note(f"what was here lies in {told['aside']}")
        if not told["same"]:
            note(f"tables that were not what the log gives, and are now: {', '.join(told['differences'])}")
    return 0


@command.command("certify")
@click.argument("name")
@inventory_option
@controller_option
@click.option("--to", "directory", type=click.Path(path_type=Path, file_okay=False), required=True, metavar="DIR")
@dry_run_option
def certify(name: str, directory: Path, dry_run: bool, **flags: Any) -> None:
    """Give a gateway or connector a certificate: its new key, the certificate and the CA go to DIR."""
    from kvctl.client.offline import keep_certificate, new_request

    client, _ = connect_controller(**flags)
    key, request = new_request(name)
    signed = client.call("service.add", ServiceAdd(name, request.decode(), dry_run))
    if dry_run:
        note(f"would certify {name}" + (" and forget its present certificate" if signed["would"]["replace"] else ""))
        return
    keep_certificate(directory, name, key, signed)
    note(f"{name}: {directory}/{name}.crt and .key, until {signed['expires_at']}")


@command.command("services")
@inventory_option
@controller_option
@output_option()
def services(fmt: str | None, **flags: Any) -> None:
    """Which gateways and connectors have a certificate."""
    client, form = connect_controller(fmt=fmt, **flags)
    found = client.call("service.ls", Nothing())
    if form != "table":
        emit(found, found["services"], SERVICES, form)
    elif found["services"]:
        rows = [row | {"certificate_sha256": row["certificate_sha256"][:16]} for row in found["services"]]
        click.echo(table(rows, SERVICES))
    else:
        note("no service has a certificate")


@command.command("forget")
@click.argument("name")
@inventory_option
@controller_option
@click.option("-y", "--yes", is_flag=True, envvar="KVCTL_YES", show_envvar=True, help="Do not ask.")
@dry_run_option
def forget(name: str, yes: bool, dry_run: bool, **flags: Any) -> None:
    """Take a service's certificate away: from its next request on it is nobody."""
    client, _ = connect_controller(**flags)
    if not dry_run:
        confirmed(f"take the certificate of {name} away?", yes=yes)
    client.call("service.remove", ServiceNamed(name, dry_run))
    note(f"{'would forget' if dry_run else 'forgot'} {name}")


def places(inventory: str | None) -> tuple[Path | None, Path]:
    """The inventory and the state directory that flags, environment and files name."""
    from kvctl.cli.settings import resolve_settings

    settings = resolve_settings(inventory=inventory, **group_flags())
    return settings.inventory.value, settings.state_dir.value
