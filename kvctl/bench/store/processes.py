"""Servers and clients of a benchmark: each in a process group of its own, and ended as one."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kvctl.bench.meter import tail
from kvctl.fleet.remote.processes import descendants
from kvctl.types.errors import KvctlError

GRACE = 10.0  # seconds from SIGTERM to SIGKILL
START_SECONDS = 60.0
POLL = 0.02


@dataclass(frozen=True, slots=True)
class Child:
    """A process that the benchmark started, and whatever that started: its group has its pid as number."""

    label: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def tree(self) -> tuple[int, ...]:
        return (self.process.pid, *descendants(self.process.pid))

    def failed(self, why: str) -> KvctlError:
        return failed(self.label, str(self.log), "\n".join(filter(None, [f"it {why}", tail(self.log)])))


def failed(label: str, where: str, why: str) -> KvctlError:
    """A server, client or tool that did not do its part; `why` ends with what it said itself."""
    fix = "its own message is above; --only leaves contestants out"
    return KvctlError("KV-BENCH-012", f"{label} failed", where=where, why=why, fix=fix)


@contextmanager
def running(
    label: str, argv: Sequence[str], directory: Path, *, env: Mapping[str, str] | None = None, pipes: bool = False
) -> Iterator[Child]:
    """Start a process that writes to `directory`/`label`.log, and end its group at the end, also after a failure."""
    log = directory / f"{label}.log"
    if shutil.which("setpriv"):  # a benchmark that is killed takes what it started along
        argv = ["setpriv", "--pdeathsig", "KILL", *argv]
    pipe = subprocess.PIPE if pipes else None
    with open(log, "wb") as out:
        process = subprocess.Popen(
            argv, cwd=directory, env=dict(os.environ if env is None else env), start_new_session=True,
            stdin=pipe or subprocess.DEVNULL, stdout=pipe or out, stderr=out,
        )  # fmt: skip
    try:
        yield Child(label, process, log)
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        end_group(process)


def module(name: str, *args: str) -> list[str]:
    """The command line of a part of kvctl in a process of its own."""
    return [sys.executable, "-m", name, *args]


def end_group(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM the process's group, SIGKILL what is left of it after GRACE seconds, and collect it."""
    begun, number, pause = time.monotonic(), signal.SIGTERM, threading.Event()
    sent = None
    while group_alive(process):
        if number != sent:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            sent = number
        pause.wait(POLL)
        if time.monotonic() - begun > GRACE:
            number = signal.SIGKILL
    process.wait()


def group_alive(process: subprocess.Popen[bytes]) -> bool:
    """Whether anything of a group still runs. Orphans are collected: the benchmark is their subreaper."""
    process.poll()
    with contextlib.suppress(ChildProcessError):
        while process.returncode is not None and os.waitpid(-process.pid, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def await_true(child: Child, what: str, check: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    """Wait for a condition; KV-BENCH-012 when the process ends or the time is up before it holds."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not check():
        if child.process.poll() is not None:
            raise child.failed(f"ended with {child.process.returncode} before {what}")
        if time.monotonic() > deadline:
            raise child.failed(f"did not reach this in {seconds:.0f} s: {what}")
        pause.wait(POLL)


def await_line(child: Child, word: bytes) -> None:
    """Read one line of a child that has pipes; KV-BENCH-012 for another line or its end."""
    line = child.stdout.readline().strip()
    if line != word:
        raise child.failed(f"said {line.decode(errors='replace')!r} where {word.decode()!r} was due")


def listens(address: str) -> bool:
    """Whether "HOST:PORT", or a socket's path, takes connections."""
    try:
        connect(address).close()
    except OSError:
        return False
    return True


def connect(address: str) -> socket.socket:
    """A stream to "HOST:PORT" or to a unix socket's path, with the system's own buffer sizes."""
    if address.startswith("/"):
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.connect(address)
        return stream
    host, _, port = address.rpartition(":")
    stream = socket.create_connection((host, int(port)))
    stream.settimeout(None)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]
