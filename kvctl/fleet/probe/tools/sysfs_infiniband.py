"""RDMA devices out of `grep -r . /sys/class/infiniband/` (lines "path:content").

Attributes: the kernel's Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import ToolOutputError, decimal, given, integer, reject, text_lines

_LINE = re.compile(r"(?:\S*/)?infiniband/([^/:\s]+)/([^:\s]+):(.*)")
_PORT_FILE = re.compile(r"ports/([0-9]{1,3})/(?:(hw_counters|counters)/)?([^/]+)")


@dataclass(frozen=True)
class SysfsPort:
    number: int
    state: str | None = None  # "ACTIVE", without the number before it
    physical_state: str | None = None  # "LinkUp"
    link_layer: str | None = None  # "Ethernet" | "InfiniBand"
    rate: float | None = None  # Gb/s
    counters: dict[str, int] = field(default_factory=dict)
    hw_counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SysfsCa:
    """One device; `attributes` are the contents of all its other files by path below it."""

    name: str
    hca_type: str | None = None  # "MT4129"
    board_id: str | None = None  # PSID on Mellanox devices
    firmware: str | None = None
    node_guid: str | None = None
    system_image_guid: str | None = None
    ports: tuple[SysfsPort, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)


def parse_grep(text: str) -> tuple[SysfsCa, ...]:
    """Every device in order of appearance. Raises ToolOutputError without one and for files with two contents."""
    devices: dict[str, dict[str, list[str]]] = {}
    for match in filter(None, (_LINE.fullmatch(line.strip()) for line in text_lines(text))):
        device, path, content = match.groups()
        lines = devices.setdefault(device, {}).setdefault(path, [])
        if content not in lines:
            lines.append(content)
    if not devices:
        reject("/sys/class/infiniband", text)
    return tuple(_ca(name, files) for name, files in devices.items())


def by_type(cas: Iterable[SysfsCa]) -> dict[str, tuple[SysfsCa, ...]]:
    """Devices grouped by hca_type: firmware is comparable only inside one group. Those without a type are left out."""
    groups: dict[str, tuple[SysfsCa, ...]] = {}
    for ca in cas:
        if ca.hca_type is not None:
            groups[ca.hca_type] = (*groups.get(ca.hca_type, ()), ca)
    return groups


def _ca(name: str, files: dict[str, list[str]]) -> SysfsCa:
    numbers = sorted({int(match.group(1)) for match in map(_PORT_FILE.fullmatch, files) if match})
    return SysfsCa(
        name=name,
        hca_type=_content(files, "hca_type"),
        board_id=_content(files, "board_id"),
        firmware=_content(files, "fw_ver"),
        node_guid=_content(files, "node_guid"),
        system_image_guid=_content(files, "sys_image_guid"),
        ports=tuple(_port(number, files) for number in numbers),
        attributes={path: "\n".join(lines) for path, lines in files.items() if not path.startswith("ports/")},
    )


def _port(number: int, files: dict[str, list[str]]) -> SysfsPort:
    rate = re.fullmatch(r"([0-9.]{1,8}) Gb/sec(?: .*)?", _content(files, f"ports/{number}/rate") or "")
    return SysfsPort(
        number=number,
        state=_after_number(_content(files, f"ports/{number}/state")),
        physical_state=_after_number(_content(files, f"ports/{number}/phys_state")),
        link_layer=_content(files, f"ports/{number}/link_layer"),
        rate=decimal(rate.group(1)) if rate else None,
        counters=_counters(files, f"ports/{number}/counters/"),
        hw_counters=_counters(files, f"ports/{number}/hw_counters/"),
    )


def _content(files: dict[str, list[str]], path: str) -> str | None:
    lines = files.get(path, [])
    if len(lines) > 1:
        raise ToolOutputError(f"contradicts itself: {path} is both {lines[0]!r} and {lines[1]!r}")
    return given(lines[0]) if lines else None


def _after_number(text: str | None) -> str | None:
    match = re.fullmatch(r"[0-9]{1,3}: (\S.*)", text or "")
    return match.group(1) if match else None


def _counters(files: dict[str, list[str]], folder: str) -> dict[str, int]:
    counters = {}
    for path in files:
        number = integer(_content(files, path)) if path.startswith(folder) else None
        if number is not None:
            counters[path[len(folder) :]] = number
    return counters
