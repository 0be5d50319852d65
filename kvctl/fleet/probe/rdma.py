"""RDMA devices: /sys/class/infiniband, and the connection manager's defaults when configfs shows them."""

from __future__ import annotations

from .tree import Tree, known, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tree import Leaf

CLASS = "/sys/class/infiniband"
_CONFIGFS = "/sys/kernel/config/rdma_cm"
_DEVICE = ("board_id", "fw_ver", "hca_type", "node_guid", "sys_image_guid")
_PORT = ("link_layer", "state", "phys_state", "rate")
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def devices(tree: Tree) -> dict[str, Any]:
    return {name: device(tree, name) for name in tree.names(CLASS)}


def device(tree: Tree, name: str) -> dict[str, Any]:
    folder = CLASS + "/" + name
    found: dict[str, Any] = tree.texts(folder, _DEVICE)
    found["ports"] = {
        number: port(tree, name, number) for number in tree.names(folder + "/ports") if number.isdecimal()
    }
    return found


def port(tree: Tree, name: str, number: str) -> dict[str, Any]:
    folder = CLASS + "/" + name + "/ports/" + number
    found: dict[str, Any] = tree.texts(folder, _PORT)
    found["counters"] = numbers(tree, folder + "/counters")
    found["hw_counters"] = numbers(tree, folder + "/hw_counters")
    found["gids"] = gids(tree, folder)
    found["traffic_class"] = tree.text(CLASS + "/" + name + "/tc/" + number + "/traffic_class")
    manager = _CONFIGFS + "/" + name + "/ports/" + number
    found["cm_tos"] = tree.text(manager + "/default_roce_tos")
    found["cm_mode"] = tree.text(manager + "/default_roce_mode")
    return found


def numbers(tree: Tree, folder: str) -> Leaf:
    """All counters of a folder. One that cannot be read, or is no number, is left out."""
    if not tree.exists(folder):
        return unknown("no such folder", folder)
    values = {}
    for name in tree.names(folder):
        text = tree.value(folder + "/" + name)
        if text is not None and text.isdecimal():
            values[name] = int(text)
    return known(values, folder) if values else unknown("no counter could be read", folder)


def gids(tree: Tree, folder: str) -> Leaf:
    """Rows [index, gid, type, netdev] of the entries in use; type and netdev are "" when they cannot be read."""
    source = folder + "/gids"
    indexes = sorted(int(name) for name in tree.names(source) if name.isdecimal())
    if not indexes:
        return unknown("no GID table", source)
    rows = []
    for index in indexes:
        try:
            gid = tree.bytes(source + "/" + str(index), 256).decode("ascii", "replace").strip()
        except OSError as error:
            return unknown(why_not(error), source + "/" + str(index))
        if gid and gid != _NO_GID:
            attributes = folder + "/gid_attrs"
            kind = tree.value(attributes + "/types/" + str(index)) or ""
            rows.append([index, gid, kind, tree.value(attributes + "/ndevs/" + str(index)) or ""])
    return known(rows, source)
