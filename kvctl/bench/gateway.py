"""`python -m kvctl.bench gateway`: what the gateway adds to a stream, and what gold notices of a bronze flood."""

import asyncio
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

from kvctl.bench.conditions import cpu_model
from kvctl.bench.gateway_load import Load, Target, Times, offer, percentile
from kvctl.bench.hosts import stopped_by_sigterm
from kvctl.bench.report import Row, rendered
from kvctl.bench.store.processes import Child, await_true, listens, module, running
from kvctl.connector.keys import Identity
from kvctl.connector.snapshotfile import write_snapshot
from kvctl.types.errors import ExitCode
from kvctl.types.snapshot import DomainView, KeyView, Sla, Snapshot, TenantView

SCHEMA = 1
SLOTS = 32  # of the engine in the second part
FIRST, EACH = 0.05, 0.02  # seconds of a token there
ADDED_P50 = 0.005  # seconds
GOLD_RATIO = 1.2
FLOOD = 5  # times bronze's share of the slots
GROWN_MIB = 16.0
SHARES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Site:
    engine: Target
    gateway: Path
    process: Child

    @property
    def ways(self) -> dict[str, Target]:
        return {"direct": self.engine, "through": Target(self.gateway, "gold")}


@click.command("gateway")
@click.option("--streams", type=click.IntRange(1, 2000), default=200, show_default=True, help="At the same time.")
@click.option("--words", type=click.IntRange(2), default=100, show_default=True, help="Tokens of an answer.")
@click.option("--pace", type=click.FloatRange(0.001, 10), default=0.2, show_default=True, help="Seconds a token.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Direct and through, in turn.")
@click.option(
    "--gold", type=click.IntRange(20), default=200, show_default=True, help="Gold requests, idle and flooded."
)
@click.option("--many", type=click.IntRange(0), default=10_000, show_default=True, help="Short streams, for memory.")
@click.option("-o", "--output", "fmt", type=click.Choice(["table", "json", "markdown"]), default="table")
def command(streams: int, words: int, pace: float, rounds: int, gold: int, many: int, fmt: str) -> int:
    """Measure the gateway against an engine without a model, all on this machine.

    \b
    Examples:
      python -m kvctl.bench gateway
      python -m kvctl.bench gateway --streams 50 --rounds 1 -o json

    Exits 1 when a stream did not come through whole, or when a target is missed.
    """
    load, at = os.getloadavg(), datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with stopped_by_sigterm(), TemporaryDirectory(prefix="kvctl-bench-gateway-") as work:
        added = measure_added(Path(work), streams, words, pace, rounds)
        fair = measure_fair(Path(work), gold, rounds)
        memory = measure_memory(Path(work), streams, many) if many else None
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "benchmark": "gateway",
        "conditions": {
            "date": at,
            "processor": f"{len(os.sched_getaffinity(0))} x {cpu_model(Path('/proc/cpuinfo').read_text())}",
            "kernel": platform.release(),
            "load before": ", ".join(f"{value:.2f}" for value in load),
            "load after": ", ".join(f"{value:.2f}" for value in os.getloadavg()),
            "streams at once": streams,
            "tokens of an answer": words,
            "seconds a token": pace,
            "rounds": rounds,
            "gold requests": gold,
        },
        "added": added,
        "fair": fair,
        "memory": memory,
        "targets": targets(added, fair, memory),
    }
    click.echo(render(found, fmt))
    wrong = added["wrong"] + (memory["wrong"] if memory else 0)
    sound = not wrong and all(one["ok"] for one in found["targets"])
    return int(ExitCode.OK if sound else ExitCode.FAILED)


