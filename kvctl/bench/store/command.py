"""`python -m kvctl.bench store`: the store against sockets, memory, disk and other stores."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kvctl.bench.hosts import claimed, say, stopped_by_sigterm
from kvctl.bench.store.cells import GIB, MIB, Settings, parse_connections, parse_size, parse_sizes
from kvctl.bench.store.conditions import conditions
from kvctl.bench.store.contestants import Contestant, chosen, missing_peers
from kvctl.bench.store.namespace import enter_private_network
from kvctl.bench.store.report import document, render
from kvctl.bench.store.rounds import rounds
from kvctl.bench.store.scale import measure_scale
from kvctl.bench.store.stage import Stage
from kvctl.fleet.remote.processes import become_subreaper
from kvctl.types.errors import ExitCode, UsageError

DIRECTORY = Path("/var/tmp/kvctl-bench-store")
QUICK = {"sample_bytes": 64 * MIB, "seconds": 0.1, "set_bytes": 32 * MIB, "cold_bytes": 256 * MIB}


@click.command("store")
@click.option("--peers", is_flag=True, help="Also Redis, Mooncake, SeaweedFS, nginx and fio.")
@click.option("--sizes", default="256KiB,2MiB,16MiB", show_default=True, metavar="SIZE,...", help="Of the chunks.")
@click.option("--connections", default="1,4", show_default=True, metavar="N,...", help="One thread of a client each.")
@click.option("--rounds", "count", type=click.IntRange(1), default=5, show_default=True, help="Samples of each cell.")
@click.option("--only", metavar="NAME,...", help="Only these contestants, peers or not.")
@click.option("--quick", is_flag=True, help="One round of short samples: shows that it works, not how fast.")
@click.option("--scale", is_flag=True, help="Also a million chunks, and 100 times the stored data.")
@click.option("--bytes", "sample", metavar="SIZE", help="Most bytes of a sample. [default: 256MiB]")
@click.option("--directory", type=click.Path(path_type=Path), default=DIRECTORY, show_default=True, metavar="DIR",
              help="For the servers' files; on the disk that is to be measured.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit 1 when a target is missed or was not measured.")
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json", "markdown"]), default="table")
def command(
    peers: bool,
    sizes: str,
    connections: str,
    count: int,
    only: str | None,
    quick: bool,
    scale: bool,
    sample: str | None,
    directory: Path,
    strict: bool,
    fmt: str,
) -> int:
    """Compare kvstored with plain sockets, memory, disk and other stores, in one interleaved run.

    \b
    Examples:
      python -m kvctl.bench store --peers
      python -m kvctl.bench store --only raw-tcp,kvstored-tcp --sizes 2MiB --connections 4
      python -m kvctl.bench store --peers --scale -o json > store.json

    Exits 0 whatever the numbers are; 1 when a contestant failed or, with --strict, when a target does not hold.
    """
    require()
    settings = settled(sizes, connections, count, directory, quick, sample)
    found, failed = measure(settings, chosen(peers, only), scale)
    click.echo(render(found, fmt))
    missed = [one["name"] for one in found["targets"] if one["ok"] is not True]
    return int(ExitCode.FAILED if failed or (strict and missed) else ExitCode.OK)


def require() -> None:
    """UsageError KV-BENCH-017 where servers' processor time cannot be read."""
    if sys.platform != "linux":
        raise UsageError("KV-BENCH-017", "the store's benchmark needs Linux", why="it reads the clocks of processes")


def settled(sizes: str, connections: str, count: int, directory: Path, quick: bool, sample: str | None) -> Settings:
    """The settings of the options as they were given. UsageError KV-BENCH-010 or -011."""
    less: dict[str, Any] = dict(QUICK) if quick else {}
    if sample is not None:
        less["sample_bytes"] = parse_size(sample, GIB * 64, "--bytes")
    work = directory / "run"
    return Settings(parse_sizes(sizes), parse_connections(connections), 1 if quick else count, work, **less)


def measure(settings: Settings, contestants: Sequence[Contestant], scale: bool) -> tuple[dict[str, Any], bool]:
    """The whole benchmark as a document, and whether a contestant failed."""
    load, at = os.getloadavg(), datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    private = enter_private_network()
    absent = left_out(contestants, private)
    become_subreaper()
    with prepared(settings.directory):
        made = conditions(settings, at=at, load_before=load, private_network=private)
        with Stage(settings) as stage:
            samples = rounds(stage, [one for one in contestants if one.name not in absent])
            made |= stage.remarks()
        scaled = measure_scale(settings) if scale else None
    absent |= {name: ("failed", why) for name, why in stage.failed.items()}
    cells = list(settings.cells())
    return document(made, contestants, cells, samples, absent, scaled), bool(stage.failed)


def left_out(contestants: Sequence[Contestant], private_network: bool) -> dict[str, tuple[str, str]]:
    """Contestants that cannot run here -> what their rows say, and why."""
    names = {one.name for one in contestants}
    found = {
        one.contestant: ("not installed", f"no {one.lacks}: {one.fix}")
        for one in missing_peers()
        if one.contestant in names
    }
    if "mooncake" in names and not private_network:
        found.setdefault("mooncake", ("needs root", "its data ports listen on every address of the machine"))
    for name, (status, why) in found.items():
        say(f"{name}: {status}: {why}")
    return found


@contextmanager
def prepared(directory: Path) -> Iterator[None]:
    """An empty private directory that is gone at the end; one run at a time, and SIGTERM ends it as Ctrl-C does."""
    with claimed(directory.parent), stopped_by_sigterm():
        shutil.rmtree(directory, ignore_errors=True)  # what a run that was killed left
        directory.mkdir(mode=0o700)
        try:
            yield
        finally:
            shutil.rmtree(directory.parent)
