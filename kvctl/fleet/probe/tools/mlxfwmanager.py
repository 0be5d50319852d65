"""What `mlxfwmanager`, `mlxfwmanager --query` and `mlxup` print, as text or with --query-format XML.

Format: mstflint mlxfwupdate/mlxfwmanager.cpp (printDeviceInfoQuery, generateQueryXML). Version rows are sorted by
name, so "FW (Running)", which is there only when it differs from "FW", stands between "CLP" and "NVMe".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree import ElementTree

from . import ToolOutputError, agree, given, integer, reject, text_lines

_HEAD = re.compile(r"Device #([0-9]{1,4}):")
_KEY = re.compile(
    r"(Device Type|Part Number|Description|PSID|PCI Device Name|Status"
    r"|(?:Base|Node|System|Port1|Port2) (?:GUID|MAC)):(?:\s+(.*))?"
)
_VERSION_ROW = re.compile(r"(FW \(Running\)|[A-Za-z][\w ]*?)\s+([0-9][\w.\-]*|N/A|--)(?:\s+([0-9][\w.\-]*|N/A|--))?")
_VERSIONS = re.compile(r"Versions:\s+Current\b.*")
_UPDATING = re.compile(r"Device #([0-9]{1,4})(?: \([^)]*\))?: (Updating FW|Done)(.*)")
_INVENTED = re.compile(r"Device #\s*\|")
_BDF = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_FREEBSD_BDF = re.compile(r"pci([0-9]{1,5}):([0-9]{1,3}):([0-9]{1,2}):([0-7])")
_RUNNING = "FW (Running)"


@dataclass(frozen=True)
class FwDevice:
    """One device of the listing; versions are opaque strings (switch ASICs have "30_2012_4038-006")."""

    number: int | None = None
    device_type: str | None = None
    part_number: str | None = None
    description: str | None = None
    psid: str | None = None
    pci: str | None = None  # dddd:bb:dd.f when the name is an address, else the name as printed
    base_guid: str | None = None
    base_mac: str | None = None
    guids: dict[str, str] = field(default_factory=dict)  # "Port1", "Port2", "Node", "System"
    macs: dict[str, str] = field(default_factory=dict)
    fw_stored: str | None = None
    fw_running: str | None = None
    fw_available: str | None = None
    pending_reset: bool | None = None
    updated_to: str | None = None  # burnt after the table was printed; runs after the next reset
    status: str | None = None
    roms: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)  # name -> current, available


def parse_query(text: str) -> tuple[FwDevice, ...]:
    """Every device of the listing, in order.

    Raises ToolOutputError when there is none (an error message, a table that the tool never prints).
    """
    if re.search(r"<Devices?\b", text):
        return parse_xml(text)
    lines = text_lines(text)
    if any(_INVENTED.match(line.strip()) for line in lines):
        raise ToolOutputError("not mlxfwmanager output: the tool never prints a table of devices with bars")
    blocks: list[tuple[int, list[str]]] = []
    for line in lines:
        head = _HEAD.fullmatch(line.strip())
        if head:
            blocks.append((int(head.group(1)), []))
        elif blocks:
            blocks[-1][1].append(line)
    devices = tuple(_device(number, block, _burnt(lines, number)) for number, block in blocks)
    # mlxconfig, which update scripts run next, numbers its devices in the same way.
    devices = tuple(device for device in devices if device.psid or device.device_type or device.pci or device.fw_stored)
    if not devices:
        reject("mlxfwmanager", text)
    return devices


def parse_xml(text: str) -> tuple[FwDevice, ...]:
    """The same from --query-format XML; lines around the document are passed over."""
    if re.search(r"<!(?:DOCTYPE|ENTITY)", text):
        raise ToolOutputError("not mlxfwmanager XML: it has no document type or entities")
    start, end = text.find("<Devices"), text.rfind("</Devices>")
    if start < 0 or end < 0:
        reject("mlxfwmanager XML", text)
    try:
        root = ElementTree.fromstring(text[start : end + len("</Devices>")].replace("\x00", ""))
    except (ElementTree.ParseError, ValueError) as error:
        raise ToolOutputError(f"not mlxfwmanager XML: {error}") from error
    return tuple(_xml_device(element) for element in root.iter("Device"))


def pci_address(name: str | None) -> str | None:
    """dddd:bb:dd.f for the spellings of a PCI address (short, with domain, FreeBSD's); another name as it is."""
    if name is None:
        return None
    bdf, freebsd = _BDF.fullmatch(name), _FREEBSD_BDF.fullmatch(name)
    if bdf:
        return f"{bdf.group(1) or '0000'}:{bdf.group(2)}:{bdf.group(3)}.{bdf.group(4)}".lower()
    if freebsd:
        domain, bus, slot, function = (int(part) for part in freebsd.groups())
        return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
    return name


def _device(number: int, lines: list[str], burnt: bool) -> FwDevice:
    keys: dict[str, str] = {}
    versions: dict[str, tuple[str | None, str | None]] = {}
    inside = complete = False
    for position, line in enumerate(lines):
        stripped = line.strip()
        key, row = _KEY.fullmatch(stripped), _VERSION_ROW.fullmatch(stripped)
        if _VERSIONS.fullmatch(stripped):
            inside = True
        elif key:
            keys[key.group(1)] = agree(keys.get(key.group(1)), (key.group(2) or "").strip(), key.group(1))
            complete, inside = complete or key.group(1) == "Status", inside and key.group(1) != "Status"
        elif inside and row and (row.group(3) or position < len(lines) - 1):
            cells = given(row.group(2)), given(row.group(3))
            versions[row.group(1)] = agree(versions.get(row.group(1)), cells, row.group(1))
            complete = complete or row.group(1) > _RUNNING
    return _assemble(number, keys, versions, complete, burnt)


def _assemble(
    number: int | None,
    keys: dict[str, str],
    versions: dict[str, tuple[str | None, str | None]],
    complete: bool,
    burnt: bool,
) -> FwDevice:
    """`complete`: the row of the running firmware would have been seen if there were one."""
    stored, available = versions.get("FW", (None, None))
    running = versions[_RUNNING][0] if _RUNNING in versions else stored if complete else None
    differs = None if stored is None or running is None else stored != running
    return FwDevice(
        number=number,
        device_type=given(keys.get("Device Type")),
        part_number=given(keys.get("Part Number")),
        description=given(keys.get("Description")),
        psid=given(keys.get("PSID")),
        pci=pci_address(given(keys.get("PCI Device Name"))),
        base_guid=_uid(keys.get("Base GUID")),
        base_mac=_uid(keys.get("Base MAC")),
        guids=_by_port(keys, "GUID"),
        macs=_by_port(keys, "MAC"),
        fw_stored=stored,
        fw_running=running,
        fw_available=available,
        pending_reset=True if burnt else differs,
        updated_to=available if burnt else None,
        status=given(keys.get("Status")),
        roms={name: cells for name, cells in versions.items() if name not in ("FW", _RUNNING)},
    )


def _by_port(keys: dict[str, str], kind: str) -> dict[str, str]:
    named = {name.split()[0]: _uid(value) for name, value in keys.items() if name.endswith(kind)}
    return {name: value for name, value in named.items() if value is not None and name != "Base"}


def _uid(text: str | None) -> str | None:
    """A GUID or MAC as bare lower-case hex; None for "N/A" and for a masked one."""
    return text.lower() if text is not None and re.fullmatch("[0-9a-fA-F]{12}|[0-9a-fA-F]{16}", text) else None


def _burnt(lines: list[str], number: int) -> bool:
    """Whether the text goes on to say that this device was updated, and that the update waits for a reset."""
    if not any("Restart needed for updates to take effect" in line for line in lines):
        return False
    updating = False
    for line in lines:
        match = _UPDATING.match(line.strip())
        if match:
            updating = integer(match.group(1)) == number
            line = match.group(2) + match.group(3)
        if updating and re.search(r"\bDone\b", line):
            return True
    return False


def _xml_device(element: ElementTree.Element) -> FwDevice:
    keys = {
        "Device Type": element.get("type", ""),
        "Part Number": element.get("partNumber", ""),
        "PSID": element.get("psid", ""),
        "PCI Device Name": element.get("pciName", ""),
        "Description": element.findtext("Description", ""),
        "Status": element.findtext("Status", ""),
    }
    for tag, kind in (("GUIDs", "GUID"), ("MACs", "MAC")):
        for child in element.findall(tag):
            for name, value in child.attrib.items():
                keys[f"{name.split('_')[0].capitalize()} {kind}"] = value
    versions = {}
    for row in element.findall("Versions/*"):
        name = _RUNNING if row.tag == "FW_Running" else row.tag.replace("_", " ")
        versions[name] = given(row.get("current")), given(row.get("available"))
    return _assemble(None, keys, versions, True, False)
