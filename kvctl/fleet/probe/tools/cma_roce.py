"""RoCE mode, ToS and traffic class of RDMA connections.

`cma_roce_mode` and `cma_roce_tos` (mlnx-tools) print configfs rdma_cm/*/ports/*/default_roce_{mode,tos}; the traffic
class is MLNX_OFED's sysfs file /sys/class/infiniband/DEV/tc/PORT/traffic_class (mlx5_ib traffic_class_show).
"""

from __future__ import annotations

import re

from . import agree, integer, is_prompt, reject, text_lines

_MODE = re.compile(r"(?:RoCE mode:\s*)?(?:IB/)?RoCE (v1|v2)", re.IGNORECASE)
_GLOBAL = re.compile(r"Global tclass=([0-9]{1,3})\s*(?:#.*)?")
_RULE = re.compile(r"(?:[a-z_0-9]+=\S*?,)*tclass=[0-9]{1,3}(?:,\S*)?|(?:src|dst)_addr\S*.*")


def parse_mode(text: str) -> str:
    """Default RoCE version of rdma_cm: "v1" or "v2"."""
    mode: str | None = None
    for match in filter(None, (_MODE.fullmatch(line.strip()) for line in text_lines(text))):
        mode = agree(mode, match.group(1).lower(), "RoCE mode")
    if mode is None:
        reject("cma_roce_mode", text)
    return mode


def parse_tos(text: str) -> int:
    """Default ToS of rdma_cm, 0..255: DSCP in the upper six bits, ECN in the lower two."""
    lines = [line.strip() for line in text_lines(text) if line.strip() and not is_prompt(line)]
    value = integer(lines[0]) if len(lines) == 1 else None
    if value is None or not 0 <= value <= 255:
        reject("cma_roce_tos", text)
    return value


def parse_traffic_class(text: str) -> int | None:
    """The traffic class forced on every queue pair, 0..255; None for an empty file: none is set.

    Rules for single flows, which follow the global line, are passed over.
    """
    found: int | None = None
    foreign = False
    for line in text_lines(text):
        match = _GLOBAL.fullmatch(line.strip())
        value = int(match.group(1)) if match else None
        if value is not None and value <= 255:
            found = agree(found, value, "global traffic class")
        elif line.strip() and not _RULE.fullmatch(line.strip()) and not is_prompt(line):
            foreign = True
    if foreign and found is None:
        reject("traffic_class", text)
    return found


def dscp(traffic_class: int) -> int:
    """The DSCP of a ToS or traffic class byte (RFC 2474)."""
    return traffic_class >> 2
