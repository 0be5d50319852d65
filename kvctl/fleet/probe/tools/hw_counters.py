"""RDMA counters of one port: `grep "" .../hw_counters/*`, the same without paths, or mlnx-tools' show_counters.

Names: the kernel's drivers/infiniband/hw/*/ (mlx5 counters.c, bnxt_re hw_counters.c) and NVIDIA's counter guide.
"""

from __future__ import annotations

import re

from . import ToolOutputError, reject, text_lines

_LINE = re.compile(r"(?:(\S*)/)?([A-Za-z][A-Za-z0-9_.]*)\s*:\s*([0-9]{1,20})")
_ERROR = re.compile(r"(?:grep|cat): |\S+:\s*N/A")
_HEAD = re.compile(r"Port ([0-9]{1,3}) (?:hw|cm) counters:")


def parse(text: str) -> dict[str, int]:
    """Counters by name; one that the driver answers with words or an error is left out.

    Raises ToolOutputError when there is none, and when the lines are of several ports (see sysfs_infiniband).
    """
    counters: dict[str, int] = {}
    ports = set()
    foreign = 0
    for line in text_lines(text):
        head, match = _HEAD.fullmatch(line.strip()), _LINE.fullmatch(line.strip())
        if head:
            ports.add(head.group(1))
        elif match:
            if match.group(1) is not None:
                ports.add(re.sub(r"/?(?:hw_)?counters$", "", match.group(1)))
            name, value = match.group(2), int(match.group(3))
            if counters.setdefault(name, value) != value:
                raise ToolOutputError(f"contradicts itself: {name} is both {counters[name]} and {value}")
        elif line.strip() and not _ERROR.match(line.strip()):
            foreign += 1
    if len(ports) > 1:
        raise ToolOutputError(f"counters of {len(ports)} ports in one text")
    if len(counters) <= foreign or "NIC statistics:" in text:
        reject("hw_counters", text)
    return counters
