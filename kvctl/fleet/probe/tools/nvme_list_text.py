"""The tables of `nvme list`, plain (one table) and verbose (subsystems, controllers, namespaces).

nvme-cli 1.x has no Generic column and prints the namespace number in decimal, 2.x in hexadecimal; sizes are rounded.
"""

from __future__ import annotations

import re

from . import ToolOutputError
from .nvme_devices import Found, NvmeController, NvmeList, NvmeNamespace, read_controller
from .ruled import Table, tables
from .scalars import words

_USAGE = re.compile(
    r"(?P<used>[0-9]+[.,][0-9]+)\s*(?P<used_unit>[kKMGTPE]?)B\s*/\s*(?P<size>[0-9]+[.,][0-9]+)\s*(?P<size_unit>[kKMGTPE]?)B"
)
_FORMAT = re.compile(r"(?P<lba>[0-9]+)\s*(?P<unit>[KMG]?)i?B\s*\+\s*(?P<meta>[0-9]+)\s*B")
_SI = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def list_from_text(text: str) -> NvmeList:
    found = Found()
    read = False
    known: dict[str, NvmeController] = {}
    sheets = tables(text)
    for table in sheets:
        if {"Device", "Address"} <= set(table.header):
            for row in _readable(table):
                known[row["Device"]] = _controller_row(row)
                found.add_controller(known[row["Device"]])
    for table in sheets:
        head = set(table.header)
        if not ({"Node", "SN"} <= head or {"Device", "NSID"} <= head):
            continue
        read = True
        for row in _readable(table):
            found.add(*_namespace_row(row, known))
    if not read:
        raise ToolOutputError("no table of namespaces")
    result = found.result()
    return NvmeList(tuple(_rounded(item, sheets) for item in result.namespaces), result.controllers, result.hidden)


def _readable(table: Table) -> tuple[dict[str, str], ...]:
    if table.unread:
        raise ToolOutputError("a row does not fit the columns: " + table.unread[0].strip()[:60])
    return table.rows


def _controller_row(row: dict[str, str]) -> NvmeController:
    address = words(row.get("Address"))
    return read_controller(
        {
            "Controller": row["Device"],
            "SerialNumber": row.get("SN"),
            "ModelNumber": row.get("MN"),
            "Firmware": row.get("FR"),
            "Transport": row.get("TxPort"),
            "Address": address,
            "Slot": row.get("Slot"),
        },
        words(row.get("Subsystem")),
        None,
    )


def _namespace_row(
    row: dict[str, str], known: dict[str, NvmeController]
) -> tuple[dict[str, object], tuple[NvmeController, ...]]:
    names = re.split(r"[,\s]+", row.get("Controllers", ""))
    node = row.get("Node") or row.get("Device", "")
    entry: dict[str, object] = {
        "NSID": row.get("Namespace", row.get("NSID")),
        "DevicePath": node if node.startswith("/dev/") else "/dev/" + node,
        "GenericPath": row.get("Generic"),
        "SerialNumber": row.get("SN"),
        "ModelNumber": row.get("Model"),
        "Firmware": row.get("FW Rev"),
    }
    return entry, tuple(known[name] for name in names if name in known)


def _rounded(namespace: NvmeNamespace, sheets: list[Table]) -> NvmeNamespace:
    """The namespace with the rounded sizes and the format of its row."""
    row: dict[str, str] = {}
    for table in sheets:
        for candidate in table.rows:
            node = candidate.get("Node") or (candidate.get("Device") if "NSID" in candidate else None)
            if node and node.rpartition("/")[2] == namespace.name:
                row = candidate
    usage = _USAGE.fullmatch(row.get("Usage", "").strip())
    layout = _FORMAT.fullmatch(row.get("Format", "").strip())
    values = dict(vars(namespace))
    if usage:
        values["used_bytes"] = _scaled(usage["used"], usage["used_unit"])
        values["size_bytes"] = _scaled(usage["size"], usage["size_unit"])
        values["size_exact"] = False
    if layout:
        sector = int(layout["lba"]) * _BINARY[layout["unit"]]
        values["sector_size"] = sector if sector >= 512 and not sector & (sector - 1) else None
        values["metadata_bytes"] = int(layout["meta"])
    return NvmeNamespace(**values)


def _scaled(number: str, unit: str) -> int:
    return round(float(number.replace(",", ".")) * _SI[unit.upper()])