def targets(
    added: Mapping[str, Any], fair: Mapping[str, Any], memory: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """What was measured against what it must reach."""
    found = [
        ("added latency p50, ms", 1000 * added["added"]["p50"], 1000 * ADDED_P50),
        ("gold p99 TTFT, flooded / idle", fair["ratio_p99"], GOLD_RATIO),
    ]
    if memory is not None:
        grown = (memory["after_bytes"] - memory["before_bytes"]) / 2**20
        found.append((f"memory grown by {memory['streams']} streams, MiB", grown, GROWN_MIB))
    return [{"name": name, "measured": value, "most": most, "ok": value <= most} for name, value, most in found]


def measure_added(work: Path, streams: int, words: int, pace: float, rounds: int) -> dict[str, Any]:
    """How long an event is on its way, straight from the engine and through the gateway; seconds.

    In turn, in `rounds`: what else the machine does meets both. What is added is the median of the rounds'.
    """
    load = Load(streams, 1, words)
    ways: dict[str, Times] = {"direct": Times(), "through": Times()}
    more: dict[str, list[float]] = {"p50": [], "p99": []}
    with started(work / "added", streams, ["--first", str(pace), "--each", str(pace)]) as site:
        memory = resident(site.process)
        for _ in range(rounds):
            both = {name: asyncio.run(offer(target, load)) for name, target in site.ways.items()}
            for name, times in both.items():
                ways[name].add(times)
            for name, share in SHARES.items():
                before, after = (percentile(times.transit, share) for times in both.values())
                more[name].append(after - before)
        grown = resident(site.process) - memory
    return {
        "transit": {name: spread(times.transit) for name, times in ways.items()},
        "first": {name: spread(times.first) for name, times in ways.items()},
        "added": {name: median(values) for name, values in more.items()},
        "wrong": sum(times.wrong for times in ways.values()),
        "gateway_memory_grown_bytes": grown,
    }


def measure_fair(work: Path, gold: int, rounds: int) -> dict[str, Any]:
    """Gold's time to the first token with nobody else, and while bronze keeps FLOOD times its share busy; seconds.

    In turn, in `rounds`: what else the machine does meets both. The ratio is the median of the rounds'.
    """
    slow = ["--first", str(FIRST), "--each", str(EACH), "--slots", str(SLOTS)]
    quiet = Load(4, gold // 4, 10)
    idle, flooded, flood, ratios = Times(), Times(), Times(), []
    with started(work / "fair", SLOTS, slow) as site:
        for _ in range(rounds):
            alone = asyncio.run(offer(Target(site.gateway, "gold"), quiet))
            beside, bronze = asyncio.run(_flooded(site, quiet))
            ratios.append(percentile(beside.first, 0.99) / percentile(alone.first, 0.99))
            for all_of_them, times in ((idle, alone), (flooded, beside), (flood, bronze)):
                all_of_them.add(times)
    return {
        "idle": spread(idle.first),
        "flooded": spread(flooded.first),
        "ratio_p99": median(ratios),
        "gold_wrong": idle.wrong + flooded.wrong,
        "bronze_served": len(flood.first),
        "bronze_refused": flood.refused,
    }


def measure_memory(work: Path, streams: int, many: int) -> dict[str, Any]:
    """What the gateway holds before and after `many` short streams, when a tenth of them has warmed it; bytes."""
    with started(work / "memory", streams, []) as site:
        target = Target(site.gateway, "gold")
        asyncio.run(offer(target, Load(streams, max(1, many // streams // 10), 4)))
        before = resident(site.process)
        each = -(-many // streams)
        times = asyncio.run(offer(target, Load(streams, each, 4)))
        after = resident(site.process)
    return {"streams": streams * each, "before_bytes": before, "after_bytes": after, "wrong": times.wrong}


async def _flooded(site: Site, quiet: Load) -> tuple[Times, Times]:
    stop = asyncio.Event()
    bronze = FLOOD * SLOTS // 2  # bronze may take half of the slots
    flood = asyncio.create_task(offer(Target(site.gateway, "bronze"), Load(bronze, 1 << 30, 50), stop))
    await asyncio.sleep(2)  # the flood stands
    gold = await offer(Target(site.gateway, "gold"), quiet)
    stop.set()
    return gold, await flood


def spread(values: list[float]) -> dict[str, float]:
    return {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99), "longest": max(values)}


def resident(child: Child) -> int:
    pages = Path(f"/proc/{child.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def started(folder: Path, slots: int, engine: list[str]) -> Iterator[Site]:
    """An engine and a gateway before it, in processes of their own."""
    folder.mkdir()
    prepare(folder, slots)
    sock, gate = folder / "engine.sock", folder / "gate.sock"
    with ExitStack() as stack:
        stub = stack.enter_context(running("engine", module("kvctl.bench.stub_serve", str(sock), *engine), folder))
        await_true(stub, "the engine answers", lambda: listens(str(sock)))
        argv = module("kvctl.gateway.main", "--config", str(folder / "gate.yaml"))
        daemon = stack.enter_context(running("kvgated", argv, folder))
        await_true(daemon, "the gateway answers", lambda: listens(str(gate)))
        yield Site(Target(sock), gate, daemon)


def prepare(folder: Path, slots: int) -> None:
    """Keys, tenants and the configuration. JSON is YAML."""
    controller = Identity.generate()
    Identity.generate().save(folder / "gate.key")
    now = int(time.time())
    tenants = (tenant("gold"), tenant("bronze"))
    snapshot = Snapshot(site="bench", number=1, issued_at=now - 1, expires_at=now + 86400, tenants=tenants)
    write_snapshot(folder / "snapshot", snapshot, controller)
    engine = {"name": "e1", "url": f"unix:{folder}/engine.sock", "models": ["tiny"], "country": "DE", "slots": slots}
    config = {
        "schema": "1",
        "gateway": "bench",
        "site": "bench",
        "listen": [f"unix:{folder}/gate.sock"],
        "admin": f"{folder}/admin.sock",
        "identity": f"{folder}/gate.key",
        "snapshot": {"path": f"{folder}/snapshot", "controllers": {"bench": controller.public.hex()}},
        "engines": [engine],
        "usage": {"directory": f"{folder}/usage"},
    }
    (folder / "gate.yaml").write_text(json.dumps(config))


def tenant(sla: Sla) -> TenantView:
    """Its key's text is its class."""
    seed = hashlib.sha256(sla.encode()).digest()
    domain = DomainView(name="user", epoch=seed[:16], salt_key=seed)
    key = KeyView(id=sla, sha256=hashlib.sha256(sla.encode()).hexdigest(), domain="user")
    return TenantView(
        name=sla, state="active", sla=sla, max_concurrent=4096, subject_key=seed, domains=(domain,), keys=(key,)
    )


def render(document: Mapping[str, Any], fmt: str) -> str:
    return rendered(document, fmt, sections, notes)


def notes(document: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    yield "Conditions", [f"- {name}: {value}" for name, value in document["conditions"].items()]


def sections(document: Mapping[str, Any]) -> Iterator[tuple[str, list[Row]]]:
    """Title and rows, the header first."""
    judged: list[Row] = [("target", "measured", "at most", "")]
    for one in document["targets"]:
        verdict = "ok" if one["ok"] else "MISSED"
        judged.append((one["name"], f"{one['measured']:.2f}", f"{one['most']:.2f}", verdict))
    yield "Targets", judged
    added, fair = document["added"], document["fair"]
    yield (
        "An event's way and the first token (ms)",
        rows({f"{way}, {what}": added[what][way] for what in ("transit", "first") for way in ("direct", "through")}),
    )
    yield "Gold's first token (ms)", rows({"idle": fair["idle"], "bronze floods": fair["flooded"]})
    memory = document.get("memory")
    if memory is not None:
        held = (memory["streams"], *(f"{memory[name] / 2**20:.1f}" for name in ("before_bytes", "after_bytes")))
        yield "What the gateway holds (MiB)", [("streams", "before", "after"), (str(held[0]), *held[1:])]
    counts = (added["wrong"] + fair["gold_wrong"], fair["bronze_served"], fair["bronze_refused"])
    grown = f"{added['gateway_memory_grown_bytes'] / 2**20:.1f}"
    header = ("streams not whole", "bronze served", "bronze refused", "gateway grew, MiB")
    yield "Counts", [header, (*map(str, counts), grown)]


def rows(found: Mapping[str, Mapping[str, float]]) -> list[Row]:
    body = [(name, *(f"{1000 * one[key]:.2f}" for key in ("p50", "p99", "longest"))) for name, one in found.items()]
    return [("", "p50", "p99", "longest"), *body]
