"""A recorded tree of one storage node, written file by file: what sysfs, /proc and the tools of such a node hold."""

import json
from pathlib import Path
from typing import Any

from kvctl.fleet.facts.build import node_facts
from kvctl.fleet.probe.collect import collect
from kvctl.types.facts import NodeFacts

CARD = "0000:41:00"
RAILS = ("enp65s0f0np0", "enp65s0f1np1")
SAMPLES = Path(__file__).parents[2] / "data" / "samples"


def put(root: Path, path: str, text: str | bytes) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text if isinstance(text, bytes) else text.encode())


def link(root: Path, path: str, to: str) -> None:
    """A symbolic link at `path` to the path `to`, relative as sysfs makes them."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * (len(Path(path.lstrip("/")).parts) - 1)
    target.symlink_to(up + to.lstrip("/"))


def pci_function(root: Path, address: str, above: str, files: dict[str, str], driver: str) -> str:
    """Makes the function below a bridge and its entry in /sys/bus/pci; returns the folder."""
    folder = f"/sys/devices/pci0000:40/{above}/{address}"
    for name, text in files.items():
        put(root, f"{folder}/{name}", text + "\n")
    link(root, f"/sys/bus/pci/devices/{address}", folder)
    put(root, f"/sys/bus/pci/drivers/{driver}/module", "")
    link(root, f"{folder}/driver", f"/sys/bus/pci/drivers/{driver}")
    return folder


def netdev(root: Path, name: str, device: str | None, files: dict[str, str]) -> None:
    folder = f"/sys/class/net/{name}"
    for file, text in {"type": "1", "mtu": "9000", "operstate": "up", "carrier": "1", **files}.items():
        put(root, f"{folder}/{file}", text + "\n")
    if device:
        link(root, f"{folder}/device", device)


def rail(root: Path, port: int) -> None:
    address, name = f"{CARD}.{port}", RAILS[port]
    files = {"vendor": "0x15b3", "device": "0x101d", "class": "0x020000", "numa_node": "0"}
    files |= {"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe"}
    files |= {"current_link_width": "16", "max_link_width": "16"}
    device = pci_function(root, address, "0000:40:01.1", files, "mlx5_core")
    netdev(root, name, device, {"address": f"b8:ce:f6:00:00:0{port}", "speed": "100000", "carrier_changes": "2"})
    for priority in range(8):
        for point in ("roce_np", "roce_rp"):
            put(root, f"/sys/class/net/{name}/ecn/{point}/enable/{priority}", "1\n" if priority == 3 else "0\n")
    put(root, f"/sys/class/net/{name}/ecn/roce_np/cnp_dscp", "48\n")
    put(root, f"/sys/class/net/{name}/ecn/roce_np/cnp_802p_prio", "6\n")
    rdma_device(root, f"mlx5_{port}", name, device)


def rdma_device(root: Path, name: str, interface: str, device: str) -> None:
    folder = f"{device}/infiniband/{name}"
    identity = {"board_id": "MT_0000000359", "fw_ver": "22.36.1010", "hca_type": "MT4125"}
    identity |= {"node_guid": "b8ce:f603:0000:0000", "sys_image_guid": "b8ce:f603:0000:0000"}
    for file, text in identity.items():
        put(root, f"{folder}/{file}", text + "\n")
    port = f"{folder}/ports/1"
    state = {"link_layer": "Ethernet", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)"}
    for file, text in state.items():
        put(root, f"{port}/{file}", text + "\n")
    put(root, f"{port}/hw_counters/out_of_sequence", "7\n")
    gids = ("fe80:0000:0000:0000:bace:f6ff:fe00:0000", "0000:0000:0000:0000:0000:ffff:c633:6401", "0" * 4 + ":0000" * 7)
    for index, gid in enumerate(gids):
        put(root, f"{port}/gids/{index}", gid + "\n")
    for index, kind in ((0, "IB/RoCE v1"), (1, "RoCE v2")):
        put(root, f"{port}/gid_attrs/types/{index}", kind + "\n")
        put(root, f"{port}/gid_attrs/ndevs/{index}", interface + "\n")
    put(root, f"{folder}/tc/1/traffic_class", "Global tclass=106\n")
    link(root, f"/sys/class/infiniband/{name}", folder)
    put(root, f"/sys/kernel/config/rdma_cm/{name}/ports/1/default_roce_tos", "106\n")
    put(root, f"/sys/kernel/config/rdma_cm/{name}/ports/1/default_roce_mode", "RoCE v2\n")


def drive(root: Path, number: int, serial: str, *, transport: str = "pcie", block: str | None = None) -> None:
    address = f"0000:c{number}:00.0"
    files = {"vendor": "0x144d", "device": "0xa824", "class": "0x010802", "numa_node": "-1"}
    files |= {"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe"}
    files |= {"current_link_width": "4", "max_link_width": "4"}
    name = f"nvme{number}"
    where = address if transport == "pcie" else "traddr=192.0.2.9,trsvcid=4420"
    device = f"/sys/devices/virtual/{name}"
    if transport == "pcie":
        device = pci_function(root, address, f"0000:40:0{number}.2", files, "nvme") + f"/nvme/{name}"
    texts = {"model": "SAMSUNG MZWLO3T8HCLS-00A07          ", "serial": serial, "firmware_rev": "OPPA1B5Q"}
    texts |= {"address": where, "transport": transport, "state": "live", "numa_node": "0"}
    for file, text in texts.items():
        put(root, f"{device}/{file}", text + "\n")
    link(root, f"/sys/class/nvme/{name}", device)
    namespace(root, f"{device}/{block or name + 'n1'}", block or f"{name}n1", number)


def namespace(root: Path, folder: str, name: str, minor: int) -> None:
    files = {"size": "7501476528", "nsid": "1", "wwid": f"eui.{minor:016x}", "dev": f"259:{minor}", "ro": "0"}
    queue = {"logical_block_size": "512", "physical_block_size": "4096", "scheduler": "[none] mq-deadline"}
    queue |= {"rotational": "0", "write_cache": "write through", "io_timeout": "30000"}
    for file, text in {**files, **{f"queue/{key}": value for key, value in queue.items()}}.items():
        put(root, f"{folder}/{file}", text + "\n")
    (root / folder.lstrip("/") / "holders").mkdir()
    if not (root / "sys/block" / name).exists():
        link(root, f"/sys/block/{name}", folder)


def storage_node(root: Path) -> Path:
    """Two functions of one ConnectX-6 Dx, a bond above nothing of them, two drives."""
    for port in (0, 1):
        rail(root, port)
    netdev(root, "bond0", None, {"address": "b8:ce:f6:00:00:00", "bonding/mode": "802.3ad 4"})
    drive(root, 1, "S1")
    drive(root, 2, "S2")
    put(root, "/etc/os-release", 'ID=debian\nVERSION_ID="13"\n')
    put(root, "/proc/sys/kernel/hostname", "storage1\n")
    put(root, "/proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n")
    put(root, "/proc/modules", "mlx5_core 1 0 - Live 0x0\nnvidia-peermem 1 0 - Live 0x0\n")
    put(root, "/proc/meminfo", "MemTotal:       1056000000 kB\n")
    put(root, "/proc/sys/net/ipv4/tcp_mtu_probing", "1\n")
    put(root, "/proc/sys/net/ipv4/conf/eth0.100/rp_filter", "2\n")
    put(root, "/proc/self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n")
    (root / "sys/kernel/mm").mkdir(parents=True)
    tool(root, f"mstflint.query:{CARD}.0", FLINT)
    for name in RAILS:
        tool(root, f"mlnx_qos:{name}", (SAMPLES / "mlnx_qos/i_dscp_buffers_split_wrapped_dscp30.txt").read_text())
    return root


def tool(root: Path, key: str, text: str | bytes) -> None:
    put(root, f"/tools/{key}.txt", text)


def document(root: Path) -> Any:
    """The raw document as it arrives: through JSON."""
    return json.loads(json.dumps(collect(str(root))))


def facts(root: Path) -> NodeFacts:
    return node_facts("storage1", document(root))


FLINT = """\
Image type:            FS4
FW Version:            22.36.1010
FW Release Date:       4.5.2023
Product Version:       22.36.1010
Description:           UID                GuidsNumber
Base GUID:             b8cef60300000000        4
Base MAC:              b8cef6000000            4
Image VSD:             N/A
Device VSD:            N/A
PSID:                  MT_0000000359
Security Attributes:   N/A
"""
