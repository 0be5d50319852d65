"""PCI devices as sysfs has them, and the ACS control word of bridges."""

from __future__ import annotations

import os
import struct

from .tree import Tree, known, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tree import Leaf

DEVICES = "/sys/bus/pci/devices"
_FIELDS = (
    "vendor",
    "device",
    "class",
    "subsystem_vendor",
    "subsystem_device",
    "numa_node",
    "current_link_speed",
    "max_link_speed",
    "current_link_width",
    "max_link_width",
)
_HEX = frozenset("0123456789abcdefABCDEF")
_ACS = 0x000D


def is_address(text: str) -> bool:
    """True for dddd:bb:dd.f (domains behind some host bridges have more than four digits)."""
    parts = text.split(":")
    if len(parts) != 3 or len(parts[0]) < 4 or len(parts[1]) != 2 or len(parts[2]) != 4 or parts[2][2] != ".":
        return False
    return _HEX.issuperset(parts[0] + parts[1] + parts[2].replace(".", ""))


def address_of(tree: Tree, device: str) -> str | None:
    """The PCI address of a `device` entry: the function itself, or the one that a virtio device is.

    What is plugged into a function, such as the network interface of a BMC on USB, is not on PCI.
    """
    parts = tree.real(device).split("/")
    if is_address(parts[-1]):
        return parts[-1]
    if parts[-1].startswith("virtio") and len(parts) > 1 and is_address(parts[-2]):
        return parts[-2]
    # A recorded tree may hold a plain folder in place of the link.
    for line in (tree.value(device + "/uevent") or "").splitlines():
        if line.startswith("PCI_SLOT_NAME=") and is_address(line[14:]):
            return line[14:]
    return None


def function(tree: Tree, address: str, device: str | None = None) -> dict[str, Any]:
    """Leaves of one PCI function. `device` is another path to it when the tree has no /sys/bus/pci."""
    folder = DEVICES + "/" + address
    if device is not None and not tree.exists(folder):
        folder = device
    found: dict[str, Any] = tree.texts(folder, _FIELDS)
    found["driver"] = driver_of(tree, folder)
    found["virtual_function"] = known(tree.exists(folder + "/physfn"), folder + "/physfn")
    bridges = [part for part in tree.real(folder).split("/") if is_address(part)]
    found["bridges"] = bridges[:-1]
    return found


def driver_of(tree: Tree, folder: str) -> Leaf:
    driver = tree.target(folder + "/driver")
    if driver:
        return known(driver, folder + "/driver")
    for line in (tree.value(folder + "/uevent") or "").splitlines():
        if line.startswith("DRIVER="):
            return known(line[7:], folder + "/uevent")
    return unknown("no driver is bound", folder + "/driver")


def acs_control(tree: Tree, address: str) -> Leaf:
    """The ACS control register of a bridge (PCI Express Base, 7.7.11.3), or 0 without the capability. Needs root."""
    source = DEVICES + "/" + address + "/config"
    try:
        fd = os.open(tree.at(source), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return unknown(why_not(error), source)
    try:
        if len(os.pread(fd, 1, 0x40)) < 1:
            return unknown("only root can read capabilities", source)
        at = 0x100
        # Each hop reads four bytes: reading all of the space costs a bus transaction for each word.
        for _hop in range(96):
            header = os.pread(fd, 4, at)
            if len(header) < 4:
                break
            word = struct.unpack("<I", header)[0]
            if word in (0, 0xFFFFFFFF):
                break
            if word & 0xFFFF == _ACS:
                control = os.pread(fd, 2, at + 6)
                if len(control) < 2:
                    return unknown("the configuration space is cut short", source)
                return known(struct.unpack("<H", control)[0], source)
            at = word >> 20
            if at < 0x100:
                break
        return known(0, source)
    except OSError as error:
        return unknown(why_not(error), source)
    finally:
        os.close(fd)


def with_class(tree: Tree, vendor: str, prefix: str) -> list[str]:
    """Addresses of the functions of a vendor ("0x10de") whose class starts with `prefix` ("0x03")."""
    found = []
    for address in tree.names(DEVICES):
        if tree.value(DEVICES + "/" + address + "/vendor") != vendor:
            continue
        if (tree.value(DEVICES + "/" + address + "/class") or "").startswith(prefix):
            found.append(address)
    return found
