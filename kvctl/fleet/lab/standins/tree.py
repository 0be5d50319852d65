"""The recorded part of /sys: PCI functions, the RDMA device, NVMe controllers, as the kernel would show them.

It is written from the state and mounted over the live /sys, see `mounting`. Layout: Documentation/ABI in Linux.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import Any

from . import store
from .pci import bridge_config, vital_product_data

# Folders in which nothing of the machine below may be seen: overlayfs takes an opaque one from this layer alone.
OPAQUE = (
    "class/block", "class/infiniband", "class/nvme", "class/nvme-subsystem", "class/nvme-generic",
    "bus/pci/devices", "bus/pci/drivers", "dev/block",
)  # fmt: skip
HW_COUNTERS = (
    "duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err", "np_cnp_sent",
    "np_ecn_marked_roce_packets", "out_of_buffer", "out_of_sequence", "packet_seq_err", "req_cqe_error",
    "req_cqe_flush_error", "req_remote_access_errors", "req_remote_invalid_request", "resp_cqe_error",
    "resp_cqe_flush_error", "resp_local_length_error", "resp_remote_access_errors", "rnr_nak_retry_err",
    "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "roce_slow_restart_cnps",
    "roce_slow_restart_trans", "rp_cnp_handled", "rp_cnp_ignored", "rx_atomic_requests", "rx_icrc_encapsulated",
    "rx_read_requests", "rx_write_requests",
)  # fmt: skip
COUNTERS = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets", "port_rcv_constraint_errors",
    "port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data", "port_xmit_discards",
    "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets", "unicast_xmit_packets",
)  # fmt: skip


class Writer:
    """Writes below one hardware folder and remembers what belongs to it, so that the rest can be removed."""

    def __init__(self, at: str) -> None:
        self.root = os.path.join(at, "sys")
        self.mine: set[str] = set()

    def claim(self, path: str) -> str:
        parts = path.split("/")
        self.mine.update("/".join(parts[:i]) for i in range(1, len(parts) + 1))
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return full

    def folder(self, path: str) -> None:
        os.makedirs(self.claim(path), exist_ok=True)

    def text(self, path: str, value: object) -> None:
        self.data(path, (str(value) + "\n").encode())

    def data(self, path: str, value: bytes) -> None:
        full = self.claim(path)
        try:
            with open(full, "rb") as file:
                if file.read() == value:
                    return
        except OSError:
            pass
        with open(full, "wb") as file:  # in place: a mounted overlay goes on showing this file
            file.write(value)

    def texts(self, folder: str, values: dict[str, object]) -> None:
        for name, value in values.items():
            self.text(folder + "/" + name, value)

    def link(self, path: str, target: str) -> None:
        """A relative link from one path below /sys to another."""
        full = self.claim(path)
        relative = os.path.relpath(target, os.path.dirname(path))
        if not os.path.islink(full) or os.readlink(full) != relative:
            if os.path.lexists(full):
                os.unlink(full)
            os.symlink(relative, full)

    def hide(self, path: str) -> None:
        """A whiteout: the same name of the live layer is not shown."""
        full = self.claim(path)
        if not os.path.lexists(full):
            os.mknod(full, stat.S_IFCHR, os.makedev(0, 0))

    def opaque(self, path: str) -> None:
        self.folder(path)
        os.setxattr(os.path.join(self.root, path), "trusted.overlay.opaque", b"y")

    def prune(self) -> None:
        """Remove what an earlier state had and this one has not, such as a pulled drive."""
        for folder, names, files in os.walk(self.root):
            below = os.path.relpath(folder, self.root)
            for name in list(names) + files:
                path = name if below == "." else below + "/" + name
                if path in self.mine:
                    continue
                full = os.path.join(folder, name)
                if name in names:
                    names.remove(name)
                if os.path.isdir(full) and not os.path.islink(full):
                    shutil.rmtree(full)
                else:
                    os.unlink(full)


def build(state: dict[str, Any], at: str = "") -> None:
    """Write the whole tree of a host's state below `at`."""
    writer = Writer(at or store.root())
    for name in OPAQUE:
        writer.opaque(name)
    for name in ("class", "devices", "bus", "block", "dev", "kernel/config", "module"):
        writer.folder(name)
    for nic in state["nics"]:
        card(writer, nic)
    for drive in state["drives"]:
        if not drive.get("gone"):
            controller(writer, drive)
    for gpu in state.get("gpus", []):
        function(writer, gpu["pci_device"])
    for name in state["modules"]:
        writer.text("module/%s/initstate" % name, "live")
    for name in state.get("peer_memory", []):
        writer.text("kernel/mm/memory_peers/%s/version" % name, "1.0")
    writer.prune()


