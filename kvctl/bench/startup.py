"""How long kvctl takes to start, against the interpreter that runs it."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvctl.bench.hosts import program
from kvctl.bench.measures import rotated
from kvctl.types.errors import KvctlError


def commands() -> dict[str, tuple[str, ...]]:
    """`kvctl status` needs a state directory in which facts are stored."""
    kvctl = program("kvctl")
    return {
        "python": (sys.executable, "-c", "pass"),
        "kvctl --help": (kvctl, "--help"),
        "kvctl status": (kvctl, "status"),
    }


def walls(rounds: int, env: Mapping[str, str], directory: Path) -> dict[str, list[float]]:
    """Wall seconds of each command, interleaved; the first run of each is not counted."""
    chosen = commands()
    found: dict[str, list[float]] = {name: [] for name in chosen}
    for argv in chosen.values():
        wall(argv, env, directory)
    for turn in range(rounds):
        for name in rotated(list(chosen), turn):
            found[name].append(wall(chosen[name], env, directory))
    return found


def wall(argv: Sequence[str], env: Mapping[str, str], directory: Path) -> float:
    """Seconds from start to end of a command whose output nobody reads. KV-BENCH-002 when it fails."""
    null = subprocess.DEVNULL
    begun = time.perf_counter()
    done = subprocess.run(argv, stdin=null, stdout=null, stderr=null, env=dict(env), cwd=directory, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode != 0:
        raise KvctlError(
            "KV-BENCH-002", "could not measure start-up", where=" ".join(argv), why=f"it exited {done.returncode}"
        )
    return seconds
