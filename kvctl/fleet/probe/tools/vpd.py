"""PCI vital product data out of `lspci -vv`, or of `mlxvpd` and `mstvpd`.

Formats: pciutils ls-vpd.c; mstflint's vpd tool. Firmware versions in VPD are cut, stale or absent depending on the
card's maker, so there is deliberately no field for one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from . import given, reject, text_lines

_SLOT = re.compile(r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s+[A-Za-z0-9].*")
_LSPCI_ROW = re.compile(r"\[([A-Z0-9]{2})\] [^:]+:\s*(.*)")
_LSPCI_NAME = re.compile(r"Product Name:\s*(.*)")
_TABLE_ROW = re.compile(r"(PN|EC|SN|MN|PG|FC|LC|RV|RW|V[0-9A-Z]|Y[0-9A-Z]|IDTAG)\s{3,}\S.*?\s{2,}(\S.*)")
_SHORT_ROW = re.compile(r"(PN|EC|SN|RV|ID|V[0-9A-Z]|Y[0-9A-Z]|MN|PG|IDTAG)\s*:\s+(.*)")


@dataclass(frozen=True)
class Vpd:
    """One function's data. Functions of one card share the serial number: count cards by it, not by function."""

    slot: str | None = None
    product_name: str | None = None
    part_number: str | None = None
    serial_number: str | None = None
    engineering_changes: str | None = None
    fields: dict[str, str] = field(default_factory=dict)  # every keyword as printed


def parse(text: str) -> tuple[Vpd, ...]:
    """Every function with data, in order. Raises ToolOutputError without any."""
    found: list[Vpd] = []
    slot: str | None = None
    name: str | None = None
    fields: dict[str, str] = {}
    for line in [*text_lines(text), "00:00.0 end"]:
        head = _SLOT.fullmatch(line)
        if head:
            if fields or name:
                found.append(_vpd(slot, name, fields))
            slot, name, fields = head.group(1).lower(), None, {}
            continue
        stripped = line.strip()
        title, row = _LSPCI_NAME.fullmatch(stripped), _LSPCI_ROW.fullmatch(stripped)
        row = row or _TABLE_ROW.fullmatch(stripped) or _SHORT_ROW.fullmatch(stripped)
        if title:
            name = given(title.group(1))
        elif row and given(row.group(2)):
            fields.setdefault(row.group(1), row.group(2).strip())
    if not found:
        reject("vital product data", text)
    return tuple(found)


def _vpd(slot: str | None, name: str | None, fields: dict[str, str]) -> Vpd:
    return Vpd(
        slot=slot,
        product_name=name or fields.get("IDTAG") or fields.get("ID"),
        part_number=fields.get("PN"),
        serial_number=fields.get("SN"),
        engineering_changes=fields.get("EC"),
        fields=fields,
    )
