"""What `mlxconfig [-e] query` and `mstconfig query` print: non-volatile settings of a ConnectX device.

Format: mstflint mlxconfig/mlxcfg_ui.cpp (printOpening, printConfHeader, printSingleParam, WriteSingleParam).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from . import (
    ToolOutputError,
    agree,
    given,
    integer,
    json_flag,
    json_object,
    looks_like_json,
    members,
    reject,
    text_lines,
)

_DEVICE = re.compile(r"Device #([0-9]{1,4}):")
_HEADER = re.compile(r"Configurations:(.*)")
_COLUMN = re.compile(r"Default|Current|Next Boot|New")
_ROW = re.compile(r"\s*(\*)?\s*(?:(RO)\s+)?([A-Z_][A-Z0-9_]+(?:\[[0-9]+(?:\.\.[0-9]+)?\])?)\s+(\S.*)")
_FIELD = re.compile(r"(Device type|Name|Description|Device):(?:\s+(.*))?")


@dataclass(frozen=True)
class NvRow:
    """One setting; values as printed: "True(1)", "128", "Array[0..7]". None where the column is not there or N/A."""

    default: str | None = None
    current: str | None = None
    next_boot: str | None = None
    differs: bool = False  # marked "*": the next boot's value is not the current or not the default one
    read_only: bool = False

    @property
    def pending(self) -> bool | None:
        """Whether a reset would change the value in force."""
        return None if self.current is None or self.next_boot is None else self.current != self.next_boot


@dataclass(frozen=True)
class NvDevice:
    """The settings of one device of the output."""

    number: int | None = None
    device_type: str | None = None
    name: str | None = None
    description: str | None = None
    device: str | None = None
    rows: dict[str, NvRow] = field(default_factory=dict)


def value_number(value: str | None) -> int | None:
    """The number of a printed value: 1 of "True(1)", 128 of "128"; None for arrays and unknown values."""
    match = re.fullmatch(r"(?:\S*\()?([0-9]{1,20})\)?", value or "")
    return integer(match.group(1)) if match else None


def parse_query(text: str) -> dict[str, NvRow]:
    """Settings by name of the one device in the text; empty when it lists none.

    Raises ToolOutputError for an error message and for a text with several devices (see parse_devices).
    """
    devices = parse_devices(text)
    if len(devices) > 1:
        raise ToolOutputError(f"{len(devices)} devices in one mlxconfig output")
    return devices[0].rows


def parse_devices(text: str) -> tuple[NvDevice, ...]:
    """Every device of the text or of the file that --json writes."""
    if looks_like_json(text):
        return _json_devices(text)
    devices: list[list[str]] = []
    for line in text_lines(text):
        head = _DEVICE.fullmatch(line.strip())
        if head or (_HEADER.match(line.strip()) and not devices):
            devices.append([])
        if devices:
            devices[-1].append(line)
    if not any(re.match(r"\s*(?:Device type|Configurations):", line) for lines in devices for line in lines):
        reject("mlxconfig", text)
    return tuple(_device(lines) for lines in devices)


def _device(lines: list[str]) -> NvDevice:
    columns: list[str] = []
    fields: dict[str, str] = {}
    rows: dict[str, NvRow] = {}
    for line in lines:
        header, named, row = _HEADER.fullmatch(line.strip()), _FIELD.fullmatch(line.strip()), _ROW.fullmatch(line)
        if header:
            columns = _COLUMN.findall(header.group(1))
        elif columns and row:
            parsed = _row(columns, row)
            if parsed is not None:
                rows[row.group(3)] = agree(rows.get(row.group(3)), parsed, row.group(3))
        elif named:
            fields.setdefault(named.group(1), named.group(2) or "")
    head = _DEVICE.fullmatch(lines[0].strip())
    return NvDevice(
        number=int(head.group(1)) if head else None,
        device_type=given(fields.get("Device type")),
        name=given(fields.get("Name")),
        description=given(fields.get("Description")),
        device=given(fields.get("Device")),
        rows=rows,
    )


def _row(columns: list[str], match: re.Match[str]) -> NvRow | None:
    """None when the cells do not fit the columns: a cut or foreign line must not shift a value."""
    cells = match.group(4).split()
    if len(cells) != len(columns) or any(cell.count("(") != cell.count(")") for cell in cells):
        return None
    value = {column: given(cells[index]) for index, column in enumerate(columns)}
    return NvRow(
        default=value.get("Default"),
        current=value.get("Current"),
        # `set` prints the old value beside the new one, and only the answer to its question tells which holds.
        next_boot=None if "New" in columns else value.get("Next Boot"),
        differs=match.group(1) is not None,
        read_only=match.group(2) is not None,
    )


def _json_devices(text: str) -> tuple[NvDevice, ...]:
    devices = []
    for key, body in json_object(text, "mlxconfig").items():
        head = re.fullmatch(r"Device #([0-9]{1,4})", key)
        if head and isinstance(body, dict):
            settings = members(body.get("tlv_configuration"))
            devices.append(
                NvDevice(
                    number=int(head.group(1)),
                    device_type=_cell(body.get("device_type")),
                    name=_cell(body.get("name")),
                    description=_cell(body.get("description")),
                    device=_cell(body.get("device")),
                    rows={name: _json_row(members(row)) for name, row in settings.items()},
                )
            )
    if not devices:
        reject("mlxconfig", text)
    return tuple(devices)


def _json_row(row: dict[str, Any]) -> NvRow:
    return NvRow(
        default=_cell(row.get("default_value")),
        current=_cell(row.get("current_value")),
        next_boot=_cell(row.get("next_value")),
        differs=json_flag(row.get("modified")) or False,
        read_only=json_flag(row.get("read_only")) or False,
    )


def _cell(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return given(str(value))
