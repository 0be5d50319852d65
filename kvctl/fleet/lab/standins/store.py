"""The host's simulated hardware: one JSON file, and the recorded sysfs tree that is mounted over parts of /sys.

What the kernel of a real host keeps in files (ECN switches, traffic class, connection manager defaults) lives in the
tree alone; what a device keeps (firmware, DCB class, formats) lives in the JSON file.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import Any, Iterator

DEFAULT_ROOT = "/var/lib/kvctl-lab-hw"


def root() -> str:
    """Where the hardware is kept; KVCTL_LAB_HW is for tests of the stand-ins themselves."""
    return os.environ.get("KVCTL_LAB_HW", DEFAULT_ROOT)


def load(at: str = "") -> dict[str, Any]:
    with open(os.path.join(at or root(), "state.json"), encoding="utf-8") as file:
        state: dict[str, Any] = json.load(file)
    return state


def save(state: dict[str, Any], at: str = "") -> None:
    """Replace the file at once, so that no reader sees half of it."""
    path = os.path.join(at or root(), "state.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(state, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


@contextmanager
def changing(at: str = "") -> Iterator[dict[str, Any]]:
    """The state under an exclusive lock, written back unless the block raises."""
    with open(os.path.join(at or root(), "state.lock"), "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = load(at)
        yield state
        save(state, at)


def sys_path(path: str, at: str = "") -> str:
    """Where the tree keeps a path such as "/sys/class/infiniband/mlx5_0/fw_ver"."""
    return os.path.join(at or root(), path.lstrip("/"))


def write_sys(path: str, text: str, at: str = "") -> None:
    """Change a file of the tree in place: a mounted overlay shows only changes of the same file."""
    target = sys_path(path, at)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)


def read_sys(path: str, at: str = "") -> str | None:
    try:
        with open(sys_path(path, at), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def nic_named(state: dict[str, Any], name: str) -> dict[str, Any] | None:
    """A card by PCI address (with or without domain), netdev, RDMA device or mst path."""
    wanted = name.strip().lower()
    for nic in state["nics"]:
        pci = nic["pci"].lower()
        names = {pci, pci.partition(":")[2], nic["netdev"].lower(), nic["rdma"].lower(), nic.get("device_name", "")}
        if wanted in names or wanted == "/dev/mst/" + pci:
            found: dict[str, Any] = nic
            return found
    return None


def drive_named(state: dict[str, Any], name: str) -> dict[str, Any] | None:
    """A drive by controller or namespace: nvme0, /dev/nvme0, nvme0n1, /dev/nvme0n1."""
    wanted = os.path.basename(name)
    for drive in state["drives"]:
        if wanted in (drive["controller"], drive["namespace"]):
            found: dict[str, Any] = drive
            return found
    return None
