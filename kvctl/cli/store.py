"""kvctl store: what a storage daemon holds, and the verbs that look after it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kvctl.cli.governance import confirmed
from kvctl.cli.options import controller_option, inventory_option, output_option
from kvctl.cli.output import emit, note, table
from kvctl.cli.told import dry_run_option, yes_option
from kvctl.types.amounts import size
from kvctl.types.chunks import TierName
from kvctl.types.errors import ExitCode

DEFAULT = "unix:/run/kvctl/store-admin.sock"
CHUNKS = ("tenant", "domain", "tier", "length", "stored", "expires", "key")
COMPARED = ("store", "state", "catalogued", "found", "untracked", "missing", "unlike", "why")
TIERS = ("tier", "state", "used", "capacity", "chunks", "quarantined", "places")
F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(path_type=Path, dir_okay=False)


def address_options(function: F) -> F:
    for option in (
        click.option(
            "-a", "--admin", "endpoint", envvar="KVCTL_STORE_ADMIN", show_envvar=True, default=DEFAULT,
            show_default=True, metavar="ENDPOINT", help="unix:/PATH, or https://HOST:PORT.",
        ),
        click.option("--cert", type=FILE, help="Client certificate for https."),
        click.option("--key", type=FILE, help="Its key."),
        click.option("--ca", type=FILE, help="CA of the store's certificate."),
    ):  # fmt: skip
        function = option(function)
    return function


def record_options(function: F) -> F:
    """Whose control log has what is done here."""
    return inventory_option(controller_option(function))


def upkeep(inventory: str | None, controller: str | None, account: str | None) -> Any:
    from kvctl.cli.options import group_flags, recorder, unrecorded
    from kvctl.cli.settings import resolve_settings
    from kvctl.client.stores import upkeep as found

    settings = resolve_settings(inventory=inventory, controller=controller, **group_flags())
    return found(settings.inventory.value, settings.state_dir.value, recorder(settings, account), unrecorded)


def stores(endpoint: str, cert: Path | None, key: Path | None, ca: Path | None) -> Any:
    from kvctl.client.stores import Stores

    return Stores(endpoint, cert, key, ca)


@click.group("store")
def command() -> None:
    """What a storage daemon holds; scrub it, drain it. What changes something is in the site's control log.

    \b
    Examples:
      kvctl store stat
      kvctl store ls --tenant acme --limit 20
      kvctl store scrub --tier flash
      kvctl store drain --yes
      kvctl store sync
      kvctl store compare
      kvctl store destroyed s2 --reason "shredded, protocol 4711"
    """


@command.command("stat")
@address_options
@output_option("table", "json", "yaml")
def stat(fmt: str | None, **address: Any) -> None:
    """Tiers, RAM, tenants and counters of a kvstored."""
    found = stores(**address).stat()
    rows = [_tier_row(tier) for tier in found["tiers"]]
    if (fmt or "table") != "table":
        emit({"schema": "kvctl.store.stat/1", **found}, rows, TIERS, fmt or "table")
        return
    daemon, ram = found["daemon"], found["ram"]
    state = "draining" if daemon["draining"] else "serving"
    click.echo(f"{daemon['node']}  kvstored {daemon['version']}  {state}  {daemon['sessions']} sessions")
    click.echo(f"RAM  {size(ram['ram_bytes'])} of {size(ram['ram_capacity'])}, {ram['ram_chunks']} chunks")
    click.echo(table(rows, TIERS) or "no tiers")


@command.command("ls")
@address_options
@click.option("--tenant", help="Only this tenant.")
@click.option("--domain", help="Only this trust domain.")
@click.option("-n", "--limit", type=click.IntRange(1), default=100, show_default=True, help="How many at most.")
@output_option()
def list_chunks(tenant: str | None, domain: str | None, limit: int, fmt: str | None, **address: Any) -> None:
    """Chunks by tier, tenant and key. Names and sizes only: no one here can read them."""
    found = [_chunk_row(row) for row in stores(**address).ls(tenant, domain, limit)]
    if fmt in (None, "table"):
        click.echo(table([row | {"key": row["key"][:16]} for row in found], CHUNKS) or "no chunks")
    else:
        emit({"schema": "kvctl.store.chunks/1", "chunks": found}, found, CHUNKS, fmt)


@command.command("scrub")
@address_options
@click.option("--tier", type=click.Choice([str(t) for t in TierName]), required=True, help="The tier to read.")
@dry_run_option
@record_options
@output_option("table", "json")
def scrub(
    tier: str, dry_run: bool, inventory: str | None, controller: str | None, account: str | None, fmt: str | None,
    **address: Any,
) -> int:  # fmt: skip
    """Read a whole tier and compare checksums. What is not what was written is quarantined: exit code 3."""
    client = stores(**address)
    seen = client.stat()
    if dry_run:
        there = sum(one["chunks"] for one in seen["tiers"] if one["name"] == tier)
        note(f"{seen['daemon']['node']}: would read {there} chunks of {tier}")
        return int(ExitCode.OK)
    with upkeep(inventory, controller, account).acting("scrub", seen["daemon"]["node"], tier=tier) as act:
        found = client.scrub(tier)
        act.how.update(chunks=found["chunks"], size=found["size"], quarantined=len(found["bad"]))
    bad = [{"tenant": scope["tenant"], "domain": scope["domain"], "key": key} for scope, key in found["bad"]]
    if fmt == "json":
        emit({"schema": "kvctl.store.scrub/1", **found, "bad": bad}, bad, ("tenant", "domain", "key"), "json")
    else:
        click.echo(f"{found['chunks']} chunks, {size(found['size'])} read; {len(bad)} quarantined")
        if bad:
            click.echo(table(bad, ("tenant", "domain", "key")))
    return int(ExitCode.CHECK_FAILED if bad else ExitCode.OK)


@command.command("drain")
@address_options
@yes_option
@dry_run_option
@record_options
def drain(
    yes: bool, dry_run: bool, inventory: str | None, controller: str | None, account: str | None, **address: Any
) -> None:
    """End sessions, write everything out and refuse requests, until `kvctl store resume` or a restart."""
    client = stores(**address)
    daemon = client.stat()["daemon"]
    note(f"{daemon['node']}: {daemon['sessions']} sessions would end; engines recompute what they cannot read")
    if dry_run:
        note("no changes" if daemon["draining"] else "would drain")
        return
    confirmed(f"drain {daemon['node']}?", yes=yes)
    with upkeep(inventory, controller, account).acting("drain", daemon["node"]) as act:
        broken = client.drain()["broken_sessions"]
        act.how.update(broken_sessions=broken)
    note(f"{daemon['node']}: drained; {broken} sessions did not end in time and were cut")


@command.command("resume")
@address_options
@dry_run_option
@record_options
def resume(dry_run: bool, inventory: str | None, controller: str | None, account: str | None, **address: Any) -> None:
    """Serve again after a drain."""
    client = stores(**address)
    daemon = client.stat()["daemon"]
    if dry_run:
        note("would serve" if daemon["draining"] else "no changes")
        return
    with upkeep(inventory, controller, account).acting("resume", daemon["node"]):
        client.resume()
    note("serving")


@command.command("sync")
@click.argument("store", required=False)
@click.option("--dry-run", "--check", "dry_run", is_flag=True, help="Show which stores would be read.")
@inventory_option
@output_option()
def sync(store: str | None, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Bring the controller's catalogue up to a store, or all of them. Exit code 5 when one was not read."""
    from kvctl.cli.governance import connect_controller, show
    from kvctl.types.requests import StoreNamed

    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("store.sync", StoreNamed(store, dry_run=dry_run))
    rows = [_synced(one) for one in document["stores"]]
    rows += [one | {"state": "would be read"} for one in document.get("would", [])]
    show(document, rows, ("store", "state", "put", "removed", "gap", "why"), form, "no stores are configured")
    return int(ExitCode.PARTIAL if any(one["state"] != "ok" for one in document["stores"]) else ExitCode.OK)


