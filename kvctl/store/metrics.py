"""Counters and histograms in Prometheus' text format 0.0.4."""

import os
import resource
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
FAMILIES = {
    "kvstored_requests_total": ("counter", "Requests by operation and how they ended."),
    "kvstored_chunks_total": ("counter", "Chunks asked for or sent, by operation and what became of each."),
    "kvstored_bytes_total": ("counter", "Sealed bytes sent (get) and taken (put)."),
    "kvstored_request_seconds": ("histogram", "From a request's first byte to its answer's last, seconds."),
    "kvstored_refusals_total": ("counter", "Connections, sessions and requests refused, by reason."),
    "kvstored_connections_total": ("counter", "Connections taken."),
    "kvstored_sessions": ("gauge", "Authenticated sessions."),
    "kvstored_half_open": ("gauge", "Connections that have not proved who they are."),
    "kvstored_draining": ("gauge", "1 while no request is taken."),
    "kvstored_log_lines_lost_total": ("counter", "Log lines that stderr did not take."),
    "kvstored_tier_capacity_bytes": ("gauge", "Bytes that a tier's chunks may take."),
    "kvstored_tier_used_bytes": ("gauge", "Bytes that a tier's chunks take, padding and headers included."),
    "kvstored_tier_chunks": ("gauge", "Chunks of a tier."),
    "kvstored_tier_writable": ("gauge", "1 when a tier takes chunks."),
    "kvstored_tier_events": ("counter", "What a tier counts (quarantined, read_errors, ...), since the start."),
    "kvstored_place_ok": ("gauge", "1 when a mount or bucket can be read."),
    "kvstored_ram": ("gauge", "The RAM in front of the tiers: its numbers by name, bytes or chunks."),
    "kvstored_store_events": ("counter", "What the store counts (evictions, ...), since the start."),
    "process_resident_memory_bytes": ("gauge", "Resident memory."),
    "process_cpu_seconds_total": ("counter", "CPU time, user and system."),
    "process_open_fds": ("gauge", "Open file descriptors."),
    "process_max_fds": ("gauge", "Most file descriptors that may be open."),
    "process_threads": ("gauge", "Threads."),
}
Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]


class Metrics:
    """Counts from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[str, list[int]] = {}  # by op: a count a bucket, the last one beyond all
        self._sums: dict[str, float] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        key = (name, tuple(labels.items()))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + amount

    def request(self, op: str, status: str, seconds: float) -> None:
        key = ("kvstored_requests_total", (("op", op), ("status", status)))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1
            buckets = self._histograms.setdefault(op, [0] * (len(BUCKETS) + 1))
            buckets[bisect_left(BUCKETS, seconds)] += 1
            self._sums[op] = self._sums.get(op, 0.0) + seconds

    def value(self, name: str, **labels: str) -> float:
        with self._lock:
            return self._counts.get((name, tuple(labels.items())), 0)

    def samples(self) -> list[Sample]:
        """Everything counted so far."""
        with self._lock:
            counts = [(name, labels, value) for (name, labels), value in self._counts.items()]
            histograms = {op: list(buckets) for op, buckets in self._histograms.items()}
            sums = dict(self._sums)
        for op, buckets in histograms.items():
            counts += _histogram("kvstored_request_seconds", op, buckets, sums[op])
        return counts


def _histogram(name: str, op: str, buckets: list[int], total: float) -> Iterator[Sample]:
    seen = 0
    for limit, count in zip([*map(str, BUCKETS), "+Inf"], buckets, strict=True):
        seen += count
        yield f"{name}_bucket", (("op", op), ("le", limit)), seen
    yield f"{name}_sum", (("op", op),), total
    yield f"{name}_count", (("op", op),), seen


def process() -> Iterator[Sample]:
    """This process, from /proc (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "process_resident_memory_bytes", (), pages * resource.getpagesize()
    yield "process_cpu_seconds_total", (), used.ru_utime + used.ru_stime
    yield "process_open_fds", (), len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a number, not paths
    yield "process_max_fds", (), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield "process_threads", (), threading.active_count()


def render(samples: Iterable[Sample]) -> str:
    """Families in order of their names, each with its help and type."""
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        family = name if name in FAMILIES else name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        text = ",".join(f'{key}="{_escape(part)}"' for key, part in labels)
        shown = f"{name}{{{text}}}" if text else name
        families.setdefault(family, []).append(f"{shown} {value:.17g}")
    lines = []
    for family, rows in sorted(families.items()):
        kind, about = FAMILIES[family]
        lines += [f"# HELP {family} {about}", f"# TYPE {family} {kind}", *rows]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
