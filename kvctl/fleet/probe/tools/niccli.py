"""What Broadcom's niccli prints: the device list and one device's QoS (`get_qos`, `getqos`, `qos --ets --show`).

Both layouts of the list are read: the blocks of --list_devices / --listdev and the table of --list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import agree, given, integer, reject, text_lines

_BLOCK = re.compile(r"([0-9]{1,3})\s?\)\s+(.*?)(?:\s+\(Adp#([0-9]{1,3})\s+Port#([0-9]{1,3})\))?")
_TABLE_ROW = re.compile(
    r"([0-9]{1,3})\s?\)\s+(\S+)\s+((?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})\s+(\S+)\s+([0-9A-Fa-f:.]+)\s+(\S+)\s+(\S+)"
)
_FIELD = re.compile(r"(Device Interface(?: Name)?|MAC Address|PCI Address|Firmware Version)\s*:\s*(.*)")
_APP = re.compile(r"APP#([0-9]{1,3}):")
_PORT = re.compile(r"(UDP or DCCP|TCP or SCTP|TCP/SCTP|UDP/DCCP|.*Port)")


@dataclass(frozen=True)
class NiccliDevice:
    number: int
    model: str | None = None
    adapter: int | None = None
    port: int | None = None
    interface: str | None = None
    mac: str | None = None
    pci: str | None = None  # dddd:bb:dd.f
    firmware: str | None = None


@dataclass(frozen=True)
class NiccliApp:
    """One APP entry; `selector` is IEEE 802.1Qaz's: 1 Ethertype, 2 TCP, 3 UDP, 4 any port, 5 DSCP."""

    priority: int | None = None
    selector: int | None = None
    dscp: int | None = None
    port: int | None = None
    ethertype: int | None = None


@dataclass(frozen=True)
class NiccliQos:
    prio_tc: dict[int, int] | None = None
    tc_bw: tuple[int, ...] | None = None  # percent
    tsa: dict[int, str] | None = None  # "ets" | "strict"
    pfc: frozenset[int] | None = None
    apps: tuple[NiccliApp, ...] = ()
    rate_limit: tuple[int, ...] | None = None  # percent by traffic class

    @property
    def dscp_prio(self) -> dict[int, int]:
        return {app.dscp: app.priority for app in self.apps if app.dscp is not None and app.priority is not None}


def parse_devices(text: str) -> tuple[NiccliDevice, ...]:
    """Raises ToolOutputError when no device is listed."""
    devices = []
    block: list[str] = []
    for line in [*text_lines(text), "0) end"]:
        row = _TABLE_ROW.fullmatch(line.strip())
        if row:
            number, model, mac, firmware, pci = row.groups()[:5]
            devices.append(NiccliDevice(int(number), model, mac=mac.lower(), pci=_pci(pci), firmware=firmware))
        elif _BLOCK.fullmatch(line.strip()):
            devices += _block(block)
            block = [line.strip()]
        elif block:
            block.append(line.strip())
    if not devices:
        reject("niccli device list", text)
    return tuple(devices)


def parse_qos(text: str) -> NiccliQos:
    """Raises ToolOutputError when none of the TLVs is there."""
    rows: dict[str, str] = {}
    apps: list[dict[str, str]] = []
    for line in text_lines(text):
        key, colon, value = line.strip().partition(":")
        if _APP.fullmatch(line.strip()):
            apps.append({})
        elif colon and re.fullmatch("IEEE 8021QAZ .* TLV|TC Rate Limit|PRIO_MAP|TC Bandwidth|TSA_MAP|PFC enabled", key):
            rows[key] = agree(rows.get(key), value.strip(), key)
        elif colon and apps:
            apps[-1].setdefault(key.strip(), value.strip())
    # lldptool prints the same TLVs without the colon after their names.
    if not any(key.startswith("IEEE 8021QAZ") for key in rows):
        reject("niccli qos", text)
    priorities = _pairs(rows.get("PRIO_MAP"), "[0-7]:[0-9]{1,2}")
    classes = _pairs(rows.get("TSA_MAP"), "[0-7]:[a-z]+")
    return NiccliQos(
        prio_tc=None if priorities is None else {priority: int(tc) for priority, tc in priorities.items()},
        tc_bw=_percents(rows.get("TC Bandwidth")),
        tsa=classes,
        pfc=_pfc(rows.get("PFC enabled")),
        apps=tuple(map(_app, apps)),
        rate_limit=_percents(rows.get("TC Rate Limit")),
    )


def _block(lines: list[str]) -> list[NiccliDevice]:
    """The device of one block; nothing for a numbered line that is not a device's (a menu's, for one)."""
    if not lines:
        return []
    head = _BLOCK.fullmatch(lines[0])
    fields = {match.group(1).replace(" Name", ""): match.group(2) for match in map(_FIELD.fullmatch, lines) if match}
    if head is None or not fields:
        return []
    return [
        NiccliDevice(
            number=int(head.group(1)),
            model=given(head.group(2)),
            adapter=integer(head.group(3)),
            port=integer(head.group(4)),
            interface=given(fields.get("Device Interface")),
            mac=(given(fields.get("MAC Address")) or "").lower() or None,
            pci=_pci(given(fields.get("PCI Address"))),
            firmware=given(fields.get("Firmware Version")),
        )
    ]


def _pci(text: str | None) -> str | None:
    """dddd:bb:dd.f of "0000:22:00.0" and of the table's "00:0d:00:00" (domain, bus, device, function)."""
    parts = re.fullmatch(r"([0-9a-fA-F]{2,4}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})[.:]0?([0-7])", text or "")
    return f"{parts.group(1):0>4}:{parts.group(2)}:{parts.group(3)}.{parts.group(4)}".lower() if parts else None


def _pairs(text: str | None, shape: str) -> dict[int, str] | None:
    cells = (text or "").split()
    if not cells or not all(re.fullmatch(shape, cell) for cell in cells):
        return None
    return {int(cell.split(":")[0]): cell.split(":")[1] for cell in cells}


def _percents(text: str | None) -> tuple[int, ...] | None:
    cells = (text or "").split()
    return tuple(int(c[:-1]) for c in cells) if cells and all(re.fullmatch("[0-9]{1,3}%", c) for c in cells) else None


def _pfc(text: str | None) -> frozenset[int] | None:
    if text == "none":
        return frozenset()
    words = (text or "").replace(",", " ").split()
    return frozenset(map(int, words)) if words and all(re.fullmatch("[0-7]", word) for word in words) else None


def _app(rows: dict[str, str]) -> NiccliApp:
    ethertype = re.fullmatch("0x([0-9a-fA-F]{1,4})", rows.get("Ethertype", ""))
    port = next((value for key, value in rows.items() if _PORT.fullmatch(key)), None)
    return NiccliApp(
        priority=integer(rows.get("Priority")),
        selector=integer(rows.get("Sel")),
        dscp=integer(rows.get("DSCP")),
        port=integer(port),
        ethertype=int(ethertype.group(1), 16) if ethertype else None,
    )
