"""Reading files below a root, so that a live node and a recorded tree look the same.

A leaf of the document is {"v": value, "src": path} or {"unknown": "why", "src": path}; paths are without the root.
"""

from __future__ import annotations

# pathlib costs more processor time than all the reading.
# ruff: noqa: PTH110, PTH115, PTH119, PTH208
import os

# `typing` and `collections.abc` are for the type checker alone: importing them costs a node 10 ms of processor time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Leaf = dict[str, Any]

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def known(value: Any, src: str) -> Leaf:
    return {"v": value, "src": src}


def unknown(why: str, src: str) -> Leaf:
    return {"unknown": why, "src": src}


def why_not(error: OSError) -> str:
    """The error as a clause, without the path and in the same words on every node."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    return (error.strerror or type(error).__name__).lower()


class Tree:
    """The file system below `root`."""

    def __init__(self, root: str = "/") -> None:
        self.root = "" if root == "/" else root.rstrip("/")

    @property
    def live(self) -> bool:
        return not self.root

    def at(self, path: str) -> str:
        return self.root + path

    def bytes(self, path: str, limit: int = 65536) -> bytes:
        """At most `limit` bytes of a file. Raises OSError."""
        fd = os.open(self.root + path, _FLAGS)
        try:
            data = os.read(fd, limit)
            # sysfs gives a file in one read; /proc needs more than one.
            while data and len(data) < limit:
                more = os.read(fd, limit - len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            os.close(fd)

    def text(self, path: str, limit: int = 65536) -> Leaf:
        """A text file as a leaf, blanks at the ends cut off."""
        try:
            data = self.bytes(path, limit)
        except OSError as error:
            return {"unknown": why_not(error), "src": path}
        # Firmware pads some identity strings with NUL; inside a text it means binary data.
        data = data.strip(b"\0 \t\r\n")
        if b"\0" in data:
            return {"unknown": "the file holds binary data", "src": path}
        try:
            return {"v": data.decode("utf-8"), "src": path}
        except UnicodeDecodeError:
            return {"unknown": "the file holds binary data", "src": path}

    def value(self, path: str, limit: int = 65536) -> str | None:
        """The text of a file, or None; for what the probe itself steers by."""
        leaf = self.text(path, limit)
        return leaf.get("v")

    def texts(self, folder: str, names: tuple[str, ...]) -> dict[str, Leaf]:
        return {name: self.text(folder + "/" + name) for name in names}

    def names(self, folder: str) -> list[str]:
        """Sorted entries of a folder; empty when it cannot be read."""
        try:
            return sorted(os.listdir(self.root + folder))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self.root + path)

    def real(self, path: str) -> str:
        """The path with symbolic links resolved, without the root."""
        full = os.path.realpath(self.root + path)
        root = os.path.realpath(self.root) if self.root else ""
        return full[len(root) :] if full.startswith(root) else full

    def target(self, path: str) -> str | None:
        """The last component of where a link points, or None when it is no link."""
        try:
            return os.path.basename(os.readlink(self.root + path))
        except OSError:
            return None
