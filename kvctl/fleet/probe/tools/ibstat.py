"""What infiniband-diags' `ibstat [CA [PORT]]` prints: RDMA devices and their ports.

Format: rdma-core infiniband-diags/ibstat.c. mlx4 has one CA with two ports, mlx5 one CA a port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from . import decimal, given, integer, reject, text_lines

_CA = re.compile(r"(CA|Switch|Router|iWARP RNIC|\?\?\?):? '([^']+)'")
_PORT = re.compile(r"Port ([0-9]{1,3}):")
_ROW = re.compile(r"([A-Z][A-Za-z ]*?):(?:\s+(.*))?")
_STATES = frozenset(("Down", "Initializing", "Armed", "Active"))
_PHYSICAL_STATES = frozenset(
    ("No state change", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp")
    + ("LinkErrorRecovery", "PhyTest")
)
_LINK_LAYERS = frozenset(("Ethernet", "InfiniBand", "IB", "Unspecified"))
_RATE = re.compile(r"([0-9.]{1,8})(?: \((FDR10)\))?")


@dataclass(frozen=True)
class IbPort:
    number: int
    state: str | None = None  # "Active" | "Down" | "Initializing" | "Armed"
    physical_state: str | None = None  # "LinkUp" | "Polling" | "Disabled" ...
    rate: float | None = None  # Gb/s; None when the port is Ethernet and the tool calls it FDR10, which cannot be
    effective_speed: float | None = None  # Gb/s
    base_lid: int | None = None
    lmc: int | None = None
    sm_lid: int | None = None
    capability_mask: str | None = None
    guid: str | None = None
    link_layer: str | None = None  # "Ethernet" | "InfiniBand"


@dataclass(frozen=True)
class IbCa:
    """One device. On Intel's E810 type and hardware are blank and the firmware is the RDMA engine's, not the NVM's."""

    name: str
    node_type: str = "CA"
    ca_type: str | None = None  # "MT4129"
    port_count: int | None = None
    firmware: str | None = None
    hardware: str | None = None
    node_guid: str | None = None
    system_image_guid: str | None = None
    ports: tuple[IbPort, ...] = ()


def parse(text: str) -> tuple[IbCa, ...]:
    """Every device in order. Raises ToolOutputError when none is named."""
    cas: list[dict[str, Any]] = []
    rows: dict[str, str] = {}
    for line in text_lines(text):
        stripped = line.strip()
        ca, port, row = _CA.fullmatch(stripped), _PORT.fullmatch(stripped), _ROW.fullmatch(stripped)
        if ca:
            rows = {}
            cas.append({"type": ca.group(1), "name": ca.group(2), "rows": rows, "ports": []})
        elif port and cas:
            rows = {}
            cas[-1]["ports"].append((int(port.group(1)), rows))
        elif row and cas:
            rows.setdefault(row.group(1), (row.group(2) or "").strip())
    if not cas:
        reject("ibstat", text)
    return tuple(map(_ca, cas))


def _ca(ca: dict[str, Any]) -> IbCa:
    rows: dict[str, str] = ca["rows"]
    return IbCa(
        name=ca["name"],
        node_type=ca["type"],
        ca_type=given(rows.get(f"{ca['type']} type")),
        port_count=integer(rows.get("Number of ports")),
        firmware=given(rows.get("Firmware version")),
        hardware=given(rows.get("Hardware version")),
        node_guid=_hex(rows.get("Node GUID"), 16),
        system_image_guid=_hex(rows.get("System image GUID"), 16),
        ports=tuple(_port(number, port_rows) for number, port_rows in ca["ports"]),
    )


def _port(number: int, rows: dict[str, str]) -> IbPort:
    rate = _RATE.fullmatch(rows.get("Rate", ""))
    layer = given(rows.get("Link layer"))
    impossible = rate is not None and rate.group(2) is not None and layer != "InfiniBand"
    return IbPort(
        number=number,
        state=_one_of(_STATES, rows.get("State")),
        physical_state=_one_of(_PHYSICAL_STATES, rows.get("Physical state")),
        rate=None if rate is None or impossible else decimal(rate.group(1)),
        effective_speed=decimal(rows.get("Effective speed")),
        base_lid=integer(rows.get("Base lid")),
        lmc=integer(rows.get("LMC")),
        sm_lid=integer(rows.get("SM lid")),
        capability_mask=_hex(rows.get("Capability mask"), 8),
        guid=_hex(rows.get("Port GUID"), 16),
        link_layer=_one_of(_LINK_LAYERS, layer),
    )


def _one_of(words: frozenset[str], text: str | None) -> str | None:
    """The word, if the tool has it; "???" and a word cut short are not known."""
    return text if text in words else None


def _hex(text: str | None, digits: int) -> str | None:
    return text if text is not None and re.fullmatch(f"0x[0-9a-f]{{{digits}}}", text) else None
