"""`python -m kvctl.bench pool`: what it costs a pool of stores to lose one."""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from kvctl.bench.conditions import cpu_model
from kvctl.bench.hosts import stopped_by_sigterm
from kvctl.bench.pool_loss import Prompts, fields, measure_loss, model, summary
from kvctl.bench.pool_site import Spread, started
from kvctl.bench.pool_times import STRIPE, measure_times
from kvctl.bench.report import Row, heading, heading_md, table, table_md
from kvctl.connector.placement import MAX_STRIPE
from kvctl.fleet.remote.processes import become_subreaper
from kvctl.types.chunks import KEY_BYTES
from kvctl.types.errors import ExitCode, UsageError

SCHEMA = 1
WHOLE = "whole"
COPIES = (1, 2)


@click.command("pool")
@click.option("--nodes", type=click.IntRange(2, 16), default=5, show_default=True, help="kvstored processes.")
@click.option("--prompts", type=click.IntRange(1), default=100, show_default=True, help="Stored for each layout.")
@click.option("--chunks", type=click.IntRange(1, 4096), default=32, show_default=True, help="Of a prompt.")
@click.option("--bytes", "size", type=click.IntRange(32, 1 << 22), default=4096, show_default=True, help="Of a chunk.")
@click.option("--stripes", default=f"1,4,16,{WHOLE}", show_default=True, metavar="N,...", help="Layouts to measure.")
@click.option("--calls", type=click.IntRange(1), default=200, show_default=True, help="Timed in each phase.")
@click.option("--deadline", type=click.FloatRange(0.05, 60), default=0.5, show_default=True, help="Of a timed call, s.")
@click.option("--model", is_flag=True, help="Only what chance says, for any size: nothing is started.")
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
              help="For the stores' files. [default: the system's for temporary files]")  # fmt: skip
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json", "markdown"]), default="table")
def command(
    nodes: int,
    prompts: int,
    chunks: int,
    size: int,
    stripes: str,
    calls: int,
    deadline: float,
    model: bool,
    directory: Path | None,
    fmt: str,
) -> int:
    """Lose each store of a pool in turn, under load, and compare what is left with what placement predicts.

    \b
    Examples:
      python -m kvctl.bench pool
      python -m kvctl.bench pool --prompts 20 --calls 20 -o json
      python -m kvctl.bench pool --model --chunks 512 --stripes 1,8,64,whole

    Exits 1 when a reader got a wrong byte or an exception, or when other chunks were lost than the map says.
    """
    if size % KEY_BYTES:
        raise UsageError("KV-BENCH-023", f"--bytes {size}: a multiple of {KEY_BYTES} is needed")
    layouts = [Spread(copies, stripe) for copies in COPIES for stripe in parse_stripes(stripes)]
    if model:
        click.echo(render(predict(layouts, chunks, nodes), fmt))
        return int(ExitCode.OK)
    found = measure(layouts, Prompts(prompts, chunks, size), nodes, calls, deadline, directory)
    click.echo(render(found, fmt))
    reads = found["reads"]
    sound = not reads["wrong"] and not reads["raised"] and all(row["as_the_map_says"] for row in found["loss"])
    return int(ExitCode.OK if sound else ExitCode.FAILED)


def parse_stripes(text: str) -> list[int]:
    """Chunks of a run; `whole` is more than any prompt has. UsageError KV-BENCH-023."""
    found = []
    for word in text.split(","):
        if word != WHOLE and not (word.isascii() and word.isdigit() and 0 < int(word) <= MAX_STRIPE):
            raise UsageError(
                "KV-BENCH-023", f"--stripes {word[:40]!r}", why=f"a stripe is 1 to {MAX_STRIPE} chunks, or {WHOLE}"
            )
        found.append(MAX_STRIPE if word == WHOLE else int(word))
    return found


def predict(layouts: Sequence[Spread], chunks: int, nodes: int) -> dict[str, Any]:
    """The model's part of the document alone."""
    rows = [
        {"copies": spread.copies, "stripe": spread.label, "model": fields(model(spread, chunks, nodes))}
        for spread in layouts
    ]
    return {
        "schema": SCHEMA,
        "benchmark": "pool-model",
        "conditions": {"nodes": nodes, "chunks of a prompt": chunks},
        "model": rows,
    }


