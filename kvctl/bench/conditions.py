"""What must be known about a machine to read a number that was measured on it."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("kvctl", "ansible-core", "ansible-runner", "pyinfra", "paramiko", "click", "duckdb")


def conditions(*, at: str, hosts: int, rounds: int, load_before: tuple[float, float, float]) -> dict[str, Any]:
    """Versions, processor, kernel; `load_before` is the load of 1, 5 and 15 minutes before the hosts were booted."""
    return {
        "at": at,
        "hosts": hosts,
        "rounds": rounds,
        "cpu": cpu_model(Path("/proc/cpuinfo").read_text()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "load_before": list(load_before),
        "versions": {"python": platform.python_version(), "ssh": ssh_version()} | {p: version(p) for p in PACKAGES},
    }


def cpu_model(cpuinfo: str) -> str:
    """The processor's name in /proc/cpuinfo (proc(5)); the machine type where it has none, as on many ARM machines."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return f"{platform.machine()}, no model name in /proc/cpuinfo"


def ssh_version() -> str:
    done = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False)
    return done.stderr.strip() or "unknown: ssh -V printed nothing"
