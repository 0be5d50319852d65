"""Runs one command and counts what it cost: `python -m kvctl.bench.meter RESULT ARGV...`, in a process of its own.

As a subreaper it becomes the parent of whatever the command leaves behind, such as SSH masters: these are ended and
waited for, so that their processor time counts too and the next sample starts as cold as this one did.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from kvctl.fleet.remote.processes import become_subreaper, descendants, end_all
from kvctl.types.errors import KvctlError


@dataclass(frozen=True, slots=True)
class Metered:
    """`wall`: seconds from start to the command's own end. `cpu`: seconds of user and system time of its whole tree."""

    wall: float
    cpu: float
    exit: int


def metered(
    argv: Sequence[str], *, env: Mapping[str, str], directory: Path, label: str, timeout: float = 1800.0
) -> Metered:
    """Run a command to its end. Its output goes to `directory`/`label`.out and .err.

    KV-BENCH-002 when it cannot be started or takes more than `timeout` seconds.
    """
    result = directory / f"{label}.json"
    result.unlink(missing_ok=True)
    # Files, not pipes: an SSH master keeps its standard error open, and a pipe would be read until its end.
    with open(directory / f"{label}.out", "wb") as out, open(directory / f"{label}.err", "wb") as err:
        child = subprocess.Popen(
            [sys.executable, "-m", "kvctl.bench.meter", str(result), *argv],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(env), cwd=directory,
        )  # fmt: skip
        try:
            child.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise failed(argv, directory, label, f"it took more than {timeout:.0f} s") from error
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
    if not result.exists():
        raise failed(argv, directory, label, "it could not be run")
    return Metered(**json.loads(result.read_text()))


def failed(argv: Sequence[str], directory: Path, label: str, why: str) -> KvctlError:
    """The error for a command that could not be measured, with the end of what it said."""
    said = [tail(directory / f"{label}.{suffix}") for suffix in ("err", "out")]
    return KvctlError(
        "KV-BENCH-002",
        f"could not measure {label}",
        where=" ".join(argv)[:400],
        why="\n".join(filter(None, [why, *said])),
        fix="run that command by itself to see what is wrong",
    )


def tail(path: Path, size: int = 800) -> str:
    return path.read_text(errors="replace")[-size:].strip() if path.exists() else ""


def main(argv: Sequence[str]) -> int:
    """Run the command, then write RESULT. Without RESULT nothing was measured."""
    result, command = Path(argv[0]), argv[1:]
    become_subreaper()
    signal.signal(signal.SIGTERM, interrupted)
    begun = time.perf_counter()
    try:
        code = subprocess.Popen(command, stdin=subprocess.DEVNULL).wait()
        wall = time.perf_counter() - begun
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 1
    finally:
        end_all(lambda: descendants(os.getpid()))
    reap_all()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    result.write_text(json.dumps({"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "exit": code}))
    return 0


def interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def reap_all() -> None:
    """Only a child that was waited for counts in RUSAGE_CHILDREN (getrusage(2))."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
