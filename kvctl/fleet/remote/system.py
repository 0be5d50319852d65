"""The session that the ssh binary makes: for configurations that paramiko does not understand."""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from typing import Self

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.dial import Deadline
from kvctl.fleet.remote.hostkeys import recorded
from kvctl.fleet.remote.result import OUTPUT_LIMIT, Result
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError

_CHANGED = re.compile(r"IDENTIFICATION HAS CHANGED|REVOKED HOST KEY|key .* is revoked", re.IGNORECASE)
_UNKNOWN = re.compile(r"Host key verification failed|No .* host key is known", re.IGNORECASE)
_REFUSED_LOGIN = re.compile(r"Permission denied|Too many authentication failures|no matching .* auth", re.IGNORECASE)


def start(target: Target, command: str, *, own_session: bool = True) -> subprocess.Popen[bytes]:
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.Popen(
        [*target.ssh_argv(), command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=own_session,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the ssh and what it started, such as a ProxyCommand."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # unsent input of a process that is gone


class SystemSession:
    """A `Session` that starts one ssh a command; nothing is connected in between."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._running: set[subprocess.Popen[bytes]] = set()
        self._aborted = False

    def run(self, command: str, *, stdin: bytes = b"", timeout: float) -> Result:
        deadline = Deadline.after(timeout)
        process = start(self.target, command)
        self._running.add(process)
        try:
            result = _converse(self.target, process, stdin, deadline)
        finally:
            self._running.discard(process)
            end(process)
        if self._aborted:
            raise failures.unreachable(self.target, "the session was cut: the command was cancelled")
        if result.rc == 255:
            raise explain(self.target, result.err.decode("utf-8", "replace"))
        return result

    def open(self, command: str, *, timeout: float) -> "SystemStream":
        process = start(self.target, command)
        self._running.add(process)
        return SystemStream(self.target, process)

    def abort(self) -> None:
        self._aborted = True
        for process in list(self._running):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has just ended

    def close(self) -> None:
        for process in list(self._running):
            end(process)
        self._running.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def explain(target: Target, err: str) -> KvctlError:
    """What ssh's own messages mean (LC_ALL=C)."""
    why = failures.tail(err) or "ssh said nothing"
    if _CHANGED.search(err):
        known = [f"{key.type} {key.fingerprint}" for key in recorded(target.known_hosts, target.key_name)]
        match = re.search(r"SHA256:\S+", err)
        return failures.host_key_changed(target, match.group(0).rstrip(".") if match else "another key", known)
    if _UNKNOWN.search(err):
        return failures.host_key_unknown(target, target.known_hosts)
    if _REFUSED_LOGIN.search(err):
        return failures.auth_refused(target, why)
    return failures.unreachable(target, why)


def _converse(target: Target, process: subprocess.Popen[bytes], stdin: bytes, deadline: Deadline) -> Result:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    parts: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
    pending = memoryview(stdin)
    with selectors.DefaultSelector() as wait:
        wait.register(process.stdout, selectors.EVENT_READ, "out")
        wait.register(process.stderr, selectors.EVENT_READ, "err")
        os.set_blocking(process.stdin.fileno(), False)
        if pending:
            wait.register(process.stdin, selectors.EVENT_WRITE, "in")
        else:
            process.stdin.close()
        while any(key.data != "in" for key in wait.get_map().values()):
            if deadline.over:
                raise failures.timed_out(target, "the command", deadline.seconds)
            for key, _ in wait.select(min(5.0, deadline.left())):
                if key.data == "in":
                    pending = _feed(process, pending)
                    if not pending:
                        wait.unregister(process.stdin)
                        process.stdin.close()
                    continue
                data = os.read(key.fd, 262144)
                if not data:
                    wait.unregister(key.fileobj)
                parts[key.data] += data
            if len(parts["out"]) + len(parts["err"]) > OUTPUT_LIMIT:
                raise failures.garbage(target, f"more than {OUTPUT_LIMIT // 1048576} MiB of output")
    try:
        rc = process.wait(timeout=max(0.1, deadline.left()))
    except subprocess.TimeoutExpired as error:
        raise failures.timed_out(target, "the command", deadline.seconds) from error
    return Result(rc, bytes(parts["out"]), bytes(parts["err"]), time.time())


def _feed(process: subprocess.Popen[bytes], pending: memoryview) -> memoryview:
    assert process.stdin is not None
    try:
        return pending[os.write(process.stdin.fileno(), pending[:65536]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        return pending[len(pending) :]  # the command does not read more; its status says why


class SystemStream:
    """A `Stream` over the pipes of one ssh."""

    def __init__(self, target: Target, process: subprocess.Popen[bytes]) -> None:
        self._target = target
        self._process = process
        self._buffer = b""

    def readline(self, timeout: float) -> str:
        assert self._process.stdout is not None
        deadline = Deadline.after(timeout)
        with selectors.DefaultSelector() as wait:
            wait.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not wait.select(deadline.left()):
                    raise failures.timed_out(self._target, "the command", timeout)
                part = os.read(self._process.stdout.fileno(), 65536)
                if not part:
                    if self._process.wait() == 255:
                        raise explain(self._target, self.error_text())
                    line, self._buffer = self._buffer, b""
                    return line.decode("utf-8", "replace")
                self._buffer += part
                if len(self._buffer) > 1048576:
                    raise failures.garbage(self._target, "a line of more than 1 MiB")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def error_text(self) -> str:
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        data: bytes | None = self._process.stderr.read()
        return (data or b"").decode("utf-8", "replace")

    def close(self) -> None:
        end(self._process)
