"""Processes that the lab started. A pid alone can be reused, so each is known by pid and start time."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.types.errors import KvctlError


@dataclass(frozen=True, slots=True)
class Started:
    """One process: `start` is field 22 of /proc/PID/stat, in clock ticks since boot (proc(5))."""

    pid: int
    start: int

    def alive(self) -> bool:
        return start_time(self.pid) == self.start


def start_time(pid: int) -> int | None:
    """When a process started; None when there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def started(pid: int) -> Started | None:
    start = start_time(pid)
    return None if start is None else Started(pid, start)


def send(process: Started, number: signal.Signals) -> bool:
    """Send a signal to exactly that process; False when it has already ended."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not process.alive():
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def await_end(process: Started, timeout: float) -> bool:
    """Wait until a process has ended; False when it has not after `timeout` seconds."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not process.alive():
            return True
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(fd)


def await_all(processes: Sequence[Started], timeout: float) -> list[Started]:
    """Those of `processes` that are still there after `timeout` seconds in all."""
    deadline = time.monotonic() + timeout
    return [p for p in processes if not await_end(p, max(0.0, deadline - time.monotonic()))]


def run(argv: Sequence[str], *, what: str, stdin: str | None = None) -> str:
    """Run a tool to its end and return what it printed; KV-LAB-005 with its complaint when it fails."""
    done = subprocess.run(list(argv), input=stdin or "", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KvctlError("KV-LAB-005", f"could not {what}", where=" ".join(argv[:4]), why=done.stderr.strip()[-800:])
    return done.stdout
