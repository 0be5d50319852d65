"""One cgroup a host, in every hierarchy that systemd uses: a pure v2 machine has one, a hybrid one has two."""

import os
from dataclasses import dataclass
from pathlib import Path

from kvctl.fleet.lab.processes import Started, started
from kvctl.types.errors import KvctlError

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Hierarchies:
    unified: Path  # cgroup2
    named: Path | None  # name=systemd of a hybrid machine


def hierarchies(mountinfo: str | None = None) -> Hierarchies:
    """The cgroup mounts of this machine, from /proc/self/mountinfo (proc(5))."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    unified: Path | None = None
    named: Path | None = None
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fstype, _, options = after.split(" ", 2)
        point = Path(before.split()[4])
        if fstype == "cgroup2" and unified is None:
            unified = point
        elif fstype == "cgroup" and "name=systemd" in options.split(","):
            named = point
    if unified is None:
        raise KvctlError(
            "KV-LAB-006",
            "this machine has no cgroup2 mount",
            where=str(ROOT),
            fix="boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup/unified",
        )
    return Hierarchies(unified, named)


def paths(name: str) -> tuple[Path, ...]:
    """The cgroup directories of one host; the first is the cgroup2 one."""
    found = hierarchies()
    return tuple(root / name for root in (found.unified, found.named) if root is not None)


def create(name: str) -> tuple[Path, ...]:
    made = paths(name)
    for path in made:
        path.mkdir(exist_ok=True)
    return made


def names(prefix: str) -> list[str]:
    """Cgroups whose name starts with `prefix`, in any hierarchy."""
    found = hierarchies()
    roots = [root for root in (found.unified, found.named) if root is not None]
    return sorted({p.name for root in roots for p in root.glob(f"{prefix}*") if p.is_dir()})


def members(name: str) -> list[Started]:
    """Every process inside a host's cgroups: all of them were started by the lab."""
    found: set[Started] = set()
    for root in paths(name):
        for procs in [root / "cgroup.procs", *root.glob("**/cgroup.procs")]:
            found.update(p for pid in read_pids(procs) if (p := started(pid)) is not None)
    return sorted(found, key=lambda p: p.pid)


def read_pids(procs: Path) -> list[int]:
    try:
        return [int(word) for word in procs.read_text().split()]
    except OSError:  # a cgroup may go while we look; ENODEV and EOPNOTSUPP mean "none here"
        return []


def remove(name: str) -> None:
    """Remove a host's empty cgroups, deepest first."""
    for root in paths(name):
        if not root.is_dir():
            continue
        for directory, _, _ in sorted(os.walk(root), key=lambda entry: entry[0].count("/"), reverse=True):
            Path(directory).rmdir()
