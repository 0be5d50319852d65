"""Block devices: NVMe namespaces with holders, partitions, mounts and the udev database; md arrays."""

from __future__ import annotations

import os

from . import udevdb
from .tree import Tree, known, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLASS = "/sys/block"
_DEVICE = ("size", "nsid", "wwid", "dev", "metadata_bytes", "ro")
_QUEUE = ("logical_block_size", "physical_block_size", "scheduler", "rotational", "write_cache", "io_timeout")


def device(tree: Tree, name: str, mounts: dict[str, list[str]]) -> dict[str, Any]:
    """Leaves of one block device; `size` is in sectors of 512 bytes, `io_timeout` in milliseconds."""
    folder = CLASS + "/" + name
    found: dict[str, Any] = tree.texts(folder, _DEVICE)
    found["queue"] = tree.texts(folder + "/queue", _QUEUE)
    found["holders"] = _folder(tree, folder + "/holders")
    number = found["dev"].get("v") or ""
    node = "/dev/" + name
    found["udev"] = udevdb.properties(tree, "b" + number) if number else unknown("no device number", folder + "/dev")
    found["mounts"] = sorted(set(mounts.get(number, []) + mounts.get(node, []) + mounts.get(_number(tree, node), [])))
    partitions = {}
    for part in tree.names(folder):
        if part.startswith(name) and tree.exists(folder + "/" + part + "/partition"):
            number = tree.value(folder + "/" + part + "/dev") or ""
            partitions[part] = {
                "holders": _folder(tree, folder + "/" + part + "/holders"),
                "udev": udevdb.properties(tree, "b" + number) if number else unknown("no device number", folder),
                "mounts": sorted(set(mounts.get(number, []) + mounts.get("/dev/" + part, []))),
            }
    found["partitions"] = partitions
    return found


def _number(tree: Tree, node: str) -> str:
    """The device number behind a node in /dev, which may be bound from another device."""
    try:
        number = os.stat(tree.at(node)).st_rdev  # noqa: PTH116
    except OSError:
        return ""
    return f"{os.major(number)}:{os.minor(number)}" if number else ""


def _folder(tree: Tree, folder: str) -> Any:
    if not tree.exists(folder):
        return unknown("no such folder", folder)
    return known(tree.names(folder), folder)


def mounts(tree: Tree) -> tuple[dict[str, list[str]], str]:
    """Mount points by "major:minor" and by source path, and why they are not known ("" when they are)."""
    found: dict[str, list[str]] = {}
    try:
        text = tree.bytes("/proc/self/mountinfo", 1 << 22).decode("utf-8", "replace")
    except OSError as error:
        return found, why_not(error)
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 10 or "-" not in fields[6:]:
            continue
        after = fields.index("-", 6)
        # Octal escapes stand for blanks in both paths; a mount point with blanks is still a mount point.
        point = fields[4].replace("\\040", " ")
        found.setdefault(fields[2], []).append(point)
        source = fields[after + 2] if after + 2 < len(fields) else ""
        # A bind of a device node itself (devtmpfs of a container) is no mounted file system.
        if source.startswith("/dev/"):
            found.setdefault(source, []).append(point)
    return found, ""


def arrays(tree: Tree) -> dict[str, Any]:
    """sync_action of every md array."""
    found = {}
    for name in tree.names(CLASS):
        if name.startswith("md") and tree.exists(CLASS + "/" + name + "/md"):
            found[name] = tree.text(CLASS + "/" + name + "/md/sync_action")
    return found