def function(writer: Writer, pci: dict[str, Any]) -> str:
    """A PCI function below a root port of its own; gives its folder below /sys."""
    bus: str = pci["address"]
    port = "devices/%s/%s" % (pci["host_bridge"], pci["port"])
    folder: str = port + "/" + bus
    slot = pci["port"]
    writer.texts(port, {"vendor": "0x1022", "device": "0x1483", "class": "0x060400", "numa_node": pci["numa"]})
    writer.data(port + "/config", bridge_config())
    writer.text(port + "/uevent", "DRIVER=pcieport\nPCI_CLASS=60400\nPCI_SLOT_NAME=" + slot)
    writer.link("bus/pci/devices/" + slot, port)
    driver = "bus/pci/drivers/" + pci["driver"]
    ids = (pci["vendor"], pci["device"], pci["subsystem_vendor"], pci["subsystem_device"])
    names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    writer.texts(folder, {name: "0x" + number for name, number in zip(names, ids)})  # noqa: B905
    writer.texts(folder, {"class": "0x" + pci["class"], "revision": "0x00", "numa_node": pci["numa"]})
    for end in ("current", "max"):
        writer.text("%s/%s_link_speed" % (folder, end), pci.get(end + "_speed", pci["speed"]) + " GT/s PCIe")
        writer.text("%s/%s_link_width" % (folder, end), pci.get(end + "_width", pci["width"]))
    writer.text(folder + "/uevent", "DRIVER=%s\nPCI_CLASS=%s\nPCI_ID=%s:%s\nPCI_SLOT_NAME=%s" % (
        pci["driver"], pci["class"].lstrip("0").upper(), ids[0].upper(), ids[1].upper(), bus))  # fmt: skip
    writer.link("bus/pci/devices/" + bus, folder)
    writer.link(folder + "/subsystem", "bus/pci")
    writer.link(driver + "/" + bus, folder)
    writer.link(folder + "/driver", driver)
    return folder


def card(writer: Writer, nic: dict[str, Any]) -> None:
    folder = function(writer, nic["pci_device"])
    writer.data(folder + "/vpd", vital_product_data(nic))
    net = "%s/net/%s" % (folder, nic["netdev"])
    writer.link("class/net/" + nic["netdev"], net)
    writer.link(net + "/device", folder)
    writer.link(net + "/subsystem", "class/net")
    writer.texts(net, {"phys_port_name": "p0", "dev_port": 0})
    rdma_device(writer, nic, folder)
    for path, text in runtime_files(nic).items():
        resolved = path.replace("/sys/class/net/%s/" % nic["netdev"], "/sys/" + net + "/")
        resolved = resolved.replace("/sys/class/infiniband/", "/sys/" + folder + "/infiniband/")
        full = writer.claim(resolved[len("/sys/") :])
        if not os.path.exists(full):
            writer.data(resolved[len("/sys/") :], text.encode())


def rdma_device(writer: Writer, nic: dict[str, Any], pci: str) -> None:
    name = nic["rdma"]
    folder = "%s/infiniband/%s" % (pci, name)
    guid = ":".join(nic["base_guid"][i : i + 4] for i in range(0, 16, 4))
    writer.link("class/infiniband/" + name, folder)
    writer.link(folder + "/device", pci)
    writer.texts(folder, {"board_id": nic["psid"], "fw_ver": nic["firmware"]["running"], "hca_type": nic["hca_type"]})
    writer.texts(folder, {"hw_rev": 0, "node_guid": guid, "sys_image_guid": guid, "node_type": "1: CA"})
    port = folder + "/ports/1"
    up = nic.get("port_up", True)
    writer.texts(port, {"state": "4: ACTIVE" if up else "1: DOWN", "phys_state": "5: LinkUp" if up else "3: Disabled"})
    writer.texts(port, {"rate": nic["rate"], "link_layer": "Ethernet", "lid": "0x0", "sm_lid": "0x0"})
    for kind, names in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
        known = nic.get(kind + "_values", {})
        writer.texts("%s/%s" % (port, kind), {counter: known.get(counter, 0) for counter in names})
    for index, (gid, version) in enumerate(nic["gids"]):
        writer.text("%s/gids/%d" % (port, index), gid)
        writer.text("%s/gid_attrs/types/%d" % (port, index), version)
        writer.text("%s/gid_attrs/ndevs/%d" % (port, index), nic["netdev"])
    for index in range(len(nic["gids"]), 8):
        writer.text("%s/gids/%d" % (port, index), ":".join(["0000"] * 8))


