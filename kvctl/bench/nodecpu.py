"""Processor time of the lab's hosts, from their cgroups."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.types.errors import KvctlError

WINDOW = 0.25  # seconds between two looks at the counters
PATIENCE = 5.0  # seconds to wait for hosts to fall quiet after a command
IDLE_SPAN = 2.0  # seconds over which the idle rate is measured


def usage_seconds(text: str) -> float:
    """`usage_usec` of a cgroup v2 cpu.stat, in seconds (Documentation/admin-guide/cgroup-v2.rst). ValueError."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "usage_usec":
            return int(value) / 1e6
    raise ValueError("no usage_usec row")


@dataclass(frozen=True, slots=True)
class NodeCpu:
    """The counters of all hosts together. A host's cgroup holds everything that runs on it."""

    files: tuple[Path, ...]

    def total(self) -> float:
        """Seconds since the hosts booted. KV-BENCH-003 when a counter cannot be read."""
        seconds = 0.0
        for path in self.files:
            try:
                seconds += usage_seconds(path.read_text())
            except (OSError, ValueError) as error:
                raise KvctlError(
                    "KV-BENCH-003", "cannot read the processor time of a lab host", where=str(path), why=str(error),
                    fix="the host ended, or cgroup v2 is not mounted: kvctl lab up tells",
                ) from error  # fmt: skip
        return seconds

    def idle_rate(self) -> float:
        """Processor seconds a second that the hosts take by themselves."""
        before, begun = self.total(), time.monotonic()
        time.sleep(IDLE_SPAN)  # a span of nothing is what is measured
        return (self.total() - before) / (time.monotonic() - begun)

    def settled(self, idle: float) -> float:
        """The total once the hosts are about as quiet as when idle: sshd and units end after the client has gone."""
        deadline = time.monotonic() + PATIENCE
        last = self.total()
        while time.monotonic() < deadline:
            time.sleep(WINDOW)
            now = self.total()
            if now - last <= WINDOW * (2 * idle + 0.02):
                return now
            last = now
        return last


def of_machines(cgroups: Sequence[Path]) -> NodeCpu:
    return NodeCpu(tuple(path / "cpu.stat" for path in cgroups))
