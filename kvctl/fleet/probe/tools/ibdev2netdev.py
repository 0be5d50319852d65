"""What MLNX_OFED's `ibdev2netdev [-v]` prints: which network interface belongs to which RDMA port."""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import reject, text_lines

_PLAIN = re.compile(r"(\S+)\s+port\s+([0-9]{1,3})\s+=+>\s+(\S+)\s+\((Up|Down)\)")
_VERBOSE = re.compile(
    r"(?:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) )?(\S+) \((\S+) - ([^)]*)\)\s+(.*?)\s*"
    r"\bfw (\S+) port ([0-9]{1,3}) \(([A-Z]+) *\) =+> (\S+) \((Up|Down)\)"
)


@dataclass(frozen=True)
class RdmaNetdev:
    """One row; what only -v prints is None without it."""

    rdma: str
    port: int
    netdev: str
    up: bool
    pci: str | None = None
    hca_type: str | None = None  # "MT4123"
    part_number: str | None = None
    description: str | None = None
    firmware: str | None = None
    port_state: str | None = None  # "ACTIVE" | "DOWN" | "INIT" ...

    @property
    def ipoib(self) -> bool:
        """Judged by the kernel's and systemd's names for IP over InfiniBand ("ib0", "ibp65s0"); those are not RoCE."""
        return self.netdev.startswith("ib")


def parse(text: str) -> tuple[RdmaNetdev, ...]:
    """Every row; none for an empty text, which is what the tool prints without RDMA devices."""
    rows = tuple(row for row in (_row(line.strip()) for line in text_lines(text)) if row is not None)
    if text.strip() and not rows:
        reject("ibdev2netdev", text)
    return rows


def _row(line: str) -> RdmaNetdev | None:
    plain, verbose = _PLAIN.match(line), _VERBOSE.match(line)
    if plain:
        return RdmaNetdev(plain.group(1), int(plain.group(2)), plain.group(3), plain.group(4) == "Up")
    if verbose is None:
        return None
    pci, rdma, hca, part, description, firmware, port, state, netdev, link = verbose.groups()
    return RdmaNetdev(
        rdma=rdma,
        port=int(port),
        netdev=netdev,
        up=link == "Up",
        pci=pci.lower() if pci else None,
        hca_type=hca,
        part_number=None if part in ("NA", "") else part,
        description=description or None,
        firmware=firmware,
        port_state=state,
    )
