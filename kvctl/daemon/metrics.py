"""Samples in Prometheus' text format 0.0.4, and those of the process itself."""

import os
import resource
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, Labels, float]
Families = Mapping[str, tuple[str, str]]  # name -> type and help
PROCESS = {
    "process_resident_memory_bytes": ("gauge", "Resident memory."),
    "process_cpu_seconds_total": ("counter", "CPU time, user and system."),
    "process_open_fds": ("gauge", "Open file descriptors."),
    "process_max_fds": ("gauge", "Most file descriptors that may be open."),
    "process_threads": ("gauge", "Threads."),
}


def histogram(
    name: str, labels: Labels, limits: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[Sample]:
    """`counts`: how many a bucket, the last one beyond all `limits`; `total`: the sum of what was observed."""
    seen = 0
    for limit, count in zip([*map(str, limits), "+Inf"], counts, strict=True):
        seen += count
        yield f"{name}_bucket", (*labels, ("le", limit)), seen
    yield f"{name}_sum", labels, total
    yield f"{name}_count", labels, seen


def process() -> Iterator[Sample]:
    """This process, from /proc (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "process_resident_memory_bytes", (), pages * resource.getpagesize()
    yield "process_cpu_seconds_total", (), used.ru_utime + used.ru_stime
    yield "process_open_fds", (), len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a number, not paths
    yield "process_max_fds", (), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    yield "process_threads", (), threading.active_count()


def render(samples: Iterable[Sample], known: Families) -> str:
    """Families in order of their names, each with its help and type."""
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        family = name if name in known else name.rpartition("_")[0]  # a histogram's _bucket, _sum and _count
        text = ",".join(f'{key}="{_escape(part)}"' for key, part in labels)
        shown = f"{name}{{{text}}}" if text else name
        families.setdefault(family, []).append(f"{shown} {value:.17g}")
    lines = []
    for family, rows in sorted(families.items()):
        kind, about = known[family]
        lines += [f"# HELP {family} {about}", f"# TYPE {family} {kind}", *rows]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
