"""Two binary files of PCI functions: a bridge's configuration space and a card's vital product data."""

from __future__ import annotations

import struct
from typing import Any

ACS_CAPABILITY = 0x000D


def bridge_config() -> bytes:
    """4096 bytes: a PCI bridge whose one extended capability is ACS, with all of it switched off."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, 0x1022, 0x1483)
    space[0x0A:0x0C] = b"\x04\x06"  # class: PCI bridge
    space[0x0E] = 1  # header type 1
    struct.pack_into("<I", space, 0x100, 1 << 16 | ACS_CAPABILITY)  # version 1, no next capability
    struct.pack_into("<HH", space, 0x104, 0x005F, 0x0000)  # what it can, what it does
    return bytes(space)


def vital_product_data(nic: dict[str, Any]) -> bytes:
    """PCI Local Bus 3.0, appendix I: identifier string, read-only fields with a checksum, end tag."""
    name = nic["description"].encode()
    fields = b""
    for key, text in (("PN", nic["vpd_part_number"]), ("EC", "A6"), ("SN", nic["serial"]), ("V0", "PCIeGen4 x16")):
        fields += key.encode() + bytes([len(text)]) + text.encode()
    head: bytes = b"\x82" + struct.pack("<H", len(name)) + name
    body = b"\x90" + struct.pack("<H", len(fields) + 4) + fields + b"RV\x01"
    checksum = -sum(head + body) & 0xFF
    whole: bytes = head + body + bytes([checksum]) + b"\x78"
    return whole
