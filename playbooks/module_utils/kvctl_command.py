"""Commands as plain data, so that a decision can be shown, tested and stored before anything runs.

A command is {"argv": [...]} or {"write": path, "text": text}; the second is one write to a sysfs or configfs file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional

from .kvctl_refused import FAILED, Refused

Command = Dict[str, Any]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/mellanox/bin"


class Output(NamedTuple):
    rc: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out if self.out.strip() else self.err

    @property
    def complaint(self) -> str:
        """The last line of what the tool said, for a message."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1].strip() if lines else "exit status %d" % self.rc


def argv(*words: object) -> Command:
    return {"argv": [str(word) for word in words]}


def write(path: str, text: object) -> Command:
    return {"write": path, "text": str(text)}


def show(command: Command) -> str:
    if "argv" in command:
        return " ".join(command["argv"])
    return "%s > %s" % (command["text"], command["write"])


def find(tool: str) -> Optional[str]:
    """Path of an installed tool, also where sudo's secure_path does not look."""
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":" + PATH)


def run(words: List[str], timeout: float = 30.0) -> Output:
    """Run a tool in the C locale. A tool that is missing or hangs is rc 127 or 124, never an exception."""
    path = find(words[0])
    if path is None:
        return Output(127, "", "%s is not installed" % words[0])
    environment = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":" + PATH)
    try:
        done = subprocess.run(
            [path] + words[1:],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Output(124, "", "%s did not answer within %g s" % (words[0], timeout))
    except OSError as error:
        return Output(126, "", "%s: %s" % (words[0], error))
    return Output(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def execute(commands: List[Command], code: str, timeout: float = 60.0) -> None:
    """Run commands in order; the first that fails stops with `code`, one of FAILED, and what it said."""
    for command in commands:
        if "argv" in command:
            output = run(command["argv"], timeout)
            if output.rc != 0:
                raise Refused(code, "%s: %s: %s" % (FAILED[code], show(command), output.complaint))
            continue
        try:
            with open(command["write"], "w", encoding="utf-8") as stream:
                stream.write(command["text"])
        except OSError as error:
            raise Refused(code, "%s: %s: %s" % (FAILED[code], show(command), error.strerror or error)) from None
