"""kvctl lab: test hosts on this machine, with simulated hardware and planted faults."""

import dataclasses
import json
import os
from typing import Any

import click

from kvctl.cli.output import emit, note, table

NODE = click.argument("node")
TIMEOUT = click.option("--timeout", default=120.0, show_default=True, help="Seconds to wait for a node's sshd.")


@click.group()
def command() -> None:
    """Test hosts on this machine, with planted faults. Needs Linux and root.

    \b
    Examples:
      kvctl lab up                            gpu1, storage1..3, with faults to find
      kvctl check -i /var/lib/kvctl-lab/inventory.yaml
      kvctl lab break storage1 drive-missing  plant one more fault
      kvctl lab shell storage1                look around on a node
      kvctl lab down                          leave nothing behind
    """


@command.command()
@click.option("--nodes", default="gpu=1,storage=3", show_default=True, help="How many nodes of which role.")
@click.option("--clean", is_flag=True, help="Plant no faults.")
@TIMEOUT
def up(nodes: str, clean: bool, timeout: float) -> None:
    """Boot the lab's nodes; safe to repeat. Prints the path of its inventory."""
    from kvctl.fleet.lab import layout, lifecycle, reality

    lab = layout.from_environment()
    note(table(reality.ROWS, reality.COLUMNS) + "\n")
    lifecycle.up(lab, nodes, clean=clean, timeout=timeout, say=note)
    note("\nThe lab is up. Its inventory:")
    click.echo(lab.inventory)


@command.command()
def down() -> None:
    """End every process, mount, namespace, cgroup and loop device of the lab."""
    from kvctl.fleet.lab import layout, lifecycle

    lab = layout.from_environment()
    note("The lab is down." if lifecycle.down(lab, note) else "No lab was up.")


@command.command()
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "jsonl", "csv"]), default="table")
def status(output: str) -> None:
    """Show the lab's nodes, whether they run, and the faults that were planted."""
    from kvctl.fleet.lab import layout, lifecycle

    lab = layout.from_environment()
    nodes = [dataclasses.asdict(node) for node in lifecycle.status(lab)]
    document = {"schema": "kvctl.lab/1", "name": lab.name, "inventory": str(lab.inventory), "nodes": nodes}
    rows = [{**node, "planted": ", ".join(node["planted"]) or "-"} for node in nodes]
    emit(document, rows, ("node", "role", "state", "address", "rail", "planted"), output)


@command.command(context_settings={"ignore_unknown_options": True})
@NODE
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
def shell(node: str, argv: tuple[str, ...]) -> None:
    """Open a shell on NODE over SSH, or run a command there."""
    from kvctl.fleet.lab import access, layout

    line = access.ssh_argv(layout.from_environment(), node, argv)
    os.execvp(line[0], line)


@command.command()
@NODE
@TIMEOUT
def start(node: str, timeout: float) -> None:
    """Power NODE on."""
    from kvctl.fleet.lab import layout, lifecycle

    lifecycle.power_on(layout.from_environment(), node, timeout=timeout, say=note)


@command.command("break")
@NODE
@click.argument("fault")
def break_(node: str, fault: str) -> None:
    """Plant FAULT on NODE; `kvctl lab faults` lists them."""
    from kvctl.fleet.lab import layout, lifecycle

    lifecycle.break_node(layout.from_environment(), node, fault)
    note(f"{node}: {fault} planted")


@command.command()
@NODE
@click.argument("fault", default="")
@TIMEOUT
def mend(node: str, fault: str, timeout: float) -> None:
    """Undo FAULT on NODE; without FAULT, every fault that was planted there."""
    from kvctl.fleet.lab import layout, lifecycle

    names = lifecycle.mend_node(layout.from_environment(), node, fault, timeout=timeout, say=note)
    note(f"{node}: {', '.join(names) or 'nothing was planted'}{' mended' if names else ''}")


