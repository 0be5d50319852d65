"""What `mstflint -d DEV query [full]` and `flint` print; the two give the same text.

Format: mstflint flint/subcommands.cpp (printInfo, displayFs2Uids, displayFs3Uids, displayExpRomInfo).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import ToolOutputError, agree, given, integer, reject, text_lines

_ROW = re.compile(r"([A-Za-z][A-Za-z0-9 /().]*?):(?:\s+(.*))?")
_VERSION = re.compile(r"[0-9]+(?:[._][0-9]+){2,4}(?:-[\w.]+)?")
_ROM = re.compile(r"(?:type|version|version_id|cpu|devid)=\S+")
_KNOWN = frozenset(("Image type", "FW Version", "FW Version(Running)", "FW Release Date", "Product Version"))
_IDENTITY = frozenset(("FW Version", "FW Version(Running)", "PSID", "Base GUID", "Base MAC", "GUIDs", "MACs"))


@dataclass(frozen=True)
class Rom:
    """One expansion ROM; versions are not padded here, unlike in mlxfwmanager (14.26.17 and 14.26.0017 are one)."""

    type: str | None
    version: str | None
    cpu: str | None


@dataclass(frozen=True)
class FlintQuery:
    """Firmware identity of one device.

    `fw_running` equals `fw_stored` when the tool, which prints the running version only if it differs, printed
    neither that row nor stopped before it. GUIDs and MACs are bare lower-case hex.
    """

    image_type: str | None = None  # "FS2" | "FS3" | "FS4" | "FS5" | "FSCTRL"
    fw_stored: str | None = None
    fw_running: str | None = None
    pending_reset: bool | None = None
    release_date: str | None = None  # d.m.yyyy as printed
    product_version: str | None = None
    psid: str | None = None
    original_psid: str | None = None
    base_guid: str | None = None
    guids_number: int | None = None
    base_mac: str | None = None
    macs_number: int | None = None
    guids: tuple[str, ...] = ()  # FS2: node, port 1, port 2, system image
    macs: tuple[str, ...] = ()
    roms: tuple[Rom, ...] = ()
    device_id: int | None = None
    part_number: str | None = None
    description: str | None = None
    security: tuple[str, ...] | None = None  # () when the tool says N/A
    life_cycle: str | None = None
    secure_boot: bool | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_errors(text: str) -> tuple[str, ...]:
    """The tool's "-E-" messages in order, without the mark."""
    return _messages(text, "-E-")


def parse_query(text: str) -> FlintQuery:
    """Raises ToolOutputError for a text without any row of a query, or with the rows of two different devices."""
    rows, order = _rows(text)
    if not _KNOWN.intersection(rows):
        reject("flint query", text)
    stored, running = _version(rows.get("FW Version")), _version(rows.get("FW Version(Running)"))
    # The running row comes right after the stored one: its absence says something only if a later row is there.
    if running is None and stored is not None and "FW Version(Running)" not in rows and order[-1] != "FW Version":
        running = stored
    guid, guids_number = _uid(rows.get("Base GUID", rows.get("Base GUID1")), 16)
    mac, macs_number = _uid(rows.get("Base MAC", rows.get("Base MAC1")), 12)
    security = rows.get("Security Attributes")
    return FlintQuery(
        image_type=given(rows.get("Image type")),
        fw_stored=stored,
        fw_running=running,
        pending_reset=None if stored is None or running is None else stored != running,
        release_date=given(rows.get("FW Release Date")),
        product_version=given(rows.get("Product Version")),
        psid=given(rows.get("PSID")),
        original_psid=given(rows.get("Orig PSID")),
        base_guid=guid,
        guids_number=guids_number,
        base_mac=mac,
        macs_number=macs_number,
        guids=_many(rows.get("GUIDs"), 16),
        macs=_many(rows.get("MACs"), 12),
        roms=_roms(text),
        device_id=integer(given(rows.get("Device ID"))),
        part_number=given(rows.get("Part Number")),
        description=given(rows.get("Description")),
        security=None if security is None else tuple(a for a in re.split(r",\s*", given(security) or "") if a),
        life_cycle=given(rows.get("Life cycle")),
        secure_boot={"Enabled": True, "Disabled": False}.get(rows.get("Secure Boot Capable", "").strip()),
        errors=_messages(text, "-E-"),
        warnings=_messages(text, "-W-"),
    )


def _messages(text: str, mark: str) -> tuple[str, ...]:
    lines = (line.strip() for line in text_lines(text))
    return tuple(line[len(mark) :].strip() for line in lines if line.startswith(mark) and len(line) > len(mark))


def _rows(text: str) -> tuple[dict[str, str], list[str]]:
    """Rows by name and the names in order; a version on a line that no newline ends may be cut and is left out."""
    rows: dict[str, str] = {}
    order: list[str] = []
    lines = text_lines(text)
    for number, line in enumerate(lines):
        match = _ROW.fullmatch(line.strip())
        if match is None:
            continue
        name, value = match.group(1), (match.group(2) or "").strip()
        if name == "Image type" and _KNOWN.intersection(rows):
            raise ToolOutputError("contradicts itself: several queries in one text")
        if name.startswith("FW Version") and number == len(lines) - 1:
            continue
        if name == "Description" and re.match(r"UID\s+GuidsNumber|Node\s+Port1|Port1\s+Port2", value):
            continue  # the head of the GUID table, not the card's description
        rows[name] = agree(rows.get(name), value, name) if name in _IDENTITY else rows.get(name, value)
        order.append(name)
    return rows, order


def _version(text: str | None) -> str | None:
    return text if text is not None and _VERSION.fullmatch(text) else None


def _uid(text: str | None, digits: int) -> tuple[str | None, int | None]:
    cells = (text or "").split()
    # Tools of 2017 printed a MAC with four zeros in front.
    uid = cells[0][-digits:].lower() if cells and re.fullmatch(f"(?:0000)?[0-9a-fA-F]{{{digits}}}", cells[0]) else None
    return uid, integer(cells[1]) if len(cells) > 1 else None


def _many(text: str | None, digits: int) -> tuple[str, ...]:
    return tuple(uid.lower() for uid in re.findall(rf"\b[0-9a-fA-F]{{{digits}}}\b", text or ""))


def _roms(text: str) -> tuple[Rom, ...]:
    """The rows after "Rom Info:"; all but the first have no key."""
    roms = []
    inside = False
    for line in text_lines(text):
        stripped = line.strip()
        if stripped.startswith("Rom Info:"):
            inside, stripped = True, stripped[len("Rom Info:") :].strip()
        cells = dict(cell.split("=", 1) for cell in _ROM.findall(stripped)) if inside else {}
        inside = inside and bool(cells)
        if cells:
            roms.append(Rom(cells.get("type"), cells.get("version", cells.get("version_id")), cells.get("cpu")))
    return tuple(roms)