@command.command("compare")
@click.argument("store", required=False)
@click.option("--dry-run", "--check", "dry_run", is_flag=True, help="Show which stores would be compared.")
@inventory_option
@output_option()
def compare(store: str | None, dry_run: bool, inventory: str | None, fmt: str | None) -> int:
    """Compare the catalogue with all that a store, or each of them, holds; then make it equal. Done daily by itself.

    Exits 3 when a copy was untracked or unlike what the catalogue said, 5 when a store was not read.
    """
    from kvctl.cli.governance import connect_controller, show
    from kvctl.types.requests import StoreNamed

    client, form = connect_controller(inventory=inventory, fmt=fmt)
    document = client.call("store.compare", StoreNamed(store, dry_run=dry_run))
    rows = [*document["stores"], *(one | {"state": "would be compared"} for one in document.get("would", []))]
    show(document, rows, COMPARED, form, "no stores are configured")
    if any(one["state"] != "ok" for one in document["stores"]):
        return int(ExitCode.PARTIAL)
    return int(ExitCode.CHECK_FAILED if any(one["finding"] for one in document["stores"]) else ExitCode.OK)


@command.command("destroyed")
@click.argument("store")
@click.option("--reason", required=True, help="How, and who saw it; goes on record.")
@yes_option
@dry_run_option
@record_options
@output_option()
def destroyed(store: str, reason: str, yes: bool, dry_run: bool, fmt: str | None, **flags: Any) -> None:
    """Declare that a store is no more, so that erasures stop waiting for it: another person must agree.

    Receipts then say that it was not covered, and who declared it.
    """
    from kvctl.cli.governance import connect_controller, show
    from kvctl.types.requests import StoreDestroyed

    client, form = connect_controller(fmt=fmt, **flags)
    would = client.call("store.destroyed", StoreDestroyed(store, reason, dry_run=True))
    impact = would["impact"]
    had = f"the catalogue has {impact['copies']} copies, {impact['bytes']} bytes of {impact['tenants']} tenants there"
    if dry_run:
        show(would, [], (), form, f"would {would['would']}; {had}")
        return
    for hold in impact["holds"]:
        note(f"hold {hold} is of a tenant that has copies there")
    confirmed(f"Declare {store} destroyed? {had}.", yes=yes)
    document = client.call("store.destroyed", StoreDestroyed(store, reason))
    show(document, [], (), form, f"approval {document['approval']} is pending, until {document['expires']}")
    for line in document["warnings"]:
        note(line)


def _synced(one: dict[str, Any]) -> dict[str, Any]:
    taken, read = one.get("taken", {}), one.get("read")
    put = read["untracked"] if read else taken.get("put")
    gone = read["missing"] if read else taken.get("removed")
    return {"put": put, "removed": gone, "gap": one.get("gap"), "why": "", **one}


def _tier_row(tier: dict[str, Any]) -> dict[str, Any]:
    places = "; ".join(
        p["name"] + ("" if p["state"] == "ok" else f": {p['state']} ({p['why']})") for p in tier["places"]
    )
    return {
        "tier": tier["name"],
        "state": "ok" if tier["writable"] else "READ-ONLY",
        "used": size(tier["used"]),
        "capacity": size(tier["capacity"]),
        "chunks": tier["chunks"],
        "quarantined": tier["counters"].get("quarantined", ""),
        "places": places,
    }


def _chunk_row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        "stored": _time(row["stored_at"]),
        "expires": _time(row["expires_at"]) if row["expires_at"] else "never",
    }


def _time(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
