"""What must be known to read the numbers."""

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvctl.bench.conditions import cpu_model
from kvctl.bench.store.conditions import disk, packages
from kvctl.bench.ttft import between, site
from kvctl.bench.ttft.cells import CHUNK, Plan
from kvctl.bench.ttft.engine import ROW, TOKENS_PER_SECOND
from kvctl.fleet.lab import serving_engine as vllm
from kvctl.fleet.lab.serving_demo import OUTPUT

ROWS = 160  # chunks of the host tier where cells are measured
FEW_ROWS = 16  # where it is to forget what it had


def conditions(at: str, load: Sequence[float], home: Path, directory: Path, plan: Plan) -> Mapping[str, Any]:
    mib = ROW / 2**20
    return {
        "date": at,
        "processor": f"{len(os.sched_getaffinity(0))} x {cpu_model(Path('/proc/cpuinfo').read_text())}, shared by "
        "engine, stores and client",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "kernel": platform.release(),
        "load before": ", ".join(f"{value:.2f}" for value in load),
        "engine": f"vLLM {vllm.version(home)} on CPU, float32, eager, its own prefix cache off",
        "model": "22 M random weights (6 layers, 8 heads, 2 of K and V, 64 wide)",
        "chunk": f"{CHUNK} tokens, {mib:g} MiB",
        "output": f"{OUTPUT} tokens a request, greedy",
        "host tier": f"{ROWS} chunks, {FEW_ROWS} for the comparisons; a context of 14336 tokens is 14",
        "tier": f"kvctl's defaults, but lease_ms {site.LEASE_MS}, assumed_tokens_per_second {TOKENS_PER_SECOND}",
        "stores": "kvstored over TCP on loopback; memory, flash, disk and object tier in one; what a tier gives was in "
        "no memory of the store",
        "flash and disk": f"both {disk(directory)}: two tiers on one drive",
        "object": "SeaweedFS on the same drive, over S3",
        "large write": f"sealed chunks into the same store at {site.WRITE_RATE / 1e6:g} MB/s",
        "failing stores": f"two, {site.STRIPE} chunks of a context in turn, behind a relay; slow: "
        f"{site.SLOW_RATE / 1e6:g} MB/s together; stopped: SIGSTOP; gone: one killed; longest contexts first",
        "inter-token comparison": f"windows of {between.STREAMS} streams of {plan.streamed} tokens; "
        f"another request every {between.EVERY:g} s",
        "rounds": f"{plan.rounds}; failing stores {plan.degraded_rounds}; comparisons {plan.starts} engine starts x "
        f"{plan.repetitions}, inter-token {plan.between}",
        "percentiles": "nearest rank over all sessions and rounds: with few samples p99 is the greatest",
        "versions": {"python": platform.python_version()} | packages(),
    }