def measure(
    layouts: Sequence[Spread], prompts: Prompts, nodes: int, calls: int, deadline: float, directory: Path | None
) -> dict[str, Any]:
    """The whole benchmark as a document; times in seconds, shares from 0 to 1."""
    load, at = os.getloadavg(), datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    become_subreaper()
    with stopped_by_sigterm(), TemporaryDirectory(prefix="kvctl-bench-pool-", dir=directory) as work:
        with started(Path(work) / "loss", nodes) as site:
            outcomes, reads = measure_loss(site, layouts, prompts)
        with started(Path(work) / "times", nodes) as site:
            times = measure_times(site, prompts, calls, deadline)
    return {
        "schema": SCHEMA,
        "benchmark": "pool",
        "conditions": conditions(at, load, prompts, nodes, calls, deadline),
        "loss": summary(outcomes, prompts, nodes),
        "reads": {"chunks": reads.chunks, "hits": reads.hits, "wrong": reads.wrong, "raised": reads.raised},
        "times": times,
    }


def conditions(
    at: str, load: Sequence[float], prompts: Prompts, nodes: int, calls: int, deadline: float
) -> dict[str, Any]:
    return {
        "date": at,
        "processor": f"{len(os.sched_getaffinity(0))} x {cpu_model(Path('/proc/cpuinfo').read_text())}",
        "kernel": platform.release(),
        "load before": ", ".join(f"{value:.2f}" for value in load),
        "nodes": nodes,
        "prompts of each layout": prompts.count,
        "chunks of a prompt": prompts.length,
        "bytes of a chunk": prompts.size,
        "timed calls of a phase": calls,
        "deadline of a timed call, s": deadline,
        "stripe of the timed prompts": STRIPE,
    }


def render(document: Mapping[str, Any], fmt: str) -> str:
    """`fmt` is table, json or markdown."""
    if fmt == "json":
        return json.dumps(document, indent=2)
    title, body = (heading_md, table_md) if fmt == "markdown" else (heading, table)
    parts = [f"{title(name)}\n{body(rows)}" for name, rows in sections(document)]
    notes = [f"- {name}: {value}" for name, value in document["conditions"].items()]
    return "\n\n".join([*parts, f"{title('Conditions')}\n" + "\n".join(notes)])


def sections(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    """Title and rows, the header first."""
    conditions = document["conditions"]
    if "model" in document:
        yield f"One of {conditions['nodes']} stores lost, expected", modelled(document["model"])
        return
    yield f"One of {conditions['nodes']} stores lost, each in turn", losses(document["loss"])
    reads = document["reads"]
    yield (
        "Reads while stores were killed",
        [
            ("chunks asked for", "hits", "wrong bytes", "exceptions"),
            (str(reads["chunks"]), str(reads["hits"]), str(reads["wrong"]), str(len(reads["raised"]))),
        ],
    )
    yield "Calls for a whole prompt (times in ms)", calls_of(document["times"])


def losses(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Measured, and in brackets the model and one standard error of a mean over so many prompts."""
    rows: list[Row] = [
        ("copies, stripe", "chunks lost, %", "prompts broken, %", "usable prefix, chunks", "as the map says")
    ]
    for row in found:
        parts = [(row["measured"][name], row["model"][name], row["standard_error"][name]) for name in NAMES]
        cells = [
            shown(100 * one, 100 * model, 100 * error) if name != "usable" else shown(one, model, error)
            for name, (one, model, error) in zip(NAMES, parts, strict=True)
        ]
        rows.append((f"{row['copies']}, {row['stripe']}", *cells, "yes" if row["as_the_map_says"] else "NO"))
    return rows


def modelled(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    rows: list[Row] = [("copies, stripe", "chunks lost, %", "prompts broken, %", "usable prefix, chunks")]
    for row in found:
        mean = row["model"]
        cells = (f"{100 * mean['chunks']:.1f}", f"{100 * mean['broken']:.1f}", f"{mean['usable']:.1f}")
        rows.append((f"{row['copies']}, {row['stripe']}", *cells))
    return rows


NAMES = ("chunks", "broken", "usable")


def shown(measured: float, model: float, error: float) -> str:
    return f"{measured:.1f} ({model:.1f} ± {error:.1f})"


def calls_of(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    rows: list[Row] = [("copies, store, call", "p50", "p99", "longest", "slow calls", "found, %")]
    for row in found:
        times = (f"{1000 * row[name]:.1f}" for name in ("p50", "p99", "longest"))
        name = f"{row['copies']}, {row['phase']}, {row['call'].upper()}"
        rows.append((name, *times, str(row["slow"]), f"{100 * row['found']:.1f}"))
    return rows
