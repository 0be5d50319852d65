"""The simulated devices of one node: what their tools and /sys say in a fabric where nothing is wrong."""

import hashlib
import json
from pathlib import Path
from typing import Any

from kvctl.fleet.lab.layout import RAIL
from kvctl.fleet.lab.network import mac_of
from kvctl.fleet.lab.nodes import LabNode

PSID = "MT_0000000359"  # ConnectX-6 Dx MCX623106AN-CDA, from real `mlxfwmanager` output
OTHER_PSID = "MT_0000000436"
FIRMWARE = "22.41.1000"  # what runs, and what the lab's inventory pins
OLD_FIRMWARE = "22.33.1048"
ROM = [["UEFI", "14.34.12", "AMD64,AARCH64"], ["PXE", "3.7.400", "AMD64"]]
OLD_ROM = [["UEFI", "14.26.17", "AMD64,AARCH64"], ["PXE", "3.6.502", "AMD64"]]
RELEASED = {FIRMWARE: "28.4.2024", OLD_FIRMWARE: "29.4.2022"}
PART = "MCX623106AN-CDA"
DESCRIPTION = "ConnectX-6 Dx EN adapter card; 100GbE; Dual-port QSFP56; PCIe 4.0/3.0 x16;"

DRIVE_MODEL = "SAMSUNG MZWLO3T8HCLS-00A07"
DRIVE_FIRMWARE = "OPPA1B5Q"
DRIVE_BYTES = 4 * 1024**3  # sparse; the least on which every supported file system is comfortable
FORMATS = [{"ms": 0, "ds": 9, "rp": 2}, {"ms": 0, "ds": 12, "rp": 0}]  # 512 bytes "Good", 4096 bytes "Best"
LBA_4096, LBA_512 = 1, 0

PRIORITY, CNP_PRIORITY = 3, 6
CM_TOS = 26 << 2 | 2  # DSCP 26, ECN capable
PORT_BUFFER = 262016  # bytes, as on the card of the samples
CHOICES = {"bool": ["False(0)", "True(1)"], "link": ["IB(1)", "ETH(2)"], "mode": ["_256KB(1)", "DISABLED(0)"]}


def pci_function(address: str, port: str, **ids: str) -> dict[str, Any]:
    return {"address": address, "host_bridge": f"pci{port[:7]}", "port": port, "numa": 0, **ids}


def class_as_planned() -> dict[str, Any]:
    """The lossless class as the lab's inventory wants it, in the terms of mlnx_qos."""
    only = [int(p == PRIORITY) for p in range(8)]
    return {
        "dcbx": "OS",
        "app": [[dscp, dscp >> 3] for dscp in range(63, -1, -1)],
        "buffer_size": [19872, PORT_BUFFER - 19872, 0, 0, 0, 0, 0, 0],
        "prio_buffer": only,
        "cable_len": 7,
        "pfc": only,
        "prio_tc": list(range(8)),
        "tsa": ["strict" if tc == CNP_PRIORITY else "ets" for tc in range(8)],
        "tc_bw": [50 if tc in (0, PRIORITY) else 0 for tc in range(8)],
        "ratelimit": [0] * 8,
    }


def boot_settings() -> dict[str, Any]:
    return {
        "qos": class_as_planned(),
        "pause": {"autoneg": "off", "rx": "off", "tx": "off"},
        "ecn": [int(p == PRIORITY) for p in range(8)],
        "cnp_dscp": 48,
        "cnp_prio": CNP_PRIORITY,
        "tclass": CM_TOS,
        "cm_tos": CM_TOS,
        "cm_mode": "RoCE v2",
    }


def setting(default: str, current: str, choices: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"default": default, "current": current, "next": current}
    return {**found, "choices": CHOICES[choices]} if choices else found


def nvconfig() -> dict[str, Any]:
    return {
        "LINK_TYPE_P1": setting("ETH(2)", "ETH(2)", "link"),
        "SRIOV_EN": setting("False(0)", "False(0)", "bool"),
        "NUM_OF_VFS": setting("0", "0"),
        "ROCE_CC_PRIO_MASK_P1": setting("255", "255"),
        "CNP_DSCP_P1": setting("48", "48"),
        "CNP_802P_PRIO_P1": setting("6", "6"),
        "LLDP_NB_DCBX_P1": setting("False(0)", "False(0)", "bool"),
        "DCBX_IEEE_P1": setting("True(1)", "True(1)", "bool"),
        "DCBX_WILLING_P1": setting("True(1)", "False(0)", "bool"),
        "KEEP_LINK_UP_ON_BOOT_P1": setting("False(0)", "False(0)", "bool"),
    }


