"""What `show_gids [DEV]` prints: the GID table of the RDMA devices.

Format: mlnx-tools sbin/show_gids; columns are tab-separated, IPv4, version and netdev may be missing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from . import reject, text_lines

_GID = re.compile(r"(?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4}")
_HEAD = re.compile(r"DEV\s+PORT\s+INDEX\s+GID\b.*")


@dataclass(frozen=True)
class Gid:
    """One entry; `ipv4` only when the GID is that address in its IPv6 form."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str | None = None
    version: str | None = None  # "v1" | "v2"
    netdev: str | None = None

    @property
    def link_local(self) -> bool:
        return self.gid.lower().startswith("fe80:")


def parse(text: str) -> tuple[Gid, ...]:
    """Every entry in order; none for a bare head. Raises ToolOutputError without head and entries."""
    lines = text_lines(text)
    rows = tuple(gid for gid in map(_row, lines) if gid is not None)
    if not rows and not any(_HEAD.match(line.strip()) for line in lines):
        reject("show_gids", text)
    return rows


def best_v2_index(gids: Iterable[Gid], device: str, port: int = 1) -> int | None:
    """Lowest index of a RoCE v2 GID with an IPv4 address; None when the port has none."""
    ours = (gid for gid in gids if gid.device == device and gid.port == port)
    return min((gid.index for gid in ours if gid.version == "v2" and gid.ipv4), default=None)


def _row(line: str) -> Gid | None:
    cells = line.split()
    if len(cells) < 4 or not _GID.fullmatch(cells[3]) or not all(re.fullmatch("[0-9]{1,5}", c) for c in cells[1:3]):
        return None
    rest = cells[4:]
    mapped = ipaddress.IPv6Address(cells[3]).ipv4_mapped
    printed = rest.pop(0) if rest and re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}", rest[0]) else None
    version = rest.pop(0).lower() if rest and re.fullmatch("[vV][12]", rest[0]) else None
    return Gid(
        device=cells[0],
        port=int(cells[1]),
        index=int(cells[2]),
        gid=cells[3],
        ipv4=printed if mapped is not None and str(mapped) == printed else None,
        version=version,
        netdev=rest[0] if len(rest) == 1 else None,
    )
