"""The udev database, /run/udev/data: one text file a device, "E:KEY=value" lines."""

from __future__ import annotations

from .tree import Tree, known, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tree import Leaf

FOLDER = "/run/udev/data"
_KEEP = ("ID_FS_", "ID_PART_TABLE_", "ID_SERIAL", "ID_WWN", "ID_MODEL", "ID_REVISION")


def properties(tree: Tree, device_id: str) -> Leaf:
    """Properties of a device by its id ("b259:0", "n2"), limited to identity and contents."""
    source = FOLDER + "/" + device_id
    try:
        text = tree.bytes(source).decode("utf-8", "replace")
    except OSError as error:
        return unknown(why_not(error), source)
    found = {}
    for line in text.splitlines():
        if line.startswith("E:"):
            key, _, value = line[2:].partition("=")
            if key.startswith(_KEEP):
                found[key] = value
    return known(found, source)
