"""Vital product data of a PCI card: part and serial number. Format: PCI Local Bus 3.0, appendix I."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vpd:
    product: str | None = None
    part_number: str | None = None
    serial: str | None = None


def decode(data: bytes) -> Vpd:
    """Fields up to the first thing that breaks the format. Firmware versions in it are ignored: vendors cut them."""
    product = None
    keys: dict[str, str] = {}
    at = 0
    while at < len(data):
        tag = data[at]
        if not tag & 0x80:  # a small resource; 0x78 ends the list
            if tag >> 3 == 0xF:
                break
            at += 1 + (tag & 0x7)
            continue
        if at + 3 > len(data):
            break
        length = int.from_bytes(data[at + 1 : at + 3], "little")
        body = data[at + 3 : at + 3 + length]
        if len(body) < length:
            break
        if tag == 0x82:
            product = _text(body)
        elif tag == 0x90:
            keys.update(_fields(body))
        at += 3 + length
    return Vpd(product, keys.get("PN"), keys.get("SN"))


def _fields(body: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at + 3 <= len(body):
        key, length = body[at : at + 2], body[at + 2]
        value = body[at + 3 : at + 3 + length]
        if len(value) < length:
            break
        text = _text(value)
        if text and key.isalnum():
            found[key.decode("ascii")] = text
        at += 3 + length
    return found


def _text(data: bytes) -> str | None:
    text = data.split(b"\0", 1)[0].decode("ascii", "replace").strip()
    return text if text and text.isprintable() and "\ufffd" not in text else None
