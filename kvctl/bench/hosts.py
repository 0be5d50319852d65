"""The benchmark's own lab: booted for one run, and gone after it whatever happened."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from kvctl.bench import nodecpu
from kvctl.fleet.lab import cgroups, layout
from kvctl.fleet.lab.layout import Layout
from kvctl.types.errors import KvctlError, LockedError, UsageError

NAME = "kvbench"
FOREIGN = ("KVCTL_", "ANSIBLE_", "PYINFRA_", "PYTHON")  # a user's settings that would change what is measured
TOOLS = ("kvctl", "ansible", "ansible-playbook", "pyinfra")
BOOT_SECONDS = 300
MARKER = ".kvctl-bench"  # in a directory that the benchmark made and may remove


@dataclass(frozen=True, slots=True)
class Hosts:
    """A lab that is up."""

    layout: Layout
    directory: Path
    env: Mapping[str, str]  # for every contestant
    names: tuple[str, ...]

    @property
    def inventory(self) -> Path:
        return self.layout.inventory

    def cpu(self) -> nodecpu.NodeCpu:
        return nodecpu.of_machines([cgroups.paths(self.layout.machine(name))[0] for name in self.names])


def program(name: str) -> str:
    """A console script of the environment that this Python runs in. KV-BENCH-009 when it is not installed."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise UsageError(
            "KV-BENCH-009",
            f"{name} is not installed beside {Path(sys.executable).name}",
            where=str(path.parent),
            fix="./dev setup installs everything the benchmark compares",
        )
    return str(path)


def require() -> None:
    """Whether this machine can hold the hosts and run every contestant: UsageError KV-BENCH-001 or -009."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise UsageError(
            "KV-BENCH-001",
            "the benchmark needs root on Linux",
            why="it boots hosts in namespaces and reads their cgroups",
            fix="run the same command as root, for example with sudo",
        )
    for name in TOOLS:
        program(name)


def environment(directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of every contestant: no settings of the user's own, everything below `directory`."""
    kept = {name: value for name, value in environ.items() if not name.startswith(FOREIGN)}
    cache = environ.get("KVCTL_LAB_CACHE")
    return kept | {
        "KVCTL_LAB_NAME": NAME,
        "KVCTL_LAB_DIR": str(directory / "lab"),
        "KVCTL_STATE_DIR": str(directory / "state"),
        "KVCTL_INVENTORY": str(directory / "lab" / "inventory.yaml"),
        "XDG_CONFIG_HOME": str(directory / "config"),
        "NO_COLOR": "1",
        **({"KVCTL_LAB_CACHE": cache} if cache else {}),
    }


@contextmanager
def booted(count: int, directory: Path) -> Iterator[Hosts]:
    """Boot `count` storage hosts, and end them and remove `directory` at the end, also after a failure."""
    env = environment(directory, os.environ)
    with claimed(directory), stopped_by_sigterm():
        try:
            lab(env, "down")  # what a run that was killed left
            lab(env, "up", "--clean", "--nodes", f"storage={count}", "--timeout", str(BOOT_SECONDS))
            place = layout.from_environment(env)
            yield Hosts(place, directory, env, tuple(f"storage{n}" for n in range(1, count + 1)))
        finally:
            lab(env, "down")
            shutil.rmtree(directory)


def lab(env: Mapping[str, str], *args: str) -> None:
    """Run `kvctl lab`; its narration goes to stderr. KV-BENCH-004 when it fails."""
    done = subprocess.run(
        [program("kvctl"), "lab", *args], env=dict(env), stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
    )
    if done.returncode != 0:
        raise KvctlError(
            "KV-BENCH-004",
            f"kvctl lab {args[0]} exited {done.returncode}",
            why="its message is above",
            fix="kvctl lab up, by itself, shows what the machine lacks",
        )


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """One run at a time: a second one would end the first one's hosts. LockedError KV-BENCH-005."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker = directory / MARKER
    others = not marker.exists() and any(directory.iterdir())
    if others or directory.stat().st_uid != os.geteuid():
        why = "it holds other files" if others else "it belongs to somebody else"
        raise UsageError("KV-BENCH-008", f"{directory} cannot be used", why=why, fix="move it away")
    with open(marker, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedError(
                "KV-BENCH-005", "another benchmark is running", where=str(directory), fix="wait for its end"
            ) from error
        yield


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does, so that the hosts are taken down."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def say(text: str) -> None:
    click.echo(text, err=True)
