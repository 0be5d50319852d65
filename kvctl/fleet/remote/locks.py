"""Who may change what: one run on the controller, one run on a node."""

import contextlib
import fcntl
import json
import os
import shlex
import socket
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.dial import Deadline
from kvctl.fleet.remote.result import Stream
from kvctl.fleet.remote.ssh import Result, Session, as_root, connect, explain
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError, LockedError, UnreachableError

NODE_LOCK = "/run/kvctl/lock"
_PATIENCE = 2.0  # a reader's test of the lock lasts microseconds; a holder's lasts a run
_BEAT = 10.0
_LATE = 60.0  # seconds in which a lock without heartbeats has surely gone
_RETURN_PATIENCE = 120.0  # for a node that reboots or changes its network
_ROUND = 0.5


def holder_json(run: str) -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"run": run, "pid": os.getpid(), "host": socket.gethostname(), "since": since}


@dataclass(frozen=True, slots=True)
class FileLock:
    """An exclusive flock on a file that names its holder. It ends with the process, however that ends."""

    path: Path
    fd: int

    def release(self) -> None:
        os.ftruncate(self.fd, 0)
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_controller(state_dir: Path, run: str) -> FileLock:
    """The lock of all changing runs of a state directory. LockedError KV-RUN-010 names who has it."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return lock_file(state_dir / "provision.lock", run)


def lock_file(path: Path, run: str) -> FileLock:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _PATIENCE
    pause = threading.Event()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() < until:
                pause.wait(0.05)
                continue
            holder = _read_holder(fd)
            os.close(fd)
            raise LockedError(
                "KV-RUN-010",
                "another run is at work",
                where=str(path),
                why=_who(holder),
                fix=f"wait, or: kvctl run cancel {holder.get('run', 'RUN')}",
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(holder_json(run)).encode(), 0)
        return FileLock(path, fd)


def _read_holder(fd: int) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        found = json.loads(os.pread(fd, 65536, 0))
        if isinstance(found, dict):
            return found
    return {}


def _who(holder: dict[str, Any]) -> str:
    if not holder:
        return "its holder did not say who it is"
    return f"run {holder.get('run')} on {holder.get('host')}, pid {holder.get('pid')}, since {holder.get('since')}"


# Runs on the node for as long as the lock is held: Python 3.9 syntax. It ends at the end of its input, which comes when
# the controller lets go or dies, or when no heartbeat came for 45 s, as after a cut path or a controller without power.
_SCRIPT = """
import fcntl, json, os, re, select, subprocess, sys
holder, run, path = sys.argv[1:4]
os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
try:
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("held " + os.pread(fd, 65536, 0).decode("utf-8", "replace").replace("\\n", " "), flush=True)
    sys.exit(0)
try:
    argv = ["systemctl", "list-units", "--plain", "--no-legend", "--no-pager", "--all", "kvctl-r-*"]
    listing = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20).stdout.decode()
except (OSError, subprocess.TimeoutExpired):
    listing = ""
for line in listing.splitlines():
    words = line.split()
    found = re.match(r"kvctl-(r-\\d{8}-\\d{6}-[0-9a-z]{4})-.*\\.(service|timer)$", words[0]) if len(words) > 3 else None
    if found and found.group(1) != run and words[2] in ("active", "activating", "deactivating", "reloading"):
        print("unit " + words[0], flush=True)
        sys.exit(0)
os.ftruncate(fd, 0)
os.pwrite(fd, holder.encode(), 0)
print("locked", flush=True)
while select.select([0], [], [], 45)[0] and os.read(0, 4096):
    pass
