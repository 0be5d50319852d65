"""Running vendor tools side by side, each with its own time limit and a bound on what it may print.

One thread and one poll loop over posix_spawn: importing `subprocess` or `threading` costs more processor time than most
tools. A tool that hangs is killed with its whole session; one that cannot be killed (state D) is left behind.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

OUT_LIMIT = 1 << 20
ERR_LIMIT = 1 << 14
KEPT_OF_TRUNCATED = 4096
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/mellanox/iproute2/sbin"
_AT_ONCE = 8
_KILL = 9
_UNKILLABLE_MS = 500


class Job:
    """One command, or one function that runs in a child process because what it reads may hang.

    Jobs with the same `group` never run at the same time: firmware tools lock the card they talk to.
    """

    def __init__(
        self, key: str, argv: Sequence[str], limit: float, group: str = "", call: Callable[[], str] | None = None
    ) -> None:
        self.key = key
        self.argv = list(argv)
        self.limit = limit
        self.group = group
        self.call = call


class _Running:
    def __init__(self, job: Job, pid: int, out: int, err: int, limit: float) -> None:
        self.job, self.pid, self.limit = job, pid, limit
        self.started = time.monotonic()
        self.pipes = {out: bytearray(), err: bytearray()}
        self.out, self.err = out, err
        self.exited = os.pidfd_open(pid)
        self.ended = False
        self.truncated = False

    @property
    def deadline(self) -> float:
        return self.started + self.limit

    def read(self, fd: int) -> bool:
        """Takes what is there; False at the end of the stream. What is over the bound is thrown away."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            return False
        kept, bound = self.pipes[fd], OUT_LIMIT if fd == self.out else ERR_LIMIT
        kept += data[: bound - len(kept)] if len(kept) < bound else b""
        if fd == self.out and len(kept) >= bound:
            self.truncated = True
        return bool(data)


def search_path() -> str:
    own = os.environ.get("PATH", "")
    return own + ":" + _PATH if own else _PATH


def which(name: str) -> str | None:
    for folder in search_path().split(":"):
        path = folder + "/" + name
        if folder and os.access(path, os.X_OK):
            return path
    return None


def run(jobs: Sequence[Job], budget: float) -> dict[str, Any]:
    """Results by key: {"argv", "rc", "out", "err", "seconds"}, or {"argv", "unknown", ...} when there is no answer."""
    end = time.monotonic() + budget
    results: dict[str, Any] = {}
    waiting, running = list(jobs), dict[int, _Running]()
    poll = select.poll()
    while waiting or running:
        _start_more(waiting, running, poll, results, end)
        if not running:
            continue
        nearest = min(one.deadline for one in running.values())
        wait = max(min(nearest - time.monotonic(), 1.0), 0.0)
        owners = {fd: one for one in running.values() for fd in (*one.pipes, one.exited)}
        for fd, _event in poll.poll(int(wait * 1000) + 1):
            owner = owners.get(fd)
            if owner is None:
                continue
            if fd == owner.exited:
                owner.ended = True
            elif not owner.read(fd):
                poll.unregister(fd)
        now = time.monotonic()
        for pid, one in list(running.items()):
            if one.ended or one.truncated or now >= one.deadline:
                results[one.job.key] = _finish(one, poll)
                del running[pid]
    return results


def _start_more(
    waiting: list[Job], running: dict[int, _Running], poll: select.poll, results: dict[str, Any], end: float
) -> None:
    busy = {one.job.group for one in running.values() if one.job.group}
    for job in list(waiting):
        if len(running) >= _AT_ONCE:
            return
        if job.group and job.group in busy:
            continue
        waiting.remove(job)
        left = end - time.monotonic()
        if left <= 0:
            results[job.key] = {"argv": job.argv, "unknown": "not run: the probe's time was used up"}
            continue
        try:
            one = _start(job, min(job.limit, left))
        except OSError as error:
            results[job.key] = {"argv": job.argv, "unknown": "could not be started: " + (error.strerror or "no reason")}
            continue
        busy.add(job.group)
        running[one.pid] = one
        for fd in (*one.pipes, one.exited):
            poll.register(fd, select.POLLIN)


def _start(job: Job, limit: float) -> _Running:
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    try:
        pid = _fork(job.call, out_end, err_end) if job.call else _spawn(job.argv, out_end, err_end)
        return _Running(job, pid, out, err, limit)
    except OSError:
        os.close(out)
        os.close(err)
        raise
    finally:
        os.close(out_end)
        os.close(err_end)


def _spawn(argv: list[str], out: int, err: int) -> int:
    path = which(argv[0])
    if path is None:
        raise FileNotFoundError(2, "not installed")
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, out, 1)]
    environment = {"PATH": search_path(), "LC_ALL": "C", "HOME": "/", "TERM": "dumb"}
    return os.posix_spawn(path, argv, environment, file_actions=[*actions, (os.POSIX_SPAWN_DUP2, err, 2)], setsid=True)


def _fork(call: Callable[[], str], out: int, err: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    # The child ends in _exit whatever happens: it must not unwind into the caller's frames.
    status = 1
    try:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.write(1, call().encode("utf-8", "replace"))
        status = 0
    except OSError as error:
        os.write(2, (error.strerror or type(error).__name__).lower().encode("utf-8", "replace"))
    finally:
        os._exit(status)


def _finish(one: _Running, poll: select.poll) -> dict[str, Any]:
    hung = not one.ended and not one.truncated
    for fd in one.pipes:
        os.set_blocking(fd, False)
        # What a process wrote just before it ended is still in the pipe.
        while not hung and not one.truncated and _more(one, fd):
            pass
    status = _end(one)
    for fd in (*one.pipes, one.exited):
        try:  # noqa: SIM105 - contextlib would be one more import on every node
            poll.unregister(fd)
        except KeyError:
            pass  # it was at its end and is no longer watched
        os.close(fd)
    seconds = round(time.monotonic() - one.started, 3)
    out = bytes(one.pipes[one.out]).decode("utf-8", "replace")
    err = bytes(one.pipes[one.err]).decode("utf-8", "replace")
    if hung:
        why = f"timed out after {one.limit:.3g} s"
    elif one.truncated:
        why = f"it printed more than {OUT_LIMIT} bytes"
    else:
        return {"argv": one.job.argv, "rc": status, "out": out, "err": err, "seconds": seconds}
    return {"argv": one.job.argv, "unknown": why, "out": out[:KEPT_OF_TRUNCATED], "err": err, "seconds": seconds}


def _more(one: _Running, fd: int) -> bool:
    before = len(one.pipes[fd])
    return one.read(fd) and len(one.pipes[fd]) > before and not one.truncated


def _end(one: _Running) -> int | None:
    """Kills what is left of the session, so that nothing of the probe outlives it; the exit status, if there is one.

    The leader is waited for last: until then its process id, and so the group's, cannot belong to anybody else.
    """
    try:  # noqa: SIM105 - contextlib would be one more import on every node
        os.killpg(one.pid, _KILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing of it is left, or it runs as somebody else
    waiter = select.poll()
    waiter.register(one.exited, select.POLLIN)
    if not waiter.poll(_UNKILLABLE_MS):
        return None
    try:
        return os.waitstatus_to_exitcode(os.waitpid(one.pid, 0)[1])
    except ChildProcessError:
        return None
