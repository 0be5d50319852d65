"""`python -m kvctl.bench ttft`: time to the first token through gateway, engine and stores of a lab that serves.

Each context is computed once (miss), asked for again while the engine's host tier has it (host), and once more after
the engine forgot it (store).
"""

import json
import os
import platform
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kvctl.bench.conditions import cpu_model
from kvctl.bench.report import Row, heading, heading_md, table, table_md
from kvctl.bench.ttft_chart import svg
from kvctl.fleet.lab import layout, serving, serving_demo
from kvctl.fleet.lab.serving_demo import Answer, prompt
from kvctl.fleet.lab.serving_engine import BLOCK, MODEL, engine_home, version
from kvctl.types.errors import ExitCode, UsageError

SCHEMA = "kvctl.bench.ttft/1"
CONTEXTS, QUICK_CONTEXTS = (1024, 2048, 4096, 8192, 14080), (1024, 4096)
SESSIONS, QUICK_SESSIONS = (1, 4, 16, 64), (1, 4, 16)
SESSION_TOKENS = 1024
WAYS = ("miss", "host", "store")
UNMEASURED = {
    "degraded store": "a store of the lab would have to be broken under other work; kvctl lab break does it by hand",
    "large write running": "needs a second writer that takes no processor time from the engine on the same cores",
    "flash, disk, object apart": "a lab's store decides where a chunk lies; the lab's own tiers are what was read",
}


@click.command("ttft")
@click.option("--key-file", type=click.File("r"), required=True, help="An API key of the tenant that the lab serves.")
@click.option("--quick", is_flag=True, help="Two contexts, up to 16 sessions, one round.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Of every context.")
@click.option("--svg", "chart", type=click.Path(path_type=Path), help="Draw the medians against the context's length.")
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json", "markdown"]), default="table")
def command(key_file: Any, quick: bool, rounds: int, chart: Path | None, fmt: str) -> int:
    """Measure time to the first token and between tokens on the lab that `kvctl lab serve` started.

    Exits 1 when an output differs between ways, or when a store gave less than the whole context.
    """
    files = serving.Files.of(layout.from_environment())
    if len(serving.running(files)) < len(serving.NAMES):
        raise UsageError("KV-LAB-061", "no lab is serving", fix="kvctl lab serve --tenant TENANT --key-file FILE")
    key = key_file.read().strip()
    load = os.getloadavg()
    serving_demo.store(files, key, prompt(serving_demo.WARM, secrets.token_hex(8)))
    lengths = [by_length(files, key, one, 1 if quick else rounds) for one in (QUICK_CONTEXTS if quick else CONTEXTS)]
    crowds = [by_sessions(files, key, one) for one in (QUICK_SESSIONS if quick else SESSIONS)]
    found = {
        "schema": SCHEMA,
        "conditions": conditions(load, 1 if quick else rounds),
        "contexts": lengths,
        "sessions": crowds,
        "not_measured": UNMEASURED,
    }
    if chart is not None:
        chart.write_text(svg(lengths, WAYS))
    click.echo(render(found, fmt))
    sound = all(one["identical"] and one["whole"] for one in (*lengths, *crowds))
    return int(ExitCode.OK if sound else ExitCode.FAILED)


def conditions(load: Sequence[float], rounds: int) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "processor": f"{len(os.sched_getaffinity(0))} x {cpu_model(Path('/proc/cpuinfo').read_text())}",
        "kernel": platform.release(),
        "load before": ", ".join(f"{value:.2f}" for value in load),
        "engine": f"vLLM {version(engine_home())} on CPU, float32, model {MODEL} (22 M random weights)",
        "chunk": f"{BLOCK} tokens",
        "output": f"{serving_demo.OUTPUT} tokens",
        "rounds": rounds,
        "stores": "hosts of a lab on this machine: loop devices, virtual Ethernet",
    }


def by_length(files: serving.Files, key: str, tokens: int, rounds: int) -> dict[str, Any]:
    """One session at a time: each way, of a context of so many tokens."""
    taken: dict[str, list[Answer]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        three_ways(files, key, [prompt(tokens, secrets.token_hex(8))], taken)
    return {"tokens": tokens, **summary(taken, tokens)}


def by_sessions(files: serving.Files, key: str, sessions: int) -> dict[str, Any]:
    """So many sessions at once, each with a context of its own."""
    taken: dict[str, list[Answer]] = {way: [] for way in WAYS}
    prompts = [prompt(SESSION_TOKENS, secrets.token_hex(8)) for _ in range(sessions)]
    three_ways(files, key, prompts, taken)
    return {"sessions": sessions, "tokens": SESSION_TOKENS, **summary(taken, SESSION_TOKENS)}


def three_ways(files: serving.Files, key: str, prompts: Sequence[list[int]], taken: dict[str, list[Answer]]) -> None:
    wanted = serving_demo.chunks_there(files.engine) + sum(len(ids) // BLOCK for ids in prompts)
    taken["miss"] += at_once(files, key, prompts)
    serving_demo.await_stored(files.engine, wanted)
    taken["host"] += at_once(files, key, prompts)
    serving_demo.forget(files.engine)
    taken["store"] += at_once(files, key, prompts)


def at_once(files: serving.Files, key: str, prompts: Sequence[list[int]]) -> list[Answer]:
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(lambda ids: serving_demo.complete(files.gateway, key, ids), prompts))


def summary(taken: dict[str, list[Answer]], tokens: int) -> dict[str, Any]:
    """Per way the spread of both times, in seconds; whether outputs agree; whether stores gave whole contexts."""
    ways = {
        way: {
            "first": spread([one.first for one in answers]),
            "between": spread([gap for one in answers for gap in one.gaps]),
            "cached": min(one.cached for one in answers),
        }
        for way, answers in taken.items()
    }
    least = min(one.cached for one in taken["store"])
    outputs = [[one.output for one in answers] for answers in taken.values()]
    return {
        "ways": ways,
        "identical": all(one == outputs[0] for one in outputs),
        "whole": least >= tokens // BLOCK * BLOCK,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50 and p99 by nearest rank; with few values p99 is their greatest."""
    ordered = sorted(values)
    ranks = {"p50": 50, "p99": 99}
    return {name: ordered[max(0, -(-len(ordered) * rank // 100) - 1)] for name, rank in ranks.items()} | {
        "count": len(ordered)
    }


def render(found: dict[str, Any], fmt: str) -> str:
    if fmt == "json":
        return json.dumps(found, indent=2)
    title, body = (heading_md, table_md) if fmt == "markdown" else (heading, table)
    parts = [
        f"{title('By length, one session')}\n{body(rows(found['contexts'], 'tokens'))}",
        f"{title(f'By sessions at once, {SESSION_TOKENS} tokens each')}\n{body(rows(found['sessions'], 'sessions'))}",
    ]
    for name in ("conditions", "not_measured"):
        lines = "\n".join(f"- {key}: {value}" for key, value in found[name].items())
        parts.append(f"{title(name.replace('_', ' ').capitalize())}\n{lines}")
    return "\n\n".join(parts)


def rows(parts: Sequence[dict[str, Any]], by: str) -> list[Row]:
    found: list[Row] = [(by, "way", "TTFT p50 ms", "p99 ms", "between p50 ms", "p99 ms", "least cached", "samples")]
    for part in parts:
        for way, one in part["ways"].items():
            times = [f"{1000 * one[kind][rank]:.0f}" for kind in ("first", "between") for rank in ("p50", "p99")]
            found.append((str(part[by]), way, *times, str(one["cached"]), str(one["first"]["count"])))
    return found
