"""In place of udevd, which needs a writable /sys: its database, its links in /dev, and systemd's device units.

Runs as a service that waits for writes to drives; it also gives the traffic class file the shape that the driver gives
it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from typing import Any

from . import store

IN_CLOSE_WRITE = 0x8  # inotify(7)
DATA, TAGS = "/run/udev/data", "/run/udev/tags/systemd"


def probe_contents(path: str) -> dict[str, str]:
    """What blkid finds on a device: TYPE, UUID, LABEL, PTTYPE and so on; empty for nothing."""
    done = subprocess.run(["/usr/sbin/blkid", "-p", "-o", "export", path], stdout=subprocess.PIPE, check=False)
    rows = [line.partition("=") for line in done.stdout.decode(errors="replace").splitlines()]
    return {key: value for key, _, value in rows if key != "DEVNAME"}


def drive_record(drive: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Links below /dev and udev properties of one namespace, named as systemd's own rules name them."""
    model = drive["model"].replace(" ", "_")
    contents = probe_contents("/dev/" + drive["namespace"])
    links = ["disk/by-id/nvme-%s_%s" % (model, drive["serial"]), "disk/by-id/nvme-eui." + drive["nguid"]]
    links.append("disk/by-path/pci-%s-nvme-%d" % (drive["pci"], drive["nsid"]))
    if contents.get("UUID"):
        links.append("disk/by-uuid/" + contents["UUID"])
    if contents.get("LABEL"):
        links.append("disk/by-label/" + contents["LABEL"])
    properties = {
        "ID_SERIAL": "%s_%s" % (model, drive["serial"]),
        "ID_SERIAL_SHORT": drive["serial"],
        "ID_MODEL": model,
        "ID_REVISION": drive["firmware"],
        "ID_WWN": "eui." + drive["nguid"],
        "ID_NSID": str(drive["nsid"]),
        "ID_PATH": "pci-%s-nvme-%d" % (drive["pci"], drive["nsid"]),
    }
    names = {"TYPE": "ID_FS_TYPE", "UUID": "ID_FS_UUID", "LABEL": "ID_FS_LABEL", "VERSION": "ID_FS_VERSION"}
    names.update(USAGE="ID_FS_USAGE", PTTYPE="ID_PART_TABLE_TYPE", PTUUID="ID_PART_TABLE_UUID")
    properties.update({names[key]: value for key, value in contents.items() if key in names})
    return links, properties


def record(links: list[str], properties: dict[str, str]) -> str:
    lines = ["S:" + link for link in sorted(links)] + ["I:1"]
    lines += ["E:%s=%s" % item for item in sorted(properties.items())]
    return "\n".join([*lines, "G:systemd", "Q:systemd", "V:1"]) + "\n"


def wanted(state: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Database records by device id, and links below /dev with what they point to."""
    records: dict[str, str] = {}
    links: dict[str, str] = {}
    for nic in state["nics"]:
        try:
            with open("/sys/class/net/%s/ifindex" % nic["netdev"], encoding="utf-8") as file:
                index = file.read().strip()
        except OSError:
            continue
        properties = {"ID_BUS": "pci", "ID_NET_DRIVER": nic["driver"]["name"], "ID_PATH": "pci-" + nic["pci"]}
        properties.update(ID_VENDOR_ID="0x15b3", ID_MODEL_ID="0x" + nic["device_id"])
        properties["SYSTEMD_ALIAS"] = "/sys/subsystem/net/devices/" + nic["netdev"]  # 99-systemd.rules
        records["n" + index] = record([], properties)
    for drive in state["drives"]:
        if not drive.get("gone"):
            names, properties = drive_record(drive)
            records["b7:%d" % drive["loop_minor"]] = record(names, properties)
            links.update(dict.fromkeys(names, drive["namespace"]))
    return records, links


def write_if_new(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return False
    except OSError:
        pass
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)
    return True


def refresh(reload: bool = True) -> bool:
    """Bring database and links up to date; True when something changed. `reload` tells systemd of it."""
    state = store.load()
    settle_traffic_class(state)
    records, links = wanted(state)
    os.makedirs(DATA, exist_ok=True)
    os.makedirs(TAGS, exist_ok=True)
    changed = False
    for name, text in records.items():
        changed |= write_if_new("%s/%s" % (DATA, name), text)
        changed |= write_if_new("%s/%s" % (TAGS, name), "")
    for name in set(os.listdir(DATA)) - set(records):
        os.unlink("%s/%s" % (DATA, name))
        changed = True
    changed |= set_links(links)
    if changed and reload:
        subprocess.run(["/usr/bin/systemctl", "daemon-reload"], check=False)
    return changed


def set_links(links: dict[str, str]) -> bool:
    changed = False
    for kind in ("by-id", "by-path", "by-uuid", "by-label"):
        folder = "/dev/disk/" + kind
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            if "disk/%s/%s" % (kind, name) not in links:
                os.unlink(folder + "/" + name)
                changed = True
    for name, target in links.items():
        path, relative = "/dev/" + name, "../../" + target
        if not os.path.islink(path) or os.readlink(path) != relative:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(relative, path)
            changed = True
    return changed


def settle_traffic_class(state: dict[str, Any]) -> None:
    """The driver takes "106" and shows "Global tclass=106"."""
    for nic in state["nics"]:
        path = "/sys/class/infiniband/%s/tc/1/traffic_class" % nic["rdma"]
        text = (store.read_sys(path) or "").strip()
        if text.isdecimal() and int(text) < 256:
            store.write_sys(path, "Global tclass=%d\n" % int(text))


def watched(state: dict[str, Any]) -> list[str]:
    paths = ["/dev/" + drive["namespace"] for drive in state["drives"]]
    rdma = "/sys/class/infiniband/%s/tc/1/traffic_class"
    return [*paths, *(store.sys_path(rdma % nic["rdma"]) for nic in state["nics"])]


def main(argv: list[str]) -> int:
    """Refresh whenever somebody who wrote to one of the watched files closes it."""
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(0)
    if events < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify")
    for path in watched(store.load()):
        if libc.inotify_add_watch(events, path.encode(), IN_CLOSE_WRITE) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    refresh()  # what was written before the watch
    while os.read(events, 65536):
        refresh()
    return 0
