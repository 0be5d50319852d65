"""Stand-ins for ibdev2netdev and show_gids (Mellanox/mlnx-tools, sbin), and for parts of ibv_devinfo and rdma."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from . import store

SYS_IB = "/sys/class/infiniband"


def listed(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path), key=lambda name: (len(name), name))
    except OSError:
        return []


def value(path: str, default: str = "") -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return default


def base() -> str:
    """The mounted tree on a host; the recorded one where KVCTL_LAB_HW says so."""
    return store.sys_path(SYS_IB) if "KVCTL_LAB_HW" in os.environ else SYS_IB


def ibdev2netdev(argv: list[str]) -> int:
    if argv and argv != ["-v"]:
        sys.stderr.write("Usage: ibdev2netdev [-v]\n")
        return 1
    state = store.load()
    for nic in state["nics"]:
        print("%s port 1 ==> %s (%s)" % (nic["rdma"], nic["netdev"], "Up" if link_up(nic) else "Down"))
    return 0


def link_up(nic: dict[str, Any]) -> bool:
    if "link" in nic:  # a recorded answer
        return str(nic["link"]) == "Up"
    return value("/sys/class/net/%s/operstate" % nic["netdev"]) == "up"


def show_gids(argv: list[str]) -> int:
    folder = base()
    print("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV")
    print("---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---")
    count = 0
    for device in argv[:1] or listed(folder):
        for port in listed("%s/%s/ports" % (folder, device)):
            for row in gid_rows("%s/%s/ports/%s" % (folder, device, port), device, port):
                print(row)
                count += 1
    print("n_gids_found=%d" % count)
    return 0


def gid_rows(folder: str, device: str, port: str) -> list[str]:
    rows = []
    for index in listed(folder + "/gids"):
        gid = value(folder + "/gids/" + index)
        if not gid or gid in ("0000:" * 7 + "0000", "fe80:" + "0000:" * 6 + "0000"):
            continue
        kind = value(folder + "/gid_attrs/types/" + index)
        version = kind[kind.lower().find("v") :] if "v" in kind.lower() else ""
        netdev = value(folder + "/gid_attrs/ndevs/" + index)
        address = "\t\t"
        if gid.startswith("0000"):
            octets = bytes.fromhex(gid[-9:].replace(":", ""))
            address = "\t" + ".".join(map(str, octets)) + "  "
        rows.append("%s\t%s\t%s\t%s%s\t%s\t%s" % (device, port, index, gid, address, version, netdev))
    return rows


def active_mtu(netdev_mtu: int) -> int:
    """The RDMA MTU that fits, headers taken off (include/rdma/ib_addr.h, iboe_get_mtu)."""
    room = netdev_mtu - 48
    return max([mtu for mtu in (256, 512, 1024, 2048, 4096) if mtu <= room] or [256])


MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}


def ibv_devinfo(argv: list[str]) -> int:
    """Each device with one port; -v adds nothing that kvctl reads but the GIDs."""
    if any(word not in ("-v",) for word in argv):
        sys.stderr.write("Usage: ibv_devinfo [-v]\n")
        return 1
    for nic in store.load()["nics"]:
        folder = "%s/%s" % (base(), nic["rdma"])
        mtu = int(value("/sys/class/net/%s/mtu" % nic["netdev"], "1500"))
        guid = value(folder + "/node_guid")
        rows = (
            ("transport", "InfiniBand (0)"),
            ("fw_ver", value(folder + "/fw_ver")),
            ("node_guid", guid),
            ("sys_image_guid", value(folder + "/sys_image_guid")),
            ("vendor_id", "0x02c9"),
            ("vendor_part_id", str(int(nic["device_id"], 16))),
            ("hw_ver", "0x0"),
            ("board_id", value(folder + "/board_id")),
            ("phys_port_cnt", "1"),
        )
        print("hca_id:\t" + nic["rdma"])
        for name, text in rows:
            print("\t%s:%s%s" % (name, "\t" * max(1, 4 - (len(name) + 1) // 8), text))
        active = active_mtu(mtu)
        state = "PORT_ACTIVE (4)" if link_up(nic) else "PORT_DOWN (1)"
        print("\t\tport:\t1")
        ports: tuple[tuple[str, str], ...] = (
            ("state", state),
            ("max_mtu", "4096 (5)"),
            ("active_mtu", "%d (%d)" % (active, MTU_CODES[active])),
        )
        ports += (("sm_lid", "0"), ("port_lid", "0"), ("port_lmc", "0x00"), ("link_layer", "Ethernet"))
        for name, text in ports:
            print("\t\t\t%s:%s%s" % (name, "\t" * max(1, 3 - (len(name) + 1) // 8), text))
        print()
    return 0


def rdma(argv: list[str]) -> int:
    """`rdma [-j] link [show]`; iproute2's own has no device to show on a host without RDMA."""
    words = [word for word in argv if word not in ("-j", "-p", "-jp", "show")]
    if words != ["link"]:
        sys.stderr.write('Error: argument "%s" is wrong: unknown command\n' % " ".join(words))
        return 1
    rows = []
    for i, nic in enumerate(store.load()["nics"]):
        up = link_up(nic)
        row = {"ifindex": i, "ifname": nic["rdma"], "port": 1, "state": "ACTIVE" if up else "DOWN"}
        row.update(physical_state="LINK_UP" if up else "DISABLED", netdev=nic["netdev"])
        index = value("/sys/class/net/%s/ifindex" % nic["netdev"])
        rows.append({**row, "netdev_index": int(index)} if index else row)
    if "-j" in argv or "-jp" in argv:
        print(json.dumps(rows, separators=(",", ":")))
    else:
        for row in rows:
            print("link %(ifname)s/1 state %(state)s physical_state %(physical_state)s netdev %(netdev)s " % row)
    return 0
