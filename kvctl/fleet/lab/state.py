"""What the lab remembers between commands: which nodes it has and which processes it started."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TextIO

from kvctl.fleet.lab.layout import Layout
from kvctl.fleet.lab.processes import Started
from kvctl.types.errors import KvctlError, LockedError

SCHEMA = 1
PATIENCE = 10.0  # seconds for the lock of a command that was just killed
POLL = 0.1


@dataclass(frozen=True, slots=True)
class LabState:
    nodes: str  # as given to `up`: "gpu=1,storage=3"
    rootfs: str
    inotify_was: int | None = None  # fs.inotify.max_user_instances before the lab raised it
    supervisors: dict[str, Started] = field(default_factory=dict)
    watchers: dict[str, Started] = field(default_factory=dict)
    planted: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def with_supervisor(self, node: str, process: Started | None) -> "LabState":
        others = {k: v for k, v in self.supervisors.items() if k != node}
        return replace(self, supervisors=others if process is None else {**others, node: process})

    def with_watcher(self, node: str, process: Started | None) -> "LabState":
        others = {k: v for k, v in self.watchers.items() if k != node}
        return replace(self, watchers=others if process is None else {**others, node: process})

    def with_planted(self, node: str, faults: tuple[str, ...]) -> "LabState":
        others = {k: v for k, v in self.planted.items() if k != node}
        return replace(self, planted={**others, node: faults} if faults else others)


def read(layout: Layout) -> LabState | None:
    """None when no lab is up. KV-LAB-008 when the file is not one this version wrote."""
    try:
        text = layout.state_file.read_text()
    except FileNotFoundError:
        return None
    try:
        raw = json.loads(text)
        if raw.pop("schema") != SCHEMA:
            raise ValueError("another version of kvctl wrote it")
        raw["planted"] = {node: tuple(faults) for node, faults in raw["planted"].items()}
        for group in ("supervisors", "watchers"):
            raw[group] = {node: Started(**process) for node, process in raw[group].items()}
        return LabState(**raw)
    except (ValueError, TypeError, KeyError) as error:
        fix = "run kvctl lab down: it finds what is left by its names"
        raise KvctlError("KV-LAB-008", "cannot read the lab's state", where=str(layout.state_file), why=str(error),
                         fix=fix) from error  # fmt: skip


def write(layout: Layout, state: LabState) -> None:
    """Replace the state file at once; a crash leaves the old or the new one."""
    write_atomically(layout.state_file, json.dumps({"schema": SCHEMA, **asdict(state)}, indent=1) + "\n")


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(descriptor, "w") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    beside.replace(path)


@contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """One command changes a lab at a time; KV-LAB-009 when another one is at it.

    A forked child of a command that was killed can hold the lock for a moment longer: so it is asked for again.
    """
    layout.directory.mkdir(parents=True, exist_ok=True)
    with open(layout.directory / ".lock", "w") as lock:
        deadline = time.monotonic() + PATIENCE
        while not taken(lock):
            if time.monotonic() > deadline:
                raise LockedError(
                    "KV-LAB-009", "another kvctl lab command is running", where=str(layout.directory), fix="wait for it"
                )
            time.sleep(POLL)
        yield


def taken(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