os.ftruncate(fd, 0)
"""


class NodeLock:
    """The node's lock /run/kvctl/lock, held by a process there for as long as this object's channel is open."""

    def __init__(self, session: Session, stream: Stream) -> None:
        self.session = session
        self._stream = stream
        self._done = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="node-lock", daemon=True)
        self._beats.start()

    def _beat(self) -> None:
        while not self._done.wait(_BEAT):
            try:
                self._stream.write(b"\n")
            except OSError:
                return  # `held` says it to whoever goes on

    @property
    def held(self) -> bool:
        return not self._done.is_set() and self._stream.alive

    def release(self) -> None:
        self._done.set()
        self._stream.close()
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class NodeBusyError(LockedError):
    """The node's lock is held. `holder` is what its holder wrote; empty when it wrote nothing."""

    holder: dict[str, Any]

    @property
    def ended(self) -> bool:
        """True when the holder was a process of this machine that is no more: its heartbeat has stopped."""
        pid = self.holder.get("pid")
        if self.holder.get("host") != socket.gethostname() or not isinstance(pid, int):
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def lock_node(target: Target, run: str, *, timeout: float = 30.0, path: str = NODE_LOCK) -> NodeLock:
    """Connect and take the node's lock. LockedError KV-RUN-011 names the holder or the other run's unit.

    A lock whose holder ended without saying so, as when its path was cut, is waited for: it lasts as long as a
    heartbeat may be late.
    """
    deadline = Deadline.after(_LATE)
    while True:
        try:
            return _take(target, run, timeout, path)
        except NodeBusyError as busy:
            if not busy.ended or deadline.over:
                raise
            time.sleep(1.0)


def _take(target: Target, run: str, timeout: float, path: str) -> NodeLock:
    session = connect(target, timeout=timeout)
    try:
        words = [shlex.quote(text) for text in (_SCRIPT.strip(), json.dumps(holder_json(run)), run, path)]
        stream = session.open(as_root(target, f"exec python3 -c {' '.join(words)}"), timeout=timeout)
        try:
            _require(target, stream.readline(timeout), stream)
        except BaseException:
            stream.close()
            raise
    except BaseException:
        session.close()
        raise
    return NodeLock(session, stream)


def _require(target: Target, answer: str, stream: Stream) -> None:
    if answer == "locked":
        return
    word, _, rest = answer.partition(" ")
    if word == "held":
        holder: dict[str, Any] = {}
        with contextlib.suppress(ValueError):  # a lock that is taken at this moment is still empty
            written = json.loads(rest)
            holder = written if isinstance(written, dict) else {}
        fix = f"kvctl run cancel {holder['run']}" if "run" in holder else "look at /run/kvctl/lock on the node"
        raise _busy(target, _who(holder), fix, holder)
    if word == "unit":
        raise _busy(target, f"the unit {rest} of another run is at work", f"wait for it: systemctl status {rest}")
    raise _unlocked(target, answer, stream)


def _unlocked(target: Target, answer: str, stream: Stream) -> KvctlError:
    said = stream.error_text()
    if answer and not said:
        return failures.garbage(target, f"the lock answered {answer[:80]!r}")
    return explain(target, "taking the node's lock", Result(1, b"", said.encode()))


def _busy(target: Target, why: str, fix: str, holder: dict[str, Any] | None = None) -> NodeBusyError:
    error = NodeBusyError("KV-RUN-011", f"{target.node} is locked", where=failures.where(target), why=why, fix=fix)
    error.holder = holder or {}
    return error


class HeldNode:
    """A node's lock over a sequence of steps; taken again when a reboot or a network change cost its connection."""

    def __init__(self, target: Target, run: str, lock: NodeLock, cancel: threading.Event) -> None:
        self._target, self._run, self._lock, self._cancel = target, run, lock, cancel

    def require(self) -> None:
        if self._lock.held:
            return
        self._lock.release()
        rounds = int(_RETURN_PATIENCE / _ROUND)
        for turn in range(rounds):
            try:
                self._lock = lock_node(self._target, self._run)
            except UnreachableError:
                if turn == rounds - 1 or self._cancel.wait(_ROUND):
                    raise
            else:
                return

    def release(self) -> None:
        self._lock.release()
