"""What the kernel's log says about NVMe drives: timeouts, resets and removals (drivers/nvme/host, block layer).

Controller and namespace numbers may differ (nvme0 can own nvme1n1), so names are never turned into each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable

from . import ToolOutputError
from .scalars import plain

_KINDS = (
    ("removed", re.compile(r"Removing after probe failure|Disabling device after reset failure")),
    ("gone", re.compile(r"CSTS=0xffffffff", re.IGNORECASE)),
    ("down", re.compile(r"controller is down; will reset")),
    ("unreachable", re.compile(r"Refused to change power state|Unable to change power state from \S+ to D0")),
    ("not_ready", re.compile(r"Device (?:not ready|shutdown incomplete)")),
    ("timeout", re.compile(r"QID \d+(?: \([^)]*\))?(?: QID \d+)? timeout|\btimeout\b.*(?:QID|abort|reset)", re.I)),
    ("abort", re.compile(r"Abort status")),
    ("reset", re.compile(r"resetting controller|reset controller|frozen state error detected")),
    ("io_error", re.compile(r"I/O [Ee]rror|\bcritical \w+ error, dev |\(sct 0x[0-9a-f]+ / sc 0x")),
    ("vanished", re.compile(r"detected capacity change from [1-9]\d* to 0\b")),
    ("pci", re.compile(r"pci function ")),
)
_STAMP = re.compile(r"\[\s*(\d{1,10}\.\d{3,9})\]")
_NAMED = re.compile(r"\bnvme (nvme\d+): ")
_BY_ADDRESS = re.compile(r"\bnvme ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): ")
_BLOCK = re.compile(r"\b(?:dev )?(nvme\d+(?:c\d+)?n\d+)\b")
# dmesg with each of its --time-format values and --decode, syslog and journalctl, and /dev/kmsg itself.
_LOG_LINE = re.compile(
    r"\[\s*\d+\.\d{3,9}\]|\bkernel: |^\[\w{3} \w{3} +\d+ \d\d:\d\d:\d\d|^(?:\w+ *:\w+ *: *)?\[?\d{4}-\d\d-\d\dT\d\d:|"
    r"^[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d |^\d+,\d+,\d+,[^;\n]*;",
    re.MULTILINE,
)


@dataclass(frozen=True)
class NvmeEvent:
    """`seconds` since boot, when the line has them."""

    kind: str  # removed gone down unreachable not_ready timeout abort reset io_error vanished
    controller: str | None
    pci: str | None
    namespace: str | None
    seconds: float | None
    message: str


@dataclass(frozen=True)
class NvmeKernelLog:
    """`removed`: controllers the driver gave up; `gone`: those that no longer answer on the bus (all ones);
    `unreachable_pci`: functions that cannot be woken; `pci_of`: addresses that the log itself names."""

    events: tuple[NvmeEvent, ...]
    removed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    unreachable_pci: tuple[str, ...] = ()
    lost_namespaces: tuple[str, ...] = ()
    timed_out: tuple[str, ...] = ()
    pci_of: tuple[tuple[str, str], ...] = ()


def parse_kernel_log(text: str) -> NvmeKernelLog:
    """Events in the order of the log. An empty log has none; a text without a kernel log's form is an error."""
    events = []
    pci_of: list[tuple[str, str]] = []
    for line in plain(text).splitlines():
        known = re.search(r"\bnvme (nvme\d+): pci function ([0-9a-f:.]+)", line)
        if known:
            pci_of.append((known.group(1), known.group(2)))
            continue
        event = _event(line)
        if event:
            events.append(event)
    if not events and not pci_of and text.strip() and not _LOG_LINE.search(text):
        raise ToolOutputError("not a kernel log")
    return NvmeKernelLog(
        events=tuple(events),
        removed=_names(event.controller for event in events if event.kind == "removed"),
        gone=_names(event.controller for event in events if event.kind == "gone"),
        unreachable_pci=_names(event.pci for event in events if event.kind == "unreachable"),
        lost_namespaces=_names(event.namespace for event in events if event.kind == "vanished"),
        timed_out=_names(event.controller for event in events if event.kind == "timeout"),
        pci_of=tuple(dict.fromkeys(pci_of)),
    )


def _event(line: str) -> NvmeEvent | None:
    named, address, block = _NAMED.search(line), _BY_ADDRESS.search(line), _BLOCK.search(line)
    if not (named or address or block):
        return None
    kind = next((name for name, pattern in _KINDS if pattern.search(line)), None)
    if kind is None:
        return None
    stamp = _STAMP.search(line)
    start = named or address
    return NvmeEvent(
        kind=kind,
        controller=named.group(1) if named else None,
        pci=address.group(1) if address else None,
        namespace=block.group(1) if block else None,
        seconds=float(stamp.group(1)) if stamp else None,
        message=(line[start.end() :] if start else line[stamp.end() :] if stamp else line).strip(),
    )


def _names(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))
