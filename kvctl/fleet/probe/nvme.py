"""NVMe controllers and their namespaces: /sys/class/nvme and /sys/block. No command is sent to a drive."""

from __future__ import annotations

from . import pci
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLASS = "/sys/class/nvme"
SUBSYSTEMS = "/sys/class/nvme-subsystem"
_CONTROLLER = ("model", "serial", "firmware_rev", "address", "transport", "state", "subsysnqn", "cntlid", "numa_node")


def controllers(tree: Tree) -> dict[str, Any]:
    """Every controller, with `device` (its PCI address or "") and `namespaces` (names of block devices)."""
    found: dict[str, Any] = {}
    for name in tree.names(CLASS):
        folder = CLASS + "/" + name
        controller: dict[str, Any] = tree.texts(folder, _CONTROLLER)
        address = (controller["address"].get("v") or "").lower()
        controller["device"] = address if pci.is_address(address) else pci.address_of(tree, folder + "/device") or ""
        controller["namespaces"] = namespaces(tree, name)
        found[name] = controller
    return found


def namespaces(tree: Tree, controller: str) -> list[str]:
    """Block devices of a controller. Under native multipath its own ones are hidden paths to the subsystem's."""
    folder = CLASS + "/" + controller
    found = []
    for name in tree.names(folder):
        if not name.startswith("nvme") or not tree.exists(folder + "/" + name + "/size"):
            continue
        if tree.value(folder + "/" + name + "/hidden") == "1" or _is_path(name):
            head = _head(tree, controller, name)
            if head:
                found.append(head)
        else:
            found.append(name)
    return sorted(set(found))


def _is_path(name: str) -> bool:
    """nvme0c0n1 is a path through one controller, nvme0n1 the namespace."""
    return "c" in name[4:]


def _head(tree: Tree, controller: str, path: str) -> str | None:
    nsid = tree.value(CLASS + "/" + controller + "/" + path + "/nsid")
    for subsystem in tree.names(SUBSYSTEMS):
        members = tree.names(SUBSYSTEMS + "/" + subsystem)
        if controller not in members or nsid is None:
            continue
        for name in members:
            folder = SUBSYSTEMS + "/" + subsystem + "/" + name
            if not _is_path(name) and tree.exists(folder + "/size") and tree.value(folder + "/nsid") == nsid:
                return name
    # The kernel names both after the same subsystem and namespace: nvme<subsystem>[c<controller>]n<namespace>.
    start, _, rest = path.partition("c")
    name = start + rest[rest.find("n") :]
    return name if tree.exists("/sys/block/" + name) else None
