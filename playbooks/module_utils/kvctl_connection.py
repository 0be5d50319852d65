"""Which SSH connection a module runs in: the text of SSH_CONNECTION, which sudo does not pass on."""

from __future__ import annotations

import os


def current() -> str:
    """ "client port server port" of the nearest ancestor's session; empty for a connection that is not SSH."""
    pid = os.getpid()
    while pid > 1:
        try:
            with open("/proc/%d/environ" % pid, "rb") as stream:
                variables = stream.read().split(b"\0")
            with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as stream:
                pid = int(stream.read().rpartition(")")[2].split()[1])
        except OSError:
            return ""
        for variable in variables:
            if variable.startswith(b"SSH_CONNECTION="):
                return variable.partition(b"=")[2].decode("ascii", "replace")
    return ""
