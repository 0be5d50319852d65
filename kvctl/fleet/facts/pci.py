"""Facts of a PCI function: its link and its place."""

import re

from kvctl.fleet.facts.raw import Raw, convert
from kvctl.types.facts import Fact, PcieLink, unknown

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s\b.*")


def pcie_link(raw: Raw, address: str | None) -> PcieLink:
    if address is None:
        no = unknown("no PCI address")
        return PcieLink(no, no, no, no)
    return PcieLink(
        current_speed=_speed(raw.text("pci", address, "current_link_speed")),
        max_speed=_speed(raw.text("pci", address, "max_link_speed")),
        current_width=_width(raw, address, "current_link_width"),
        max_width=_width(raw, address, "max_link_width"),
    )


def numa(raw: Raw, address: str | None) -> Fact[int]:
    """The NUMA node; -1 is the kernel's "none", which on a machine with one node is right and on others unknown."""
    node = raw.number("pci", address or "", "numa_node", low=-1, high=65535)
    return convert(node, lambda value: value if value >= 0 else None, "the firmware assigned no NUMA node")


def identifier(raw: Raw, address: str | None, name: str) -> Fact[str]:
    """A vendor or device id as four hexadecimal digits."""
    return convert(raw.text("pci", address or "", name), _digits)


def _digits(text: str) -> str | None:
    match = re.fullmatch(r"0x([0-9a-f]{4})", text)
    return match.group(1) if match else None


def _speed(fact: Fact[str]) -> Fact[float]:
    def number(text: str) -> float | None:
        match = _SPEED.fullmatch(text)
        return float(match.group(1)) if match else None

    return convert(fact, number, "the link is down or the firmware does not say")


def _width(raw: Raw, address: str, name: str) -> Fact[int]:
    # 0 is "no link"; 255 is what a register of a lost device reads.
    return convert(
        raw.number("pci", address, name, high=255), lambda lanes: lanes if 1 <= lanes <= 32 else None, "no link"
    )