@command.command()
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "jsonl", "csv"]), default="table")
def faults(output: str) -> None:
    """List the faults that can be planted, and the check that names each."""
    from kvctl.fleet.lab.faults import FAULTS

    rows = [
        {"fault": f.name, "check": f.check or "-", "roles": ",".join(f.roles), "what": f.text} for f in FAULTS.values()
    ]
    emit({"schema": "kvctl.lab.faults/1", "faults": rows}, rows, ("fault", "check", "roles", "what"), output)


@command.command()
def engine() -> None:
    """Put this machine's engine where the GPU hosts' image would have it. Prints the path of its description.

    The hosts read it from here: a bind, no copy. `kvctl deploy serving` goes on with the description.
    """
    from kvctl.fleet.lab import layout, lifecycle

    click.echo(lifecycle.put_engine(layout.from_environment()))


CONNECTOR = "lab-connector"


@command.command()
@click.option("--tenant", required=True, help="Who writes.")
@click.option("--domain", default="user", show_default=True, help="In which trust domain.")
@click.option("--user", "users", multiple=True, default=("alice", "bob"), show_default=True, help="Its users.")
@click.option("--chunks", type=click.IntRange(1, 10_000), default=8, show_default=True, help="Of each conversation.")
@click.option(
    "--size", type=click.IntRange(4096, 16 << 20), default=256 << 10, show_default=True, help="Of a chunk, bytes."
)
@click.option("--controller", default="https://localhost:8443", show_default=True, help="Where kvctld gives leases.")
def traffic(tenant: str, domain: str, users: tuple[str, ...], chunks: int, size: int, controller: str) -> None:
    """Write sealed chunks of made-up conversations as TENANT's engines would, and read them back.

    Real keys, seals, capabilities and protocol; the conversations are random bytes.
    """
    from kvctl.client.choose import site_settings
    from kvctl.client.traffic import traffic as write
    from kvctl.fleet.lab import layout

    lab = layout.from_environment()
    found = write(
        site_settings(*site()), lab, lab.directory / CONNECTOR, controller, tenant, domain, users, chunks, size
    )
    kept = ", ".join(f"{count} {status}" for status, count in sorted(found["put"].items()))
    back = ", ".join(f"{count} {status}" for status, count in sorted(found["get"].items()))
    note(f"{tenant}: {found['bytes'] / (1 << 20):.1f} MiB sealed and sent: {kept}; read back: {back}")


@command.command()
def connector() -> None:
    """Make the keys with which `kvctl lab traffic` is a connector, before kvctld starts and stores are deployed."""
    from kvctl.client.choose import site_settings
    from kvctl.client.traffic import connector as enrol
    from kvctl.fleet.lab import layout

    made = enrol(site_settings(*site()), CONNECTOR, layout.from_environment().directory / CONNECTOR)
    note(f"connector {made['name']}: {made['public'][:16]}…, files in {made['directory']}")


def site() -> tuple[Any, Any]:
    """The inventory and the state directory of the running command."""
    from kvctl.cli.settings import resolve_settings

    settings = resolve_settings()
    return settings.inventory.value, settings.state_dir.value


@command.command()
@NODE
@click.option("--key-file", type=click.File("r"), required=True, help="A file with a tenant's API key; - for stdin.")
@click.option(
    "--tokens", type=click.IntRange(512, 14_000), default=8192, show_default=True, help="Length of the context."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def restore(node: str, key_file: Any, tokens: int, output: str) -> int:
    """Show a context computed and then restored from the stores, through the gateway that is deployed on NODE.

    Between the two requests the engine's own caches are emptied. Exits 1 when nothing was restored, or when the two
    outputs differ.
    """
    from kvctl.fleet.lab import layout, serving
    from kvctl.fleet.lab.serving_demo import show

    shown = show(serving.deployed(layout.from_environment(), node), key_file.read().strip(), tokens)
    click.echo(json.dumps(shown.document()) if output == "json" else "\n".join(shown.lines()))
    return 0 if shown.identical and shown.restored_cached and shown.restored_bytes else 1
