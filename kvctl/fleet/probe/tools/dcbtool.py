"""What lldpad's `dcbtool gc|go|gp NETDEV pfc` prints: PFC by the CEE (pre-standard) tool.

Format: openlldp dcbtool_cmds.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import agree, given, integer, reject, text_lines

_ROW = re.compile(
    r"(Command|Feature|Port|Status|Enable|Advertise|Willing|pfcup|num TC's|Oper Mode|Syncd|Errors?):\s*(.*)"
)
_YES = {"true": True, "false": False}


@dataclass(frozen=True)
class DcbtoolPfc:
    command: str | None = None  # "Get Config" | "Get Oper" | "Get Peer"
    port: str | None = None
    status: str | None = None
    enable: bool | None = None
    advertise: bool | None = None
    willing: bool | None = None
    pfc: frozenset[int] | None = None
    traffic_classes: int | None = None
    oper_mode: bool | None = None
    synced: bool | None = None
    errors: str | None = None


def parse_pfc(text: str) -> DcbtoolPfc:
    """Raises ToolOutputError for another feature's output and for error messages."""
    rows: dict[str, str] = {}
    for line in text_lines(text):
        match = _ROW.fullmatch(line.strip())
        if match:
            rows[match.group(1)] = agree(rows.get(match.group(1)), match.group(2).strip(), match.group(1))
    if rows.get("Feature") != "Priority Flow Control":
        reject("dcbtool pfc", text)
    bits = rows.get("pfcup", "").split()
    complete = len(bits) == 8 and all(bit in ("0", "1") for bit in bits)
    return DcbtoolPfc(
        command=given(rows.get("Command")),
        port=given(rows.get("Port")),
        status=given(rows.get("Status")),
        enable=_YES.get(rows.get("Enable", "")),
        advertise=_YES.get(rows.get("Advertise", "")),
        willing=_YES.get(rows.get("Willing", "")),
        pfc=frozenset(index for index, bit in enumerate(bits) if bit == "1") if complete else None,
        traffic_classes=integer(rows.get("num TC's")),
        oper_mode=_YES.get(rows.get("Oper Mode", "").lower()),
        synced=_YES.get(rows.get("Syncd", "").lower()),
        errors=given(rows.get("Errors", rows.get("Error"))),
    )
