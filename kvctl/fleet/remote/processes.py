"""Processes of a run on this machine, found in /proc: workers leave their group and session, but not their parents."""

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
RUN_MARKER = "KVCTL_RUN"


def become_subreaper() -> None:
    """Orphans among the descendants become this process's children instead of init's (prctl(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "prctl(PR_SET_CHILD_SUBREAPER)")


def parents() -> dict[int, tuple[int, str]]:
    """Every process's parent and state letter, from /proc/PID/stat."""
    table: dict[int, tuple[int, str]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a Path for each of many processes is what costs here
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # the command's name may hold blanks and parentheses, so what counts starts after the last one
            fields = Path(f"/proc/{entry}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
            table[int(entry)] = (int(fields[1]), fields[0])
    return table


def descendants(root: int) -> list[int]:
    """Live descendants of `root`, children first; zombies are left out."""
    table = parents()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        for pid in children.get(queue.pop(0), []):
            queue.append(pid)
            if table[pid][1] != "Z":
                found.append(pid)
    return found


def marked(name: str, value: str, among: Iterable[int]) -> list[int]:
    """Those whose environment holds name=value."""
    wanted = f"{name}={value}".encode()
    found = []
    for pid in among:
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def command_lines() -> list[tuple[int, bytes]]:
    """Every process with its /proc/PID/cmdline."""
    found = []
    for pid in parents():
        with contextlib.suppress(OSError):
            found.append((pid, Path(f"/proc/{pid}/cmdline").read_bytes()))
    return found


def end_all(find: Callable[[], list[int]], *, grace: float = 3.0, patience: float = 10.0) -> list[int]:
    """SIGTERM what `find` gives, then SIGKILL what is left after `grace`; returns what outlived `patience`.

    `find` is asked again each time: a dying parent hands over children that nobody has seen yet.
    """
    begun = time.monotonic()
    pause = threading.Event()
    warned: set[int] = set()
    while alive := find():
        passed = time.monotonic() - begun
        if passed > patience:
            return alive
        for pid in alive:
            if passed > grace:
                send(pid, signal.SIGKILL)
            elif pid not in warned:
                send(pid, signal.SIGTERM)
                warned.add(pid)
        reap_orphans()
        pause.wait(0.1)
    return []


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


_known: set[int] = set()
_known_lock = threading.Lock()


def expect(pid: int) -> None:
    """A child that somebody waits for: `reap_orphans` must leave its status alone."""
    with _known_lock:
        _known.add(pid)


def forget(pid: int) -> None:
    with _known_lock:
        _known.discard(pid)


def reap_orphans() -> None:
    """Collect zombies that a subreaper inherited."""
    me = os.getpid()
    zombies = [pid for pid, (parent, state) in parents().items() if parent == me and state == "Z"]
    for pid in zombies:
        with _known_lock:
            mine = pid in _known
        if not mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
