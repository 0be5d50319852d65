"""`python -m kvctl.bench ledger`: durable events a second, beside plain files that are written the same way."""

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from kvctl.bench.conditions import cpu_model
from kvctl.bench.report import Row, rendered
from kvctl.connector.keys import Identity
from kvctl.ledger import Log
from kvctl.types.errors import ExitCode

SCHEMA = 1
ORIGIN = "bench.kvctl.invalid/ledger"
CELLS = ((1, 1), (16, 1), (64, 1), (1, 64), (16, 64), (64, 64), (1, 1000))  # producers, events a call
TARGET = 50_000

Append = Callable[[Sequence[bytes]], object]


@click.command("ledger")
@click.option("--seconds", type=click.FloatRange(0.05), default=2.0, show_default=True, help="Of each measurement.")
@click.option("--bytes", "size", type=click.IntRange(1, 65_535), default=200, show_default=True, help="Of an event.")
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
              help="On the disk to be measured. [default: the system's for temporary files]")  # fmt: skip
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json", "markdown"]), default="table")
def command(seconds: float, size: int, directory: Path | None, fmt: str) -> int:
    """Append events to the ledger, a plain file and a hash chain, each durable before the call returns.

    \b
    Examples:
      python -m kvctl.bench ledger
      python -m kvctl.bench ledger --seconds 0.2 -o json

    The plain file and the chain share no fsync: every call has its own. All three run in turn, cell by cell.
    """
    click.echo(render(measure(seconds, size, directory), fmt))
    return int(ExitCode.OK)


def measure(seconds: float, size: int, directory: Path | None) -> dict[str, Any]:
    """The whole benchmark as a document; times in seconds."""
    load, at = os.getloadavg(), datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory(prefix="kvctl-bench-ledger-", dir=directory) as work, ExitStack() as stack:
        contestants = {
            name: stack.enter_context(start(Path(work) / name))
            for name, start in (("ledger", ledger), ("plain file", plain), ("hash chain", chain))
        }
        for producers, batch in CELLS:
            for name, append in contestants.items():
                found = run(append, producers, [os.urandom(size)] * batch, seconds)
                rows.append({"contestant": name, "producers": producers, "batch": batch} | found)
    best = max(row["events_per_second"] for row in rows if row["contestant"] == "ledger")
    return {
        "schema": SCHEMA,
        "benchmark": "ledger",
        "conditions": conditions(at, load, seconds, size),
        "rows": rows,
        "target": {"events_per_second": TARGET, "measured": best, "ok": best >= TARGET},
    }


@contextmanager
def ledger(directory: Path) -> Iterator[Append]:
    with Log.open(directory, ORIGIN, Identity.generate()) as log:
        yield log.append


@contextmanager
def plain(path: Path) -> Iterator[Append]:
    """Append and fdatasync, one caller at a time."""
    guard = threading.Lock()
    with path.open("ab", buffering=0) as file:

        def append(entries: Sequence[bytes]) -> None:
            with guard:
                file.write(b"".join(entries))
                os.fdatasync(file.fileno())

        yield append


@contextmanager
def chain(path: Path) -> Iterator[Append]:
    """As the plain file, each entry behind the SHA-256 of the entry and the hash before."""
    guard, head = threading.Lock(), [bytes(32)]
    with path.open("ab", buffering=0) as file:

        def append(entries: Sequence[bytes]) -> None:
            with guard:
                parts = []
                for entry in entries:
                    head[0] = sha256(head[0] + entry).digest()
                    parts += [head[0], entry]
                file.write(b"".join(parts))
                os.fdatasync(file.fileno())

        yield append


def run(append: Append, producers: int, entries: Sequence[bytes], seconds: float) -> dict[str, float]:
    """Events a second and the percentiles of a call's time, of some threads that append for some time."""
    times: list[list[float]] = [[] for _ in range(producers)]
    barrier = threading.Barrier(producers + 1)

    def produce(mine: list[float]) -> None:
        barrier.wait()
        before = time.perf_counter()
        end = before + seconds
        while before < end:
            append(entries)
            after = time.perf_counter()
            mine.append(after - before)
            before = after

    threads = [threading.Thread(target=produce, args=(mine,)) for mine in times]
    for thread in threads:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - start
    calls = sorted(one for mine in times for one in mine)
    return {
        "events_per_second": len(calls) * len(entries) / took,
        "p50": calls[len(calls) // 2],
        "p99": calls[min(len(calls) - 1, len(calls) * 99 // 100)],
    }


def conditions(at: str, load: Sequence[float], seconds: float, size: int) -> dict[str, Any]:
    return {
        "at": at,
        "cpu": cpu_model(Path("/proc/cpuinfo").read_text()),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": list(load),
        "seconds of a measurement": seconds,
        "bytes of an event": size,
    }


def render(document: Mapping[str, Any], fmt: str) -> str:
    return rendered(document, fmt, sections, notes)


def sections(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    yield "Durable events a second", cells(document["rows"])


def notes(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    target = document["target"]
    verdict = f"- best of the ledger: {target['measured']:,.0f}/s; target {target['events_per_second']:,}/s: "
    conditions = [f"- {name}: {value}" for name, value in document["conditions"].items()]
    yield "Conditions", [*conditions, verdict + ("ok" if target["ok"] else "MISSED")]


def cells(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    found: list[Row] = [("contestant", "producers", "events a call", "events/s", "p50 ms", "p99 ms")]
    for row in rows:
        numbers = (f"{row['events_per_second']:,.0f}", f"{1000 * row['p50']:.2f}", f"{1000 * row['p99']:.2f}")
        found.append((row["contestant"], str(row["producers"]), str(row["batch"]), *numbers))
    return found
