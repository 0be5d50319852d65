"""`python -m kvctl.bench ttft`: time to the first token and between tokens, of a real engine over real stores."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kvctl.bench.hosts import claimed, say, stopped_by_sigterm
from kvctl.bench.ttft import chart
from kvctl.bench.ttft.cells import FULL, QUICK, Cell, Part, Plan, Way, chosen
from kvctl.bench.ttft.clock import Clock
from kvctl.bench.ttft.conditions import conditions
from kvctl.bench.ttft.report import render
from kvctl.bench.ttft.run import INTERRUPTED, Run, ways
from kvctl.bench.ttft.site import site
from kvctl.fleet.lab import serving_engine as vllm
from kvctl.fleet.remote.processes import become_subreaper
from kvctl.types.errors import ExitCode, UsageError

DIRECTORY = Path("/var/tmp/kvctl-bench-ttft")


@click.command("ttft")
@click.option("--quick", is_flag=True, help="Few cells, one round: shows that it works, not how fast.")
@click.option("--only", metavar="NAME,...", help="Only these cells and comparisons; * and ? stand for any text.")
@click.option("--cells", "listed", is_flag=True, help="Print the names for --only, and measure nothing.")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Of every cell.")
@click.option("--minutes", type=click.FloatRange(min=1), metavar="N", help="What has not begun by then is left out.")
@click.option("--report", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Also write ttft.json, ttft.md and ttft.png there.")  # fmt: skip
@click.option("--directory", type=click.Path(path_type=Path), default=DIRECTORY, show_default=True, metavar="DIR",
              help="For the stores' files; on the drive that is to be measured.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit 1 when something that must hold does not, or was not measured.")
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json", "markdown"]), default="table")
def command(
    quick: bool,
    only: str | None,
    listed: bool,
    rounds: int | None,
    minutes: float | None,
    report: Path | None,
    directory: Path,
    strict: bool,
    fmt: str,
) -> int:
    """Measure a real vLLM with kvctl's tier over real stores: computed, restored from each tier, with failing stores.

    \b
    Examples:
      python -m kvctl.bench ttft --report out
      python -m kvctl.bench ttft --quick
      python -m kvctl.bench ttft --only 'flash/*,restore' -o json

    Exits 0 whatever the numbers are; 1 when a cell failed; 130 when it was interrupted, with what was measured so far.
    """
    plan = settled(QUICK if quick else FULL, rounds, minutes)
    cells, parts = chosen(plan, only)
    if listed:
        click.echo("\n".join([*(cell.name for cell in plan.cells() if cell in cells), *sorted(parts)]))
        return int(ExitCode.OK)
    if sys.platform != "linux":
        raise UsageError("KV-BENCH-017", "this benchmark needs Linux", why="engines and stores of it run there alone")
    found = measure(plan, cells, parts, directory)
    if report is not None:
        written(found, report)
    click.echo(render(found, fmt))
    if INTERRUPTED in found["left_out"].values():
        return int(ExitCode.INTERRUPTED)
    bad = any(cell["status"] == "failed" for cell in found["cells"]) or bool(found["left_out"])
    missed = strict and any(row["holds"] is not True for row in found["rows"])
    return int(ExitCode.FAILED if bad or missed else ExitCode.OK)


def settled(plan: Plan, rounds: int | None, minutes: float | None) -> Plan:
    if rounds is not None:
        plan = replace(plan, rounds=rounds, degraded_rounds=rounds)
    return plan if minutes is None else replace(plan, minutes=minutes)


def measure(plan: Plan, cells: frozenset[Cell], parts: frozenset[Part], directory: Path) -> dict[str, Any]:
    """The whole benchmark as a document. UsageError KV-LAB-050 when there is no engine to measure."""
    load, at = os.getloadavg(), datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    home = vllm.engine_home()
    become_subreaper()
    say(f"cells: {ways(tuple(cells))}; {plan.minutes:g} minutes at most")
    with prepared(directory) as work:
        vllm.tiny_model(home, work / "model")
        made = conditions(at, load, home, work, plan)
        run = Run(home, work, plan, cells, parts, Clock.of(plan.minutes))
        with site(work, objects=any(cell.way is Way.OBJECT for cell in cells)) as stores:
            run.measure(stores)
            return run.document(made, stores.without)


@contextmanager
def prepared(directory: Path) -> Iterator[Path]:
    """An empty private directory that is gone at the end; one run at a time, and SIGTERM ends it as Ctrl-C does."""
    work = directory / "run"
    with claimed(directory), stopped_by_sigterm():
        shutil.rmtree(work, ignore_errors=True)  # what a run that was killed left
        work.mkdir(mode=0o700)
        try:
            yield work
        finally:
            shutil.rmtree(directory)


def written(found: dict[str, Any], report: Path) -> None:
    """The three forms of a report; without matplotlib it says that and why there is no chart."""
    report.mkdir(parents=True, exist_ok=True)
    if why := chart.missing():
        found["left_out"]["chart"] = why
    else:
        chart.draw(found, report / "ttft.png")
    (report / "ttft.json").write_text(render(found, "json") + "\n")
    picture = "" if why else "![Time to first token and between tokens](ttft.png)\n\n"
    (report / "ttft.md").write_text(picture + render(found, "markdown") + "\n")
