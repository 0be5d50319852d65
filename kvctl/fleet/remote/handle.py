"""Start, resume, watch and cancel a run from another process."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.fleet.remote import journal
from kvctl.fleet.remote.ansible import PACKAGE_ROOT
from kvctl.fleet.remote.options import Options
from kvctl.types import codec
from kvctl.types.errors import ExitCode, KvctlError, LockedError, RefusedError, UnreachableError, UsageError
from kvctl.types.plans import Plan

PLAN, OPTIONS, LOG = "plan.json", "options.json", "supervisor.log"
_KINDS: dict[int, type[KvctlError]] = {
    ExitCode.USAGE: UsageError,
    ExitCode.UNREACHABLE: UnreachableError,
    ExitCode.REFUSED: RefusedError,
    ExitCode.LOCKED: LockedError,
}


@dataclass
class RunHandle:
    """A supervisor that this process started. When this process ends, or calls `cancel`, the run is cut, unless it
    is detached."""

    run: str
    run_dir: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def events(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """The journal's events as they come, until the supervisor has ended."""
        assert self.process.stdout is not None
        while True:
            woken = self.process.stdout.read1(4096)  # type: ignore[attr-defined]
            for event in journal.read_events(self.run_dir, after):
                after = int(event["seq"])
                yield event
            if not woken:
                return

    def cancel(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended already
            self.process.stdin.write(b"cancel\n")
            self.process.stdin.flush()

    def wait(self, timeout: float | None = None) -> journal.RunView:
        """The run as it ended. subprocess.TimeoutExpired when it has not."""
        self.process.wait(timeout)
        return journal.load(self.run_dir)


def start(run_dir: Path, plan: Plan, options: Options) -> RunHandle:
    """Write the plan into a new run's directory and start its supervisor. LockedError KV-RUN-010, KvctlError."""
    if not journal.RUN_ID.match(run_dir.name):
        raise UsageError("KV-RUN-013", f"{run_dir.name} is no run id", why="r-YYYYMMDD-HHMMSS-xxxx is")
    run_dir.mkdir(mode=0o700, parents=True)
    _write(run_dir / PLAN, codec.to_json(plan))
    _write(run_dir / OPTIONS, codec.to_json(options))
    try:
        return _spawn(run_dir, options)
    except LockedError:  # nothing was begun, so there is no run to show
        shutil.rmtree(run_dir)
        raise


def resume(run_dir: Path, options: Options | None = None) -> RunHandle:
    """Go on with a run that did not finish: done steps are left out, units are attached to again.

    `options` replaces what the run was started with, such as targets whose addresses changed.
    """
    view = journal.load(run_dir)
    if view.state is journal.RunState.RUNNING:
        raise LockedError(
            "KV-RUN-010",
            f"{view.run} is running",
            where=str(run_dir),
            why=str(view.holder),
            fix=f"kvctl run show {view.run}",
        )
    if view.state is journal.RunState.FINISHED:
        fix = f"kvctl run show {view.run} tells what it did"
        raise UsageError(
            "KV-RUN-013", f"{view.run} has finished", where=str(run_dir), why="nothing is left to do", fix=fix
        )
    (run_dir / journal.CANCEL).unlink(missing_ok=True)
    if options is not None:
        _write(run_dir / OPTIONS, codec.to_json(options))
    kept = codec.from_json((run_dir / OPTIONS).read_bytes(), Options, where=str(run_dir / OPTIONS))
    return _spawn(run_dir, kept)


def request_cancel(run_dir: Path) -> bool:
    """Ask a run's supervisor to cut it, from any process; False when none is at work."""
    holder = journal.live_holder(run_dir)
    if holder is None:
        return False
    (run_dir / journal.CANCEL).touch(mode=0o600)
    pid = holder.get("pid")
    if isinstance(pid, int):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the file is enough
            os.kill(pid, signal.SIGTERM)
    return True


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_suffix(".new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def _spawn(run_dir: Path, options: Options) -> RunHandle:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))}
    fd = os.open(run_dir / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "kvctl.fleet.remote.supervisor", str(run_dir.resolve())],
            stdin=subprocess.DEVNULL if options.detached else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=fd,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(fd)
    _await_ready(process, run_dir)
    return RunHandle(run_dir.name, run_dir, process)


def _await_ready(process: "subprocess.Popen[bytes]", run_dir: Path) -> None:
    """The supervisor's first line is "ready", or the error that kept it from starting."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line == b"ready":
        return
    process.wait()
    with contextlib.suppress(ValueError):
        said = json.loads(line)
        kind = _KINDS.get(int(said["exit_code"]), KvctlError)
        raise kind(said["code"], said["what"], where=said["where"], why=said["why"], fix=said["fix"])
    log = (run_dir / LOG).read_text("utf-8", errors="replace")
    raise KvctlError(
        "KV-RUN-026", "the supervisor did not start", where=str(run_dir / LOG), why=log[-400:], fix="read that log"
    )