def runtime_files(nic: dict[str, Any]) -> dict[str, str]:
    """Settings that a real kernel keeps in files, with what the host's boot configuration puts there."""
    boot = nic["at_boot"]
    ecn = "/sys/class/net/%s/ecn" % nic["netdev"]
    files = {}
    for point in ("roce_np", "roce_rp"):
        for priority in range(8):
            files["%s/%s/enable/%d" % (ecn, point, priority)] = "%d\n" % boot["ecn"][priority]
    files[ecn + "/roce_np/cnp_dscp"] = "%d\n" % boot["cnp_dscp"]
    files[ecn + "/roce_np/cnp_802p_prio"] = "%d\n" % boot["cnp_prio"]
    tclass = boot["tclass"]
    traffic = "/sys/class/infiniband/%s/tc/1/traffic_class" % nic["rdma"]
    files[traffic] = "" if tclass is None else "Global tclass=%d\n" % tclass
    manager = "/sys/kernel/config/rdma_cm/%s/ports/1" % nic["rdma"]
    files[manager + "/default_roce_tos"] = "%d\n" % boot["cm_tos"]
    files[manager + "/default_roce_mode"] = boot["cm_mode"] + "\n"
    return files


def controller(writer: Writer, drive: dict[str, Any]) -> None:
    pci = function(writer, drive["pci_device"])
    name, subsystem = drive["controller"], "devices/virtual/nvme-subsystem/" + drive["subsystem"]
    folder = "%s/nvme/%s" % (pci, name)
    about = {"model": "%-40s" % drive["model"], "serial": "%-20s" % drive["serial"]}
    about["firmware_rev"] = "%-8s" % drive["firmware"]
    writer.link("class/nvme/" + name, folder)
    writer.link(folder + "/device", pci)
    writer.link(folder + "/subsystem", "class/nvme")
    writer.texts(folder, {**about, "address": drive["pci"], "transport": "pcie", "state": drive.get("state", "live")})
    writer.texts(folder, {"subsysnqn": drive["nqn"], "cntlid": 1, "numa_node": drive["pci_device"]["numa"]})
    writer.link("class/nvme-subsystem/" + drive["subsystem"], subsystem)
    writer.texts(subsystem, {**about, "subsysnqn": drive["nqn"], "subsystype": "nvm", "iopolicy": "numa"})
    writer.link("%s/%s" % (subsystem, name), folder)
    namespace(writer, drive, folder)


def namespace(writer: Writer, drive: dict[str, Any], controller_folder: str) -> None:
    """What a loop device does not have; the rest of the folder is the loop's, live."""
    name, number = drive["namespace"], "7:%d" % drive["loop_minor"]
    folder = controller_folder + "/" + name
    for link in ("class/block/" + name, "block/" + name, "dev/block/" + number):
        writer.link(link, folder)
    writer.link(folder + "/device", controller_folder)
    writer.link(folder + "/subsystem", "class/block")  # the live link counts its steps from another place
    writer.texts(folder, {"nsid": drive["nsid"], "wwid": "eui." + drive["nguid"], "nguid": drive["nguid"]})
    writer.text(folder + "/metadata_bytes", 0)
    writer.text(folder + "/uevent", "MAJOR=7\nMINOR=%d\nDEVNAME=%s\nDEVTYPE=disk" % (drive["loop_minor"], name))
    writer.texts(folder + "/queue", {"rotational": 0, "io_timeout": 30000})
    writer.hide(folder + "/loop")


def live_folders(state: dict[str, Any]) -> dict[str, str]:
    """Folder of the tree below /sys -> folder of the kernel's own /sys/devices whose live files it also shows."""
    found = {}
    for nic in state["nics"]:
        pci = nic["pci_device"]
        folder = "devices/%s/%s/%s" % (pci["host_bridge"], pci["port"], pci["address"])
        found["%s/net/%s" % (folder, nic["netdev"])] = "virtual/net/" + nic["netdev"]
    for drive in state["drives"]:
        if not drive.get("gone"):
            pci = drive["pci_device"]
            folder = "devices/%s/%s/%s" % (pci["host_bridge"], pci["port"], pci["address"])
            loop = "virtual/block/loop%d" % drive["loop_minor"]
            found["%s/nvme/%s/%s" % (folder, drive["controller"], drive["namespace"])] = loop
    return found


def writable(state: dict[str, Any]) -> list[str]:
    """Paths below /sys that root may write, as on a real host."""
    found = ["kernel/config"]
    for nic in state["nics"]:
        pci = nic["pci_device"]
        folder = "devices/%s/%s/%s" % (pci["host_bridge"], pci["port"], pci["address"])
        found += ["%s/net/%s/ecn" % (folder, nic["netdev"]), "%s/infiniband/%s/tc" % (folder, nic["rdma"])]
    return found
