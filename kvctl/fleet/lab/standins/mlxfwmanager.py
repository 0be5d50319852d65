"""Stand-in for mlxfwmanager (Mellanox/mstflint, mlxfwupdate): query in text and XML."""

from __future__ import annotations

import sys
from typing import Any
from xml.sax.saxutils import quoteattr

from . import store


class Refused(Exception):
    """Printed after -E-; exit code 1."""


def padded(version: str) -> str:
    """The tool pads the last part of an expansion ROM's version: 14.22.16 is 14.22.0016."""
    head, dot, last = version.rpartition(".")
    return "%s%s%04d" % (head, dot, int(last)) if last.isdecimal() else version


def components(nic: dict[str, Any]) -> list[tuple[str, str, str]]:
    firmware = nic["firmware"]
    available = nic.get("available", {})
    rows = [("FW", firmware["stored"], available.get("FW", "N/A"))]
    if firmware["running"] != firmware["stored"]:
        rows.append(("FW (Running)", firmware["running"], "N/A"))
    roms = {kind: version for kind, version, _ in firmware["rom"]}
    rows += [(kind, padded(roms[kind]), available.get(kind, "N/A")) for kind in ("PXE", "UEFI") if kind in roms]
    return rows


def text(nics: list[dict[str, Any]]) -> str:
    lines = ["Querying Mellanox devices firmware ..."]
    for number, nic in enumerate(nics, 1):
        title = "Device #%d:" % number
        lines += ["", title, "-" * len(title), ""]
        fields = (
            ("Device Type", nic["device_type"]),
            ("Part Number", nic["part_number"]),
            ("Description", nic["description"]),
            ("PSID", nic["psid"]),
            ("PCI Device Name", nic["device_name"]),
            ("Base GUID", nic["base_guid"]),
            ("Base MAC", nic["base_mac"]),
        )
        lines += ["  %-18s%s" % (name + ":", value) for name, value in fields]
        lines.append("  %-18s%-15s%s" % ("Versions:", "Current", "Available"))
        lines += ["     %-15s%-15s%s" % row for row in components(nic)]
        if nic.get("status"):
            lines += ["", "  %-18s%s" % ("Status:", nic["status"])]
    return "\n".join(lines) + "\n"


def xml(nics: list[dict[str, Any]]) -> str:
    lines = ["<Devices>"]
    for nic in nics:
        names = (("pciName", "device_name"), ("type", "device_type"), ("psid", "psid"), ("partNumber", "part_number"))
        lines.append("    <Device %s>" % " ".join("%s=%s" % (name, quoteattr(nic[key])) for name, key in names))
        lines.append("      <Versions>")
        for name, current, available in components(nic):
            tag = name.replace(" (Running)", "_Running")
            lines.append("        <%s current=%s available=%s/>" % (tag, quoteattr(current), quoteattr(available)))
        lines.append("      </Versions>")
        lines.append("      <MACs Base_Mac=%s />" % quoteattr(nic["base_mac"]))
        if nic.get("base_guid"):
            lines.append("      <GUIDs Base_Guid=%s />" % quoteattr(nic["base_guid"]))
        lines.append("      <Status>%s</Status>" % (nic.get("status") or "No matching image found"))
        lines += ["      <Description>%s</Description>" % nic["description"], "    </Device>"]
    return "\n".join([*lines, "</Devices>"]) + "\n"


def run(argv: list[str]) -> str:
    form, device = "text", ""
    words = iter(argv)
    for word in words:
        if word in ("-d", "--dev"):
            device = next(words, "")
        elif word == "--query-format":
            form = next(words, "").lower()
        elif word not in ("--query", "-y", "--yes"):
            raise Refused("Unknown argument: %s" % word)
    if form not in ("text", "xml"):
        raise Refused("Unknown query format: %s" % form)
    state = store.load()
    nics = state["nics"]
    if device:
        nic = store.nic_named(state, device)
        if nic is None:
            raise Refused("Device %s was not found" % device)
        nics = [nic]
    if not nics:
        raise Refused("No devices found or specified, mst might be stopped")
    return xml(nics) if form == "xml" else text(nics)


def main(argv: list[str]) -> int:
    try:
        sys.stdout.write(run(argv))
    except Refused as refused:
        print("-E- %s" % refused)
        return 1
    return 0
