"""Firmware of one network adapter: what is stored, what runs, and what must be done. The decision is pure.

Two back ends: mstflint or flint (mlx5; identity is the PSID), and devlink (others; its `fw.psid`, when it has one).
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, NamedTuple, Optional

from .kvctl_command import Command, argv, find, run
from .kvctl_refused import Refused
from .tools import ToolOutputError, mstflint

PCI = "/sys/bus/pci/devices"
IMAGES = "/var/lib/kvctl/images"
DEVLINK_IMAGES = "/lib/firmware/kvctl"  # the kernel opens a devlink image below /lib/firmware
VERSION_KEYS = ("fw.version", "fw", "fw.bundle_id", "fw.mgmt")


class Flash(NamedTuple):
    """One adapter as its tool shows it; a version that is not shown is None."""

    tool: str  # mstflint | flint | devlink
    psid: Optional[str]
    stored: Optional[str]
    running: Optional[str]


class Actions(NamedTuple):
    burn: bool
    reset: bool

    def __bool__(self) -> bool:
        return self.burn or self.reset


def refuse_device(pci: str, present: bool, virtual: bool) -> None:
    if not present:
        raise Refused("KV-FW-001", "there is no PCI device %s" % pci, "check the inventory and the slot")
    if virtual:
        raise Refused("KV-FW-003", "%s is a virtual function and has no flash of its own" % pci, "name the PF")


def decide(device: Dict[str, Any], flash: Flash) -> Actions:
    """What brings `flash` to the pinned version. Refuses another PSID, and a version that is not to be had."""
    pci, psid, version = device["pci"], device["psid"], device["version"]
    if flash.psid != psid:
        raise Refused(
            "KV-FW-004", "%s has PSID %s, the pin is for %s" % (pci, flash.psid or "unknown", psid),
            "pin this PSID with its own image; a PSID is never crossed",
        )  # fmt: skip
    if flash.stored is None or flash.running is None:
        raise Refused("KV-FW-008", "%s of %s does not say which version is stored and runs" % (flash.tool, pci))
    if flash.stored == version:
        return Actions(burn=False, reset=flash.running != version)
    if not device.get("image"):
        raise Refused(
            "KV-FW-005", "%s stores %s, wanted %s, and no image is given" % (pci, flash.stored, version),
            "give roles.ROLE.nic.firmware.PSID.image and sha256",
        )  # fmt: skip
    return Actions(burn=True, reset=True)


def read(pci: str) -> Flash:
    path = os.path.join(PCI, pci)
    refuse_device(pci, os.path.exists(path), os.path.exists(path + "/physfn"))
    for tool in ("mstflint", "flint"):
        if find(tool):
            return from_flint(tool, pci, run([tool, "-d", pci, "-qq", "query"], 60).text)
    if find("devlink"):
        output = run(["devlink", "-j", "dev", "info", "pci/" + pci])
        if output.rc == 0:
            return from_devlink(pci, output.out)
    raise Refused("KV-FW-002", "neither mstflint, flint nor devlink can read %s" % pci, "install mstflint")


def from_flint(tool: str, pci: str, text: str) -> Flash:
    try:
        seen = mstflint.parse_query(text)
    except ToolOutputError as error:
        raise Refused("KV-FW-009", "%s -d %s query: %s" % (tool, pci, error), "see the tool's output") from None
    if seen.errors:
        raise Refused("KV-FW-009", "%s -d %s query: %s" % (tool, pci, seen.errors[0]), "see the tool's output")
    return Flash(tool, seen.psid, seen.fw_stored, seen.fw_running)


def from_devlink(pci: str, text: str) -> Flash:
    try:
        info = json.loads(text)["info"]["pci/" + pci]
        versions = info.get("versions", {})
        running, fixed = versions.get("running", {}), versions.get("fixed", {})
        stored = versions.get("stored", running)  # a driver without a stored section has no pending image
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused("KV-FW-009", "devlink dev info pci/%s: not the expected JSON" % pci) from None
    key = next((name for name in VERSION_KEYS if name in running), None)
    psid = fixed.get("fw.psid") or running.get("fw.psid")
    return Flash("devlink", psid, stored.get(key) if key else None, running.get(key) if key else None)


def image_path(sha256: str) -> str:
    return "%s/%s.bin" % (IMAGES, sha256)


def check_image(device: Dict[str, Any], flash: Flash) -> None:
    """The copied image is the pinned bytes and is made for this PSID and version."""
    path = image_path(device["sha256"])
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    except OSError as error:
        raise Refused("KV-FW-006", "the image %s is not on the node: %s" % (path, error.strerror)) from None
    if digest.hexdigest() != device["sha256"]:
        raise Refused("KV-FW-006", "the image %s has another checksum" % path, "copy it again, or correct sha256")
    if flash.tool == "devlink":
        return  # the kernel and the adapter check the image; no tool reads it
    image = from_flint(flash.tool, path, run([flash.tool, "-i", path, "-qq", "query"], 60).text)
    if image.psid != device["psid"]:
        raise Refused(
            "KV-FW-007", "the image is for PSID %s, not %s" % (image.psid, device["psid"]), "use its own image"
        )
    if image.stored != device["version"]:
        raise Refused(
            "KV-FW-010", "the image is %s, the pin is %s" % (image.stored, device["version"]), "correct the pin"
        )


def burn_commands(device: Dict[str, Any], flash: Flash) -> List[Command]:
    image = image_path(device["sha256"])
    if flash.tool == "devlink":
        name = device["sha256"] + ".bin"
        return [
            argv("install", "-D", "-m", "0644", image, "%s/%s" % (DEVLINK_IMAGES, name)),
            argv("devlink", "dev", "flash", "pci/" + device["pci"], "file", "kvctl/" + name),
            argv("rm", "-f", "%s/%s" % (DEVLINK_IMAGES, name)),
        ]
    return [argv(flash.tool, "-d", device["pci"], "-i", image, "-y", "burn")]


def reset_command(device: Dict[str, Any], flash: Flash) -> Optional[Command]:
    """What makes the stored version run without a reboot, when such a tool is installed."""
    if flash.tool == "devlink":
        return argv("devlink", "dev", "reload", "pci/" + device["pci"], "action", "fw_activate")
    for tool in ("mstfwreset", "mlxfwreset"):
        if find(tool):
            return argv(tool, "-d", device["pci"], "-y", "reset")
    return None
