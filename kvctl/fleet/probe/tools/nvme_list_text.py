"""The tables of `nvme list`, plain (one table) and verbose (subsystems, controllers, namespaces).

nvme-cli 1.x has no Generic column and prints the namespace number in decimal, 2.x in hexadecimal; sizes are rounded.
"""

from __future__ import annotations

import re
from dataclasses import replace

from . import ToolOutputError
from .nvme_devices import Found, NvmeController, NvmeList, NvmeNamespace, read_controller
from .ruled import Table, is_ruler, tables
from .scalars import plain

_USAGE = re.compile(
    r"(?P<used>[0-9]{1,9}[.,][0-9]{1,3})\s*(?P<used_unit>[kKMGTPE]?)B\s*/\s*(?P<size>[0-9]{1,9}[.,][0-9]{1,3})\s*(?P<size_unit>[kKMGTPE]?)B"
)
_FORMAT = re.compile(r"(?P<lba>[0-9]{1,9})\s*(?P<unit>[KMG]?)i?B\s*\+\s*(?P<meta>[0-9]{1,9})\s*B")
_NODE = re.compile(r"\s*(?:/dev/)?(?:nvme|ng)[0-9]")
_SI = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def list_from_text(text: str) -> NvmeList:
    found = Found()
    rows: dict[str, tuple[str, str]] = {}
    plain_tables = [table for table in tables(text) if {"Node", "SN"} <= set(table.header)]
    for table in plain_tables:
        for row in _readable(table):
            found.add(_entry(row), ())
            rows[row["Node"].rpartition("/")[2]] = (row.get("Usage", ""), row.get("Format", ""))
    if not plain_tables:
        _verbose(text, found, rows)
    result = found.result()
    namespaces = tuple(_rounded(item, *rows.get(item.name or "", ("", ""))) for item in result.namespaces)
    return NvmeList(namespaces, result.controllers, result.hidden)


def _readable(table: Table) -> list[dict[str, str]]:
    """The rows of devices; what else stands under the table is a prompt or a message."""
    unread = [line for line in table.unread if _NODE.match(line)]
    if unread:
        raise ToolOutputError("a row does not fit the columns: " + unread[0].strip()[:60])
    return [row for row in table.rows if _NODE.match(row["Node"])]


def _entry(row: dict[str, str]) -> dict[str, object]:
    return {
        "NSID": row.get("Namespace"),
        "DevicePath": row["Node"],
        "GenericPath": row.get("Generic"),
        "SerialNumber": row.get("SN"),
        "ModelNumber": row.get("Model"),
        "Firmware": row.get("FW Rev"),
    }


# The rows of the verbose tables do not keep to the columns of their headers, so they are read by what they hold.
_CONTROLLER = re.compile(
    r"(?P<name>nvme[0-9]+)\s+(?P<who>\S.*?)\s+(?P<transport>pcie|tcp|rdma|fc|loop|apple-nvme)\s+(?P<place>\S.*?)"
    r"\s+(?P<subsystem>nvme-subsys[0-9]+)(?:\s+(?P<namespaces>nvme\S.*))?"
)
_NAMESPACE = re.compile(
    r"(?:/dev/)?(?P<name>nvme[0-9]+n[0-9]+)\s+(?:(?:/dev/)?(?P<generic>ng[0-9]+n[0-9]+)\s+)?(?P<nsid>0x[0-9a-f]+|[0-9a-f]+)"
    r"\s+(?P<usage>[0-9]+[.,][0-9]+.*?B\)?)\s+(?P<format>[0-9]+\s*[KMG]?i?B\s*\+\s*[0-9]+\s*B)(?:\s+(?P<owners>nvme\S.*))?"
)


def _verbose(text: str, found: Found, rows: dict[str, tuple[str, str]]) -> None:
    section = ""
    known: dict[str, NvmeController] = {}
    for line in plain(text).splitlines():
        row = line.strip()
        if row.startswith(("Subsystem ", "Device ")):
            section = "subsystem" if row[0] == "S" else "namespace" if " NSID " in row else "controller"
            # Columns between the name and the serial number: the controller's number; since 3.0 who manages it.
            leading = r"(?:\S+\s+)?" if " Orchestrator " in row else ""
            leading += r"(?:[0-9]{1,5}\s+)?" if " Cntlid " in row else ""  # left blank by kernels that do not tell
            generic = " Generic " in row
        elif not row or is_ruler(row) or section in ("", "subsystem") or not _NODE.match(row):
            continue
        elif section == "controller":
            match = _matched(_CONTROLLER, row)
            known[match["name"]] = _owner(match, leading)
            found.add_controller(known[match["name"]])
        else:
            match = _matched(_NAMESPACE, row)
            owners = re.findall(r"nvme[0-9]+", match["owners"] or "")
            entry: dict[str, object] = {
                "NameSpace": match["name"],
                "Generic": match["generic"],
                "NSID": _nsid(match["nsid"], generic),
            }
            found.add(entry, tuple(known[name] for name in owners if name in known))
            rows[match["name"]] = (match["usage"], match["format"])
    if section != "namespace":
        raise ToolOutputError("no table of namespaces")


_LONGEST = 4000  # characters; a controller with hundreds of namespaces stays below


def _matched(pattern: re.Pattern[str], row: str) -> re.Match[str]:
    match = pattern.fullmatch(row) if len(row) < _LONGEST else None
    if match is None:
        raise ToolOutputError("not a row of the table: " + row[:60])
    return match


def _nsid(value: str, generic: bool) -> int | None:
    """Decimal in 1.x; since the Generic column came, hexadecimal, at first without 0x."""
    if not generic and not value.startswith("0x"):
        return int(value) if re.fullmatch(r"[0-9]{1,10}", value) else None
    return int(value, 16) if re.fullmatch(r"(?:0x)?[0-9a-f]{1,8}", value) else None


def _owner(match: re.Match[str], leading: str) -> NvmeController:
    who = re.sub("^" + leading, "", match["who"])
    serial = model = firmware = None
    # Serial number, model and firmware stand in columns of 20, 40 and 8 characters.
    if len(who) > 62 and who[20] == who[61] == " ":
        serial, model, firmware = who[:20], who[21:61], who[62:]
    elif len(who.split()) == 3:
        serial, model, firmware = who.split()
    address, _, slot = match["place"].partition(" ")
    pcie = match["transport"] == "pcie"
    entry: dict[str, object] = {
        "Controller": match["name"],
        "SerialNumber": serial,
        "ModelNumber": model,
        "Firmware": firmware,
        "Transport": match["transport"],
        "Address": address if pcie else match["place"],
        "Slot": slot if pcie else None,
    }
    return read_controller(entry, match["subsystem"], None)


def _rounded(namespace: NvmeNamespace, used_of: str, layout_of: str) -> NvmeNamespace:
    """The namespace with the rounded sizes and the format of its row."""
    usage, layout = _USAGE.match(used_of.strip()), _FORMAT.fullmatch(layout_of.strip())
    if usage:
        namespace = replace(
            namespace,
            used_bytes=_scaled(usage["used"], usage["used_unit"]),
            size_bytes=_scaled(usage["size"], usage["size_unit"]),
            size_exact=False,
        )
    if layout:
        sector = int(layout["lba"]) * _BINARY[layout["unit"]]
        namespace = replace(
            namespace,
            sector_size=sector if sector >= 512 and not sector & (sector - 1) else None,
            metadata_bytes=int(layout["meta"]),
        )
    return namespace


def _scaled(number: str, unit: str) -> int:
    return round(float(number.replace(",", ".")) * _SI[unit.upper()])
