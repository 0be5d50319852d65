"""A run's truth: fsynced JSON Lines in its directory, readable and cancellable without a database."""

import contextlib
import fcntl
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from kvctl.fleet.remote.failures import CODES
from kvctl.types.errors import KvctlError

RUN_ID = re.compile(r"^r-\d{8}-\d{6}-[0-9a-z]{4}$")
FILE, LOCK, CANCEL = "journal.jsonl", "lock", "cancel"


def new_run_id(now: datetime) -> str:
    """r-YYYYMMDD-HHMMSS-xxxx in UTC: later runs sort later."""
    return f"r-{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def run_directories(state_dir: Path) -> list[Path]:
    """The directories of all runs that began, oldest first; one without a journal was cut before it did anything."""
    root = state_dir / "runs"
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if RUN_ID.match(path.name) and (path / FILE).is_file())


class Journal:
    """The one writer of a run's journal. Safe to call from several threads."""

    def __init__(self, run_dir: Path) -> None:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = run_dir / FILE
        self._lock = threading.Lock()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._seq = self._mend()
        _fsync_directory(run_dir)

    def _mend(self) -> int:
        """Cut a torn last line, which was never acknowledged, and return the last number used."""
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) != len(data):
            os.ftruncate(self._fd, len(whole))
        return max((int(event.get("seq", 0)) for event in _events(whole)), default=0)

    def append(self, event: str, **data: Any) -> int:
        """Write one event and wait until it is on the disk; returns its number. KV-RUN-012 when it is not."""
        with self._lock:
            seq = self._seq + 1
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = json.dumps({"seq": seq, "at": at, "event": event, **data}, separators=(",", ":")) + "\n"
            begun = os.lseek(self._fd, 0, os.SEEK_END)
            try:
                self._write(line.encode())
                os.fsync(self._fd)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, begun)  # else the next line would follow half of this one
                raise _unwritable(self.path, error) from error
            self._seq = seq
            return seq

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unwritable(path: Path, error: OSError) -> KvctlError:
    return KvctlError(
        "KV-RUN-012",
        CODES["KV-RUN-012"],
        where=str(path),
        why=error.strerror or str(error),
        fix="free space on the controller, then kvctl run resume",
    )


def _fsync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class RunState(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # nobody is at work on it and it never said how it ended


class StepState(StrEnum):
    TODO = "todo"
    RUNNING = "running"  # or was, when the run was cut: for a unit, it may still be at work on the node
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(slots=True)
class StepView:
    id: str
    node: str = ""
    role: str = ""
    verb: str = ""
    state: StepState = StepState.TODO
    started: str = ""
    ended: str = ""
    unit: str = ""  # name on the node, when the step must not be cut
    changed: list[dict[str, str]] = field(default_factory=list)
    error: dict[str, Any] = field(default_factory=dict)  # KvctlError.as_dict
    why: str = ""  # of a skip


@dataclass(slots=True)
class NodeView:
    name: str
    state: str = ""  # "" | unreachable | drained | returned
    why: str = ""


@dataclass(slots=True)
class RunView:
    run: str
    directory: Path
    state: RunState = RunState.INTERRUPTED
    plan: str = ""
    started: str = ""
    ended: str = ""
    cancel_requested: bool = False
    holder: dict[str, Any] = field(default_factory=dict)  # the live supervisor
    steps: dict[str, StepView] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    events: int = 0

    def in_state(self, *states: StepState) -> list[StepView]:
        return [step for step in self.steps.values() if step.state in states]


def load(run_dir: Path) -> RunView:
    """What a run did. KvctlError KV-RUN-013 when there is no journal; a torn last line is passed over."""
    holder = live_holder(run_dir)  # before the journal: a run that ends in between has its last event in it
    view = RunView(run_dir.name, run_dir)
    for event in read_events(run_dir):
        apply(view, event)
    if holder is not None:
        view.holder = holder
        if not view.ended:
            view.state = RunState.RUNNING
    return view


def read_events(run_dir: Path, after: int = 0) -> Iterator[dict[str, Any]]:
    """Events with a number above `after`."""
    path = run_dir / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise KvctlError(
            "KV-RUN-013", f"there is no run {run_dir.name}", where=str(path), fix="kvctl run ls"
        ) from error
    for event in _events(data):
        if int(event.get("seq", 0)) > after:
            yield event


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    lines = data.split(b"\n")
    for line in lines[:-1]:  # what follows the last newline is torn or empty
        if not line:
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            raise KvctlError(
                "KV-RUN-013",
                CODES["KV-RUN-013"],
                why=f"line {line[:60]!r} is not JSON",
                fix="the disk or an editor spoilt it",
            ) from error
        if isinstance(event, dict):
            yield event


def apply(view: RunView, event: dict[str, Any]) -> None:
    """Fold one event into the view."""
    view.events = int(event["seq"])
    name, at = str(event["event"]), str(event["at"])
    if name.startswith(("step.", "unit.")):
        _apply_step(view, name, at, event)
    elif name.startswith("node."):
        node = str(event["node"])
        view.nodes[node] = NodeView(node, name.removeprefix("node."), str(event.get("why", "")))
    elif name == "run.started":
        view.started, view.plan = at, str(event.get("plan", ""))
        for planned in event.get("steps", []):
            view.steps[planned["id"]] = StepView(planned["id"], planned["node"], planned["role"], planned["verb"])
    elif name == "run.resumed":
        view.ended, view.state, view.cancel_requested = "", RunState.INTERRUPTED, False
        for step in view.steps.values():
            if step.state is StepState.SKIPPED:
                step.state, step.why = StepState.TODO, ""
    elif name == "run.cancel-requested":
        view.cancel_requested = True
    elif name == "run.finished":
        view.ended, view.state = at, RunState(event["state"])


def _apply_step(view: RunView, name: str, at: str, event: dict[str, Any]) -> None:
    step = view.steps.setdefault(str(event["step"]), StepView(str(event["step"]), str(event.get("node", ""))))
    if name == "step.started":
        step.state, step.started, step.ended, step.error, step.why = StepState.RUNNING, at, "", {}, ""
    elif name in ("unit.started", "unit.attached"):
        step.unit = str(event["unit"])
    elif name == "step.finished":
        step.state, step.ended, step.changed = StepState.DONE, at, list(event.get("changed", []))
    elif name == "step.failed":
        step.state, step.ended, step.error = StepState.FAILED, at, dict(event.get("error", {}))
    elif name == "step.skipped":
        step.state, step.why = StepState.SKIPPED, str(event.get("why", ""))
    elif name == "step.cut":
        step.ended, step.why = at, str(event.get("why", ""))
        step.state = StepState.RUNNING if step.unit else StepState.TODO


def live_holder(run_dir: Path) -> dict[str, Any] | None:
    """Who is at work on the run, or None. A shared lock that is given back at once is the test."""
    try:
        fd = os.open(run_dir / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = (run_dir / LOCK).read_text("utf-8", errors="replace")
        with contextlib.suppress(ValueError):
            holder = json.loads(text)
            if isinstance(holder, dict):
                return holder
        return {}
    finally:
        os.close(fd)
    return None
