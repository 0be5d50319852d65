"""Mounts the recorded tree over the live /sys of the host, in the host's own mount namespace.

The live layer stays below: interfaces and loop devices go on answering for themselves. Everything is read-only but the
few files that root may write on a real host.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from . import store, tree

RAW = "/run/kvctl-lab/sys"  # the kernel's own /sys, which the mounts below hide
MERGED = ("class", "devices", "bus", "dev", "kernel")
ONLY_OURS = ("block", "module")

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_PRIVATE, MNT_DETACH = 0x1, 0x20, 0x1000, 0x40000, 2


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [text.encode() if text else None for text in (source, target, kind, data)]
    done = _libc().mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "%s on %s" % (source, target))


def bind(source: str, target: str, read_only: bool = False) -> None:
    mount(source, target, None, MS_BIND)
    if read_only:
        mount("none", target, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def overlay(ours: str, live: str, target: str) -> None:
    mount("kvctl-lab", target, "overlay", MS_RDONLY, "lowerdir=%s:%s" % (escaped(ours), escaped(live)))


def escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:")


def mounted(prefix: str) -> list[str]:
    """Mount points of ours at or below a path, newest first."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            point = line.split()[4]
            if point == prefix or point.startswith(prefix + "/"):
                found.append(point)
    return found[::-1]


def unmount_all() -> None:
    """Take our mounts off /sys again; the kernel's own, which the container manager made, stay."""
    if not os.path.isdir(RAW):
        return
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        lines = [line.split() for line in file]
    for fields in reversed(lines):
        after = fields[fields.index("-") + 1 :]
        ours = after[1] == "kvctl-lab" or "kvctl-lab-hw" in fields[3] or "/hw/sys/" in fields[3]
        if fields[4].startswith("/sys/") and ours:
            _libc().umount2(fields[4].encode(), MNT_DETACH)


def mount_all(state: dict[str, Any]) -> None:
    """Mount what `tree.build` wrote. Safe to repeat: earlier mounts are taken off first."""
    unmount_all()
    keep_raw()
    root = os.path.join(store.root(), "sys")
    for name in MERGED:
        overlay(root + "/" + name, RAW + "/" + name, "/sys/" + name)
    for name in ONLY_OURS:
        bind(root + "/" + name, "/sys/" + name, read_only=True)
    for folder, live in tree.live_folders(state).items():
        if os.path.isdir(RAW + "/devices/" + live):
            overlay(root + "/" + folder, RAW + "/devices/" + live, "/sys/" + folder)
    for folder in tree.writable(state):
        bind(root + "/" + folder, "/sys/" + folder)


def make_top_writable() -> None:
    """/sys of a container is a small tmpfs with the kernel's folders bound into it; they stay read-only."""
    mount("none", "/sys", None, MS_REMOUNT | MS_BIND)
    os.makedirs("/sys/module", exist_ok=True)  # containers do not get it


def keep_raw() -> None:
    """Bind the kernel's folders aside, once a boot."""
    if os.path.isdir(RAW) and mounted(RAW):
        return
    for name in MERGED:
        os.makedirs(RAW + "/" + name, exist_ok=True)
        bind("/sys/" + name, RAW + "/" + name)
