"""A session on a node: run commands with a deadline over everything, by paramiko or by the ssh binary."""

import math
import re
import shlex
import threading
from typing import Protocol, Self

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.dial import Deadline
from kvctl.fleet.remote.result import OUTPUT_LIMIT, Result, Stream
from kvctl.fleet.remote.target import Target
from kvctl.types.errors import KvctlError

__all__ = ["OUTPUT_LIMIT", "Deadline", "Result", "Session", "Stream", "as_root", "bounded", "connect", "explain"]

_SUDO = re.compile(
    r"^sudo: .*(password|terminal|tty|not found|not allowed)|not in the sudoers|is not allowed to (run|execute)"
    r"|sudo: (command )?not found|sudo: No such file",
    re.MULTILINE | re.IGNORECASE,
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
_NO_PYTHON = re.compile(
    r"python3?: (command )?not found|python3?: No such file|python ?3\.9 or newer"
    r"|future feature annotations is not defined",
    re.IGNORECASE,
)


class Session(Protocol):
    """One connection. Not for use by several threads at once, but for `abort`."""

    target: Target

    def run(self, command: str, *, stdin: bytes = b"", timeout: float) -> Result:
        """Run a shell command of the login user. UnreachableError KV-SSH-001..004 and -007; KV-SSH-008 on a flood."""
        ...

    def open(self, command: str, *, timeout: float) -> Stream:
        """Start a command whose stdin stays open: it lives until `Stream.close` or the loss of the connection."""
        ...

    def abort(self) -> None:
        """Cut the connection from any thread; a `run` under way raises."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def connect(
    target: Target, *, timeout: float, password: str | None = None, cancel: threading.Event | None = None
) -> Session:
    """Log in, within `timeout` seconds whatever the peer does. `password` is for bootstrap alone."""
    if target.transport == "system":
        if password is not None:
            raise failures.bad_ssh_config(
                "a password cannot be given to the system ssh", target.note or "transport is system", place=target.node
            )
        from kvctl.fleet.remote.system import SystemSession

        return SystemSession(target)
    from kvctl.fleet.remote.builtin import login

    return login(target, Deadline.after(timeout), password, cancel)


def as_root(target: Target, command: str, *, sudo: str = "sudo -n") -> str:
    """The command as root: as it is for root, by sudo without a password for others."""
    if target.user == "root":
        return command
    return f"LC_ALL=C {sudo} -- sh -c {shlex.quote(command)}"


def bounded(command: str, seconds: float) -> str:
    """The command under timeout(1): sshd leaves a command running when its connection is lost."""
    return f"timeout -k 5 {math.ceil(seconds)} sh -c {shlex.quote(command)}"


def explain(target: Target, what: str, result: Result) -> KvctlError:
    """The error that a failed command of the node stands for."""
    err = result.err.decode("utf-8", "replace")
    if target.user != "root" and _SUDO.search(err):
        return failures.no_sudo(target, failures.tail(err))
    if _FULL.search(err):
        return failures.disk_full(target, failures.tail(err))
    if _NO_PYTHON.search(err) or (result.rc == 127 and "python" in err):
        return failures.no_python(target, failures.tail(err))
    return failures.command_failed(target, what, result.rc, err)