def counters() -> dict[str, int]:
    """The counters of `ethtool -S` that matter to a lossless class; a lab's card carries no hardware traffic."""
    names = ["rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "tx_pause_storm_warning_events"]
    names += ["rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "rx_symbol_err_phy", "link_down_events_phy"]
    each = ("rx_prio{}_bytes", "rx_prio{}_packets", "rx_prio{}_discards", "tx_prio{}_bytes", "tx_prio{}_packets")
    names += [name.format(priority) for priority in range(8) for name in each]
    pauses = ("rx_prio{}_pause", "rx_prio{}_pause_duration", "tx_prio{}_pause", "tx_prio{}_pause_duration")
    names += [name.format(PRIORITY) for name in pauses]
    return dict.fromkeys(names, 0)


def nic(node: LabNode) -> dict[str, Any]:
    """A ConnectX-6 Dx function whose netdev is the node's real rail."""
    mac = mac_of(node, RAIL).replace(":", "")
    guid = f"{mac[:6]}0300{mac[6:]}"
    ids = {"vendor": "15b3", "device": "101d", "subsystem_vendor": "15b3", "subsystem_device": "0040"}
    boot = boot_settings()
    return {
        "netdev": RAIL,
        "pci": "0000:41:00.0",
        "pci_device": pci_function("0000:41:00.0", "0000:40:01.1", **ids, driver="mlx5_core", speed="16.0", width="16",
                                   **{"class": "020000"}),
        "device_name": "0000:41:00.0",
        "device_id": "101d",
        "rdma": "mlx5_0",
        "hca_type": "MT4125",
        "rate": "10 Gb/sec (1X QDR)",  # the veth below runs at 10 Gb/s
        "device_type": "ConnectX6DX",
        "config_type": "ConnectX6DX",
        "part_number": f"{PART}_Ax",
        "vpd_part_number": PART,
        "serial": f"MT2{node.unique:04d}X00{node.number:03d}",
        "description": DESCRIPTION,
        "psid": PSID,
        "image_type": "FS4",
        "security": "N/A",
        "base_guid": guid,
        "base_mac": mac,
        "uid_count": 4,
        "firmware": {"stored": FIRMWARE, "running": FIRMWARE, "date": RELEASED[FIRMWARE], "rom": ROM},
        "driver": {
            "name": "mlx5_core",
            "version": "24.10-1.1.4",
            "expansion-rom-version": "",
            "supports": ["statistics", "test", "priv-flags"],
        },
        "nvconfig": nvconfig(),
        "priv_flags": {"rx_cqe_moder": True, "tx_cqe_moder": False, "rx_cqe_compress": False, "rx_striding_rq": True},
        "counters": counters(),
        "gids": gids(node, mac),
        "qos": boot["qos"],
        "pause": boot["pause"],
        "at_boot": boot,
    }  # fmt: skip


def gids(node: LabNode, mac: str) -> list[list[str]]:
    """The entries that the kernel makes from an interface's addresses, each as RoCE v1 and v2."""
    octets = bytes.fromhex(mac)
    local = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    link = "fe80:0000:0000:0000:" + ":".join(local.hex()[i : i + 4] for i in range(0, 16, 4))
    ipv4 = bytes(int(part) for part in node.rail_address.split(".")).hex()
    mapped = "0000:" * 5 + "ffff:" + ipv4[:4] + ":" + ipv4[4:]
    return [[gid, version] for gid in (link, mapped) for version in ("IB/RoCE v1", "RoCE v2")]


def drive(node: LabNode, index: int, loop_minor: int) -> dict[str, Any]:
    """One NVMe drive over a loop device; `index` counts from 0 on the node."""
    # The lab's own number is part of it: file systems of two labs share this kernel, which mounts a UUID once.
    lab = int(node.rail_address.split(".")[1])
    serial = f"S6XLN{lab:03d}{node.unique:04d}{index:02d}"
    unique = hashlib.sha256(serial.encode()).hexdigest()
    bus = 0x81 + index
    address = f"0000:{bus:02x}:00.0"
    ids = {"vendor": "144d", "device": "a824", "subsystem_vendor": "144d", "subsystem_device": "a801"}
    return {
        "controller": f"nvme{index}",
        "namespace": f"nvme{index}n1",
        "subsystem": f"nvme-subsys{index}",
        "nsid": 1,
        "serial": serial,
        "model": DRIVE_MODEL,
        "firmware": DRIVE_FIRMWARE,
        "nqn": f"nqn.1994-11.com.samsung:nvme:PM1743:2.5-inch:{serial}",
        "pci": address,
        "pci_device": pci_function(address, f"0000:80:0{index + 1}.1", **ids, driver="nvme", speed="32.0", width="4",
                                   **{"class": "010802"}),
        "slot": str(index + 1),
        "nguid": f"36585930{unique[:24]}",
        "eui64": f"002538{unique[24:34]}",
        "loop_minor": loop_minor,
        "capacity": DRIVE_BYTES,
        "used_bytes": None,
        "formats": FORMATS,
        "flbas": LBA_4096,
        "smart": smart(),
        "id_ctrl": id_ctrl(),
    }  # fmt: skip


def smart() -> dict[str, int]:
    """The JSON of `nvme smart-log` of a drive in good health; temperatures in Kelvin."""
    values = {"critical_warning": 0, "temperature": 308, "avail_spare": 100, "spare_thresh": 10, "percent_used": 2}
    values.update(endurance_grp_critical_warning_summary=0, data_units_read=4012331, data_units_written=2918374)
    values.update(host_read_commands=55103921, host_write_commands=39112078, controller_busy_time=211, power_cycles=14)
    values.update(power_on_hours=1021, unsafe_shutdowns=3, media_errors=0, num_err_log_entries=0)
    values.update(warning_temp_time=0, critical_comp_time=0, temperature_sensor_1=308, temperature_sensor_2=316)
    return {**values, **{f"thm_temp{i}_{what}": 0 for what in ("trans_count", "total_time") for i in (1, 2)}}


def id_ctrl() -> dict[str, Any]:
    """Identify Controller; strings are filled in by the stand-in. oacs bit 1: format; fna bit 2: crypto erase."""
    values: dict[str, Any] = {"vid": 0x144D, "ssvid": 0x144D, "sn": "", "mn": "", "fr": "", "rab": 8, "ieee": 0x002538}
    values.update(cmic=0, mdts=9, cntlid=1, ver=0x20000, rtd3r=8000000, rtd3e=8000000, oaes=0x300, ctratt=0, rrls=0)
    values.update(cntrltype=1, crdt1=0, crdt2=0, crdt3=0, oacs=0x5F, acl=127, aerl=15, frmw=0x17, lpa=0x1E, elpe=255)
    values.update(npss=0, avscc=1, apsta=0, wctemp=353, cctemp=358, mtfa=130, hmpre=0, hmmin=0, tnvmcap=DRIVE_BYTES)
    values.update(unvmcap=0, rpmbs=0, edstt=0, dsto=0, fwug=255, kas=0, hctma=0, mntmt=0, mxtmt=0, sanicap=0x3)
    values.update(hmminds=0, hmmaxd=0, nsetidmax=0, anatt=0, anacap=0, anagrpmax=0, nanagrpid=0, sqes=0x66, cqes=0x44)
    values.update(maxcmd=256, nn=1, oncs=0x5F, fuses=0, fna=4, vwc=6, awun=127, awupf=127, nwpc=0, acwu=0, sgls=0xF0002)
    return values


def gpus(node: LabNode) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What nvidia-smi knows, and the PCI functions: one A100."""
    elements: list[list[Any]] = json.loads((Path(__file__).with_name("data") / "a100_sxm4.json").read_text())
    unique = hashlib.sha256(node.name.encode()).hexdigest()
    uuid = f"GPU-{unique[:8]}-{unique[8:12]}-{unique[12:16]}-{unique[16:20]}-{unique[20:32]}"
    own = {"serial": f"15601{node.unique:08d}", "uuid": uuid, "minor_number": "0"}
    head = [["driver_version", "535.54.03"], ["cuda_version", "12.2"], ["attached_gpus", "1"]]
    shown = [[name, own.get(name, at_bus(name, value, "61"))] for name, value in elements]
    gpu = {"id": "00000000:61:00.0", "elements": shown}
    smi = {"indent": "    ", "dtd": "nvsmi_device_v12.dtd", "head": head, "gpus": [gpu]}
    ids = {"vendor": "10de", "device": "20b2", "subsystem_vendor": "10de", "subsystem_device": "147f"}
    function = pci_function("0000:61:00.0", "0000:60:01.1", **ids, driver="nvidia", speed="16.0", width="16",
                            **{"class": "030200"})  # fmt: skip
    return smi, [{"pci_device": function}]


def at_bus(name: str, value: Any, bus: str) -> Any:
    """The same element for a card on another PCI bus."""
    if name != "pci":
        return value
    moved = {"pci_bus": bus.upper(), "pci_bus_id": f"00000000:{bus}:00.0"}
    return [[key, moved.get(key, inner)] for key, inner in value]
