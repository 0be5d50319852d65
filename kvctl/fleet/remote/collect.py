"""Read the facts of many nodes at once: the probe goes in over stdin, one JSON document comes back."""

import json
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.dial import Deadline
from kvctl.fleet.remote.result import Result
from kvctl.fleet.remote.ssh import Session, as_root, bounded, connect, explain
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError

STAMP = re.compile(r"\d{9,11}\.\d{9}")  # date +%s.%N


@dataclass(frozen=True, slots=True)
class Collected:
    """A node's raw document, or why there is none. Exactly one of the two is set."""

    raw: dict[str, Any] | None
    error: KvctlError | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Program:
    """What a node runs: a shell command and the bytes of its stdin."""

    command: str
    stdin: bytes


def probe() -> Program:
    """kvctl's own probe, as a zip for the node's python3."""
    from kvctl.fleet.probe import bundle

    data = bundle.zip_bytes()
    return Program(bundle.bootstrap_command(len(data)), data)


def collect(
    targets: Iterable[Target],
    *,
    concurrency: int = 32,
    timeout: float = 60.0,
    cancel: threading.Event | None = None,
    on_done: Callable[[str, Collected], None] | None = None,
    program: Program | None = None,
) -> dict[str, Collected]:
    """Documents by node name, in the targets' order. `timeout` is for one node, from connect to the last byte.

    `cancel` cuts every connection and ends the call at once; `on_done` runs in the caller's thread.
    """
    chosen = list(targets)
    if not chosen:
        return {}
    round_ = _Round(program or probe(), timeout, cancel or threading.Event())
    done: dict[str, Collected] = {}
    with ThreadPoolExecutor(min(concurrency, len(chosen)), thread_name_prefix="collect") as pool:
        waiting: dict[Future[Collected], str] = {pool.submit(round_.one, target): target.node for target in chosen}
        try:
            while waiting:
                ready, _ = wait(waiting, timeout=0.2 if cancel is not None else None, return_when=FIRST_COMPLETED)
                for future in ready:
                    node = waiting.pop(future)
                    done[node] = future.result()
                    if on_done is not None:
                        on_done(node, done[node])
                if cancel is not None and cancel.is_set():
                    round_.abort()
        except BaseException:
            round_.abort()
            raise
    return {target.node: done[target.node] for target in chosen}


class _Round:
    """One call of `collect`: what its threads share."""

    def __init__(self, program: Program, timeout: float, cancel: threading.Event) -> None:
        self._program = program
        self._timeout = timeout
        self._cancel = cancel
        self._open: set[Session] = set()
        self._lock = threading.Lock()

    def one(self, target: Target) -> Collected:
        begun = time.monotonic()
        try:
            raw, error = self._read(target), None
        except KvctlError as failure:
            raw, error = None, failure
        return Collected(raw, error, time.monotonic() - begun)

    def _read(self, target: Target) -> dict[str, Any]:
        if self._cancel.is_set():
            raise failures.unreachable(target, "cancelled before the connection")
        deadline = Deadline.after(self._timeout)
        session = connect(target, timeout=self._timeout, cancel=self._cancel)
        with self._lock:
            self._open.add(session)
        try:
            if self._cancel.is_set():
                raise failures.unreachable(target, "cancelled after the connection")
            command = as_root(target, stamped(bounded(self._program.command, self._timeout)))
            result = session.run(command, stdin=self._program.stdin, timeout=max(0.1, deadline.left()))
        finally:
            with self._lock:
                self._open.discard(session)
            session.close()
        return document(target, result)

    def abort(self) -> None:
        self._cancel.set()
        with self._lock:
            sessions = list(self._open)
        for session in sessions:
            session.abort()


def document(target: Target, result: Result) -> dict[str, Any]:
    """The probe's document out of its output, with the node's clock compared. KV-SSH-005, -006, -008, -009, -012."""
    said, _, stamp = result.err.decode("utf-8", "replace").rstrip().rpartition("\n")
    if result.rc != 0:  # a sudo that refused printed no stamp
        raise explain(target, "the probe", replace(result, err=said.encode()) if STAMP.fullmatch(stamp) else result)
    try:
        raw = json.loads(result.out)
    except ValueError as error:
        raise failures.garbage(target, f"no JSON document but {_start(result.out)}") from error
    if not isinstance(raw, dict) or raw.get("schema") != 1 or not isinstance(raw.get("host"), dict):
        raise failures.garbage(target, f"JSON, but no probe document: {_start(result.out)}")
    raw["host"]["clock_offset"] = clock_offset(stamp, result.ended_at)
    return raw


def stamped(command: str) -> str:
    """The command, then the node's clock as the last line of its stderr, with the command's status."""
    return f"sh -c {shlex.quote(command + '; rc=$?; date +%s.%N >&2; exit $rc')}"


def clock_offset(stamp: str, ended_at: float) -> dict[str, Any]:
    """Node's clock minus the controller's in seconds, as one raw leaf; the answer's transit counts as offset."""
    source = "date +%s.%N against the controller's clock"
    if not STAMP.fullmatch(stamp):
        return {"unknown": "date on the node did not print seconds and nanoseconds", "src": source}
    return {"v": round(float(stamp) - ended_at, 3), "src": source}


def _start(out: bytes) -> str:
    text = out[:80].decode("utf-8", "replace")
    return repr(text) if text else "no output at all"
