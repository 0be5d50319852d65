"""Cisco NX-OS: `show interface priority-flow-control`, brief and detail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .. import ToolOutputError
from ..scalars import count, plain


@dataclass(frozen=True)
class NxosPfcPort:
    """`mode` is auto, on or off. Mode auto with `oper` False means that DCBX agreed on nothing with the host."""

    mode: str | None
    oper: bool | None
    vl_bitmap: str | None  # as printed
    priorities: frozenset[int] | None  # empty when off; None when the bitmap can be read in two ways
    rx_frames: int | None
    tx_frames: int | None


@dataclass(frozen=True)
class NxosPfc:
    ports: dict[str, NxosPfcPort]


_ROW = re.compile(
    r"\s*((?:Br-)?(?:Ethernet|Eth|Vethernet|port-channel|Po)[0-9][0-9/.]*)\s+(auto|on|off)\s+(on|off)"
    r"\s*(?:\(\s*([0-9a-fx,-]*)\s*\))?\s+([0-9]+)\s+([0-9]+)\s*",
    re.IGNORECASE,
)
_DETAIL = re.compile(r"^\s*((?:Ethernet|port-channel)[0-9][0-9/.]*):?[ \t]*$", re.MULTILINE | re.IGNORECASE)


def parse_pfc(text: str) -> NxosPfc:
    """Ports of the brief table, or of the detail form."""
    text = plain(text)
    found: dict[str, NxosPfcPort] = {}
    header = False
    for line in text.splitlines():
        if re.match(r"\s*Port\s+Mode\s+Oper\s*\(VL bmap\)", line):
            header = True
        match = _ROW.fullmatch(line)
        if match and header:
            port, mode, oper, bitmap, received, sent = match.groups()
            running = oper.lower() == "on"
            row = NxosPfcPort(
                mode.lower(), running, bitmap or None, _lanes(bitmap, running), count(received), count(sent)
            )
            if found.setdefault(port, row) != row:
                raise ToolOutputError("{} is given twice with different values".format(port))
        elif header and re.match(r"\s*(?:Br-)?(?:Ethernet|Eth|Vethernet|port-channel)[0-9]", line):
            raise ToolOutputError("not a row of the table: " + line.strip()[:60])
    if header:
        return NxosPfc(found)
    return _detail(text)


def _lanes(bitmap: str | None, running: bool) -> frozenset[int] | None:
    """The bits of the virtual lane map. Two digits without a letter could be hexadecimal or decimal: not guessed."""
    if not running:
        return frozenset()
    text = (bitmap or "").lower()
    if not re.fullmatch(r"[0-9]|0x[0-9a-f]{1,2}|(?=.*[a-f])[0-9a-f]{1,2}", text):
        return None
    value = int(text, 16)
    return frozenset(bit for bit in range(8) if value >> bit & 1)


def _detail(text: str) -> NxosPfc:
    parts = _DETAIL.split(text)
    found: dict[str, NxosPfcPort] = {}
    for port, body in zip(parts[1::2], parts[2::2]):
        mode = re.search(r"Admin Mode:\s*(auto|on|off)\b", body, re.IGNORECASE)
        oper = re.search(r"Oper Mode:\s*(on|off)\b", body, re.IGNORECASE)
        if not (mode or oper):
            continue
        bitmap = re.search(r"VL bitmap:\s*\(?\s*([0-9a-fx]+)\b", body, re.IGNORECASE)
        running = oper.group(1).lower() == "on" if oper else None
        received = re.search(r"Total Rx PFC Frames:\s*([0-9]+)\s*$", body, re.MULTILINE)
        sent = re.search(r"Total Tx PFC Frames:\s*([0-9]+)\s*$", body, re.MULTILINE)
        row = NxosPfcPort(
            mode.group(1).lower() if mode else None,
            running,
            bitmap.group(1) if bitmap else None,
            None if running is None else _lanes(bitmap.group(1) if bitmap else None, running),
            count(received.group(1)) if received else None,
            count(sent.group(1)) if sent else None,
        )
        if found.setdefault(port, row) != row:
            raise ToolOutputError("{} is given twice with different values".format(port))
    if not found:
        raise ToolOutputError("no table of priority flow control")
    return NxosPfc(found)
