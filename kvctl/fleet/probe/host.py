"""The host itself: operating system, kernel, clock, modules, kernel settings, GPUs that the driver lists."""

from __future__ import annotations

import os
import sys

from .tree import Tree, known, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tree import Leaf

_FILES = {
    "hostname": "/proc/sys/kernel/hostname",
    "os_release": "/etc/os-release",
    "boot_id": "/proc/sys/kernel/random/boot_id",
    "machine_id": "/etc/machine-id",
    "uptime": "/proc/uptime",
    "cmdline": "/proc/cmdline",
    "nvidia_version": "/proc/driver/nvidia/version",
}
_SYSCTL = "/proc/sys"
_SYSCTL_FOLDERS = ("net/core", "net/ipv4", "vm")
_SYSCTL_FILES = (
    "kernel/numa_balancing",
    "kernel/pid_max",
    "kernel/sched_rt_runtime_us",
    "fs/file-max",
    "fs/aio-max-nr",
)
_INTERFACE_SYSCTLS = ("rp_filter", "arp_ignore", "arp_announce", "arp_filter")
# Reading it makes every processor fold its counters; the rest of vm/ is plain.
_SYSCTL_SKIP = ("stat_refresh",)
_PEER_MEMORY = "/sys/kernel/mm/memory_peers"


def host(tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = {name: tree.text(path) for name, path in _FILES.items()}
    found["kernel"] = tree.text("/proc/sys/kernel/osrelease")
    found["memory"] = _memory(tree)
    found["modules"] = _modules(tree, found["kernel"].get("v") or "")
    found["peer_memory"] = _peer_memory(tree)
    found["gpus"] = _gpus(tree)
    found["sysctls"] = _sysctls(tree)
    if tree.live:
        system = os.uname()
        found["arch"] = known(system.machine, "uname")
        found["python"] = known(".".join(map(str, sys.version_info[:3])), "sys.version_info")
        found["cpus"] = known(os.cpu_count(), "os.cpu_count") if os.cpu_count() else unknown("not told", "os.cpu_count")
        found["root_free"] = _root_free()
        found["euid"] = os.geteuid()
        found["ssh_connection"] = _ssh_connection()
    return found


def _memory(tree: Tree) -> Leaf:
    source = "/proc/meminfo"
    for line in (tree.value(source) or "").splitlines():
        words = line.split()
        if (
            len(words) == 3
            and words[0] == "MemTotal:"
            and words[1].isascii()
            and words[1].isdigit()
            and words[2] == "kB"
        ):
            return known(int(words[1]) * 1024, source)
    return unknown("no MemTotal row", source)


def _modules(tree: Tree, kernel: str) -> Leaf:
    """Loaded and built-in modules, with underscores. A built-in module is as good as a loaded one."""
    source = "/proc/modules, /sys/module, modules.builtin"
    names = set(tree.names("/sys/module"))
    loaded = tree.value("/proc/modules", 1 << 20)
    names.update(line.split(" ", 1)[0] for line in (loaded or "").splitlines())
    for line in (tree.value("/lib/modules/" + kernel + "/modules.builtin", 1 << 20) or "").splitlines():
        names.add(line.rsplit("/", 1)[-1].split(".", 1)[0])
    names.discard("")
    if not names:
        return unknown("neither /proc/modules nor /sys/module can be read", source)
    return known(sorted({name.replace("-", "_") for name in names}), source)


def _peer_memory(tree: Tree) -> Leaf:
    """Names of registered peer memory clients: a module that is loaded but not registered is not in the list."""
    if not tree.exists("/sys/kernel/mm"):
        return unknown("no such folder", "/sys/kernel/mm")
    names = [name for name in tree.names(_PEER_MEMORY) if tree.exists(_PEER_MEMORY + "/" + name + "/version")]
    return known(names, _PEER_MEMORY)


def _gpus(tree: Tree) -> dict[str, Leaf]:
    folder = "/proc/driver/nvidia/gpus"
    return {address: tree.text(folder + "/" + address + "/information") for address in tree.names(folder)}


def _sysctls(tree: Tree) -> Leaf:
    values: dict[str, str] = {}
    paths = list(_SYSCTL_FILES)
    for folder in _SYSCTL_FOLDERS:
        paths += [folder + "/" + name for name in tree.names(_SYSCTL + "/" + folder) if name not in _SYSCTL_SKIP]
    for interface in tree.names(_SYSCTL + "/net/ipv4/conf"):
        paths += ["net/ipv4/conf/" + interface + "/" + name for name in _INTERFACE_SYSCTLS]
    for path in paths:
        text = tree.value(_SYSCTL + "/" + path, 4096)
        if text is not None:
            # A dot inside an interface name is written as a slash, as sysctl(8) does.
            values[path.replace(".", "\0").replace("/", ".").replace("\0", "/")] = " ".join(text.split())
    return known(values, _SYSCTL) if values else unknown("no setting can be read", _SYSCTL)


def _root_free() -> Leaf:
    try:
        state = os.statvfs("/")
    except OSError as error:
        return unknown(why_not(error), "statvfs /")
    return known(state.f_bavail * state.f_frsize, "statvfs /")


def _ssh_connection() -> Leaf:
    """SSH_CONNECTION of this process or, since sudo drops it, of the nearest ancestor that has it."""
    value = os.environ.get("SSH_CONNECTION")
    if value:
        return known(value, "SSH_CONNECTION")
    pid = os.getppid()
    for _step in range(16):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read(1 << 17)
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = int(file.read(4096).rsplit(b")", 1)[-1].split()[1])
        except (OSError, ValueError, IndexError):
            break
        for entry in environ.split(b"\0"):
            if entry.startswith(b"SSH_CONNECTION="):
                return known(entry[15:].decode("utf-8", "replace"), "SSH_CONNECTION of an ancestor")
        if parent <= 1:
            break
        pid = parent
    return unknown("the probe was not started over SSH", "SSH_CONNECTION")
