"""What libibverbs' `ibv_devinfo [-v]` prints: devices, ports and, with -v, GIDs.

Format: rdma-core libibverbs/examples/devinfo.c. With -v, RoCE v1 GIDs are eight groups and v2 GIDs IPv6 text.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

from . import given, integer, reject, text_lines

_HCA = re.compile(r"hca_id:\s*(\S+)")
_PORT = re.compile(r"port:\s*([0-9]{1,3})")
_GID = re.compile(r"GID\[\s*([0-9]{1,5})\]:\s*([0-9a-fA-F:.]+)(?:,\s*(?:IB/)?RoCE (v[12]))?")
_ROW = re.compile(r"([a-z][a-z0-9_ ]*):\s*(.*)")
_NUMBERED = re.compile(r"(.*?)\s*\(-?[0-9]{1,4}\)")


@dataclass(frozen=True)
class IbvGid:
    index: int
    gid: str
    version: str | None = None  # "v1" | "v2"
    ipv4: str | None = None


@dataclass(frozen=True)
class IbvPort:
    """One port; number None when the text lost the port's own line."""

    number: int | None = None
    state: str | None = None  # "PORT_ACTIVE" | "PORT_DOWN" ...
    max_mtu: int | None = None  # bytes
    active_mtu: int | None = None  # bytes
    sm_lid: int | None = None
    port_lid: int | None = None
    link_layer: str | None = None  # "Ethernet" | "InfiniBand"
    physical_state: str | None = None  # "LINK_UP" ...
    active_width: str | None = None  # "4X"
    active_speed: str | None = None  # "25.0 Gbps", a lane
    gids: tuple[IbvGid, ...] = ()


@dataclass(frozen=True)
class IbvDevice:
    name: str
    transport: str | None = None
    firmware: str | None = None
    node_guid: str | None = None
    system_image_guid: str | None = None
    vendor_id: int | None = None
    vendor_part_id: int | None = None
    hardware: str | None = None
    board_id: str | None = None  # PSID on Mellanox devices
    port_count: int | None = None
    ports: tuple[IbvPort, ...] = ()


def parse(text: str) -> tuple[IbvDevice, ...]:
    """Every device; none for "No IB devices found". Raises ToolOutputError for other texts without a device."""
    devices: list[dict[str, Any]] = []
    for line in text_lines(text):
        stripped = line.strip()
        hca, port, gid, row = (pattern.fullmatch(stripped) for pattern in (_HCA, _PORT, _GID, _ROW))
        if hca:
            devices.append({"name": hca.group(1), "rows": {}, "ports": []})
        elif not devices:
            continue
        elif port:
            devices[-1]["ports"].append({"number": int(port.group(1)), "rows": {}, "gids": []})
        elif gid or (row and row.group(1) in _PORT_ROWS):
            _port_line(devices[-1], gid, row)
        elif row:
            devices[-1]["rows"].setdefault(row.group(1), row.group(2).strip())
    if not devices and "No IB devices found" not in text:
        reject("ibv_devinfo", text)
    return tuple(map(_device, devices))


_PORT_ROWS = frozenset(
    ("state", "max_mtu", "active_mtu", "sm_lid", "port_lid", "port_lmc", "link_layer")
    + ("phys_state", "active_width", "active_speed")
)


def _port_line(device: dict[str, Any], gid: re.Match[str] | None, row: re.Match[str] | None) -> None:
    if not device["ports"]:
        device["ports"].append({"number": None, "rows": {}, "gids": []})
    port = device["ports"][-1]
    parsed = _gid(gid) if gid else None
    if parsed is not None:
        port["gids"].append(parsed)
    elif row:
        port["rows"].setdefault(row.group(1), row.group(2).strip())


def _gid(match: re.Match[str]) -> IbvGid | None:
    try:
        address = ipaddress.IPv6Address(match.group(2))
    except ValueError:
        return None  # a cut or garbled address
    mapped = address.ipv4_mapped
    return IbvGid(int(match.group(1)), match.group(2), match.group(3), None if mapped is None else str(mapped))


def _device(device: dict[str, Any]) -> IbvDevice:
    rows: dict[str, str] = device["rows"]
    vendor = re.fullmatch("0x([0-9a-fA-F]{1,8})", rows.get("vendor_id", ""))
    return IbvDevice(
        name=device["name"],
        transport=_name(rows.get("transport")),
        firmware=given(rows.get("fw_ver")),
        node_guid=_guid(rows.get("node_guid")),
        system_image_guid=_guid(rows.get("sys_image_guid")),
        vendor_id=int(vendor.group(1), 16) if vendor else None,
        vendor_part_id=integer(rows.get("vendor_part_id")),
        hardware=given(rows.get("hw_ver")),
        board_id=given(rows.get("board_id")),
        port_count=integer(rows.get("phys_port_cnt")),
        ports=tuple(map(_port, device["ports"])),
    )


def _port(port: dict[str, Any]) -> IbvPort:
    rows: dict[str, str] = port["rows"]
    return IbvPort(
        number=port["number"],
        state=_name(rows.get("state")),
        max_mtu=integer(_name(rows.get("max_mtu"))),
        active_mtu=integer(_name(rows.get("active_mtu"))),
        sm_lid=integer(rows.get("sm_lid")),
        port_lid=integer(rows.get("port_lid")),
        link_layer=given(rows.get("link_layer")),
        physical_state=_name(rows.get("phys_state")),
        active_width=_name(rows.get("active_width")),
        active_speed=_name(rows.get("active_speed")),
        gids=tuple(port["gids"]),
    )


def _name(text: str | None) -> str | None:
    """ "PORT_ACTIVE" of "PORT_ACTIVE (4)"; None for "invalid state (9)" and for a value without its number."""
    match = _NUMBERED.fullmatch(text or "")
    return None if match is None or match.group(1).startswith("invalid") else match.group(1)


def _guid(text: str | None) -> str | None:
    return text if text is not None and re.fullmatch("[0-9a-f]{4}(:[0-9a-f]{4}){3}", text) else None
