"""Whether GPU memory is registered with the RDMA core: `lsmod` and the files of /sys/kernel/mm/memory_peers.

A loaded nvidia_peermem is no proof: with a mismatched OFED it loads and registers nothing (NCCL then logs
"GPU Direct RDMA Disabled").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import ToolOutputError
from .scalars import count, plain

_MODULE = re.compile(r"(nvidia_peermem|nv_peer_mem)\s+([0-9]+)\s+(-?[0-9]+)(?:\s+(\S*))?")
_ANY_MODULE = re.compile(r"[a-z0-9_]+\s+[0-9]+\s+-?[0-9]+(?:\s+\S+)*")
_PEER = re.compile(r"/sys/kernel/mm/memory_peers/?(\S*?)(?:/version)?:?\s")
_VERSION = re.compile(r"[0-9]+(?:[.-][0-9]+){1,3}")


@dataclass(frozen=True)
class Peermem:
    """`loaded` is False only when the whole module list was given; `registered` only what the files themselves say."""

    loaded: bool | None
    registered: bool | None
    module: str | None = None
    users: int | None = None
    version: str | None = None


def parse(text: str) -> Peermem:
    """Any of: `lsmod` whole or filtered, `cat` of a memory_peers version file with its error message."""
    loaded: bool | None = None
    registered: bool | None = None
    module = version = None
    users = None
    known = False
    listed = False
    text = plain(text)
    for line in text.splitlines():
        row = line.strip()
        match = _MODULE.fullmatch(row)
        if match:
            loaded, module, users, known = True, match.group(1), count(match.group(3)), True
        elif re.fullmatch(r"Module\s+Size\s+Used by", row):
            listed = known = True
        elif "memory_peers" in row:
            known = True
            registered = _registered(row, registered)
        elif _VERSION.fullmatch(row):
            version, registered, known = row, True, True
    if not known:
        if any(_ANY_MODULE.fullmatch(line.strip()) for line in text.splitlines()):
            return Peermem(None, None)
        raise ToolOutputError("neither a list of modules nor a file of memory_peers")
    return Peermem(False if listed and loaded is None else loaded, registered, module, users, version)


def _registered(line: str, before: bool | None) -> bool | None:
    """A path that is missing means not registered; one that could not be read says nothing."""
    if "No such file or directory" in line:
        return before if before else False
    tail = line.rpartition(":")[2].strip()
    return True if _VERSION.fullmatch(tail) else before
