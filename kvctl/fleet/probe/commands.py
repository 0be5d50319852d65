"""Which tools are asked what. Every form here only reads; a form that could change anything does not belong here.

A key is the name of the parser in `tools.catalogue`, a colon and the subject: "mlnx_qos:enp65s0f0np0".
A tool that is not installed has one entry under its own name: "mlnx_qos".
"""

from __future__ import annotations

from .run import Job, which
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FIRMWARE_LIMIT = 15.0
_LIMIT = 5.0
_LSBLK_COLUMNS = "NAME,KNAME,PATH,TYPE,SIZE,FSTYPE,UUID,LABEL,PTTYPE,PARTTYPE,MOUNTPOINT,MAJ:MIN,SERIAL,MODEL"
_MELLANOX = "0x15b3"
_BROADCOM = "0x14e4"
_UNITS = (
    "kvnoded.service",
    "kvstored.service",
    "kvgated.service",
    "chrony.service",
    "chronyd.service",
    "systemd-timesyncd.service",
    "ntpd.service",
    "ntpsec.service",
    "ptp4l.service",
    "lldpad.service",
    "lldpd.service",
    "fstrim.timer",
    "mdcheck_start.timer",
    "mdmonitor.service",
    "openibd.service",
    "NetworkManager.service",
    "systemd-networkd.service",
    "irqbalance.service",
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "multipathd.service",
    "ssh.service",
    "sshd.service",
)


class Commands:
    """Collects jobs, and entries for tools that are not installed."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.missing: dict[str, Any] = {}
        self._found: dict[str, bool] = {}

    def has(self, tool: str) -> bool:
        if tool not in self._found:
            self._found[tool] = which(tool) is not None
            if not self._found[tool]:
                self.missing[tool] = {"argv": [tool], "unknown": "not installed"}
        return self._found[tool]

    def add(self, key: str, *argv: str, limit: float = _LIMIT, group: str = "") -> None:
        if self.has(argv[0]):
            self.jobs.append(Job(key, argv, limit, group))


def wanted(document: dict[str, Any], tree: Tree, lab_text: str) -> Commands:
    """The commands for what sysfs showed; stand-ins that the lab marker `lab_text` lists are asked in any case."""
    commands = Commands()
    physical = {name: one for name, one in document["net"].items() if one.get("handle")}
    _host(commands, tree)
    for name, interface in physical.items():
        _interface(commands, name, interface, '"dcb"' in lab_text)
    _cards(commands, physical, document["pci"])
    if physical:
        commands.add("devlink.info", "devlink", "-j", "dev", "info", limit=10.0)
    if document["rdma"]:
        _rdma(commands, document["rdma"])
    if document["nvme"]:
        _drives(commands, document["nvme"])
    commands.add("nvidia_smi.xml", "nvidia-smi", "-q", "-x", limit=_FIRMWARE_LIMIT)
    return commands


def _host(commands: Commands, tree: Tree) -> None:
    if tree.exists("/run/systemd/system"):
        names = "--property=Id,LoadState,ActiveState,SubState,UnitFileState"
        commands.add("systemctl", "systemctl", "show", "--no-pager", names, *_UNITS)


def _interface(commands: Commands, name: str, interface: dict[str, Any], dcb_stand_in: bool) -> None:
    commands.add("ethtool.driver:" + name, "ethtool", "-i", name)
    commands.add("ethtool.pause:" + name, "ethtool", "-a", name)
    commands.add("ethtool.stats:" + name, "ethtool", "-S", name)
    commands.add("ethtool.priv_flags:" + name, "ethtool", "--show-priv-flags", name)
    if (interface.get("driver") or {}).get("v") in ("mlx5_core", "mlx4_en", "mlx4_core") or interface.get("rdma"):
        commands.add("mlnx_qos:" + name, "mlnx_qos", "-i", name)
        commands.add("lldptool.pfc:" + name, "lldptool", "-t", "-i", name, "-V", "PFC", limit=3.0)
        commands.add("lldptool.peer_pfc:" + name, "lldptool", "-t", "-n", "-i", name, "-V", "PFC", limit=3.0)
    ieee = (interface.get("dcb") or {}).get("ieee") or {}
    # The dcb command asks the kernel the same question; it is worth a process only where the kernel was not asked.
    if dcb_stand_in or (not ieee.get("v") and "not supported" not in ieee.get("unknown", "")):
        for what in ("pfc", "app", "ets", "buffer", "dcbx"):
            commands.add("dcb." + what + ":" + name, "dcb", "-j", what, "show", "dev", name)


def _cards(commands: Commands, physical: dict[str, Any], functions: dict[str, Any]) -> None:
    """Firmware tools, once a card: its functions share the flash and its lock."""
    cards: dict[str, list[str]] = {}
    broadcom = False
    for interface in physical.values():
        address = interface["device"]
        vendor = (functions.get(address, {}).get("vendor") or {}).get("v")
        if vendor == _MELLANOX and not interface.get("virtual_function"):
            cards.setdefault(address.rpartition(".")[0], []).append(address)
        broadcom = broadcom or vendor == _BROADCOM
    query = "mstflint" if commands.has("mstflint") else "flint"
    config = "mstconfig" if commands.has("mstconfig") else "mlxconfig"
    for card, addresses in sorted(cards.items()):
        first, group = min(addresses), "card " + card
        commands.add("mstflint.query:" + first, query, "-d", first, "query", limit=_FIRMWARE_LIMIT, group=group)
        commands.add("mlxconfig.query:" + first, config, "-d", first, "-e", "query", limit=_FIRMWARE_LIMIT, group=group)
    if cards and not commands.has(query):
        commands.add("mlxfwmanager.query", "mlxfwmanager", "--query", limit=_FIRMWARE_LIMIT)
    if broadcom:
        commands.add("niccli.devices", "niccli", "--list_devices", limit=_FIRMWARE_LIMIT)


def _rdma(commands: Commands, devices: dict[str, Any]) -> None:
    commands.add("rdma.link", "rdma", "-j", "link", "show")
    commands.add("ibv_devinfo", "ibv_devinfo", "-v")
    commands.add("ibdev2netdev", "ibdev2netdev")
    for name, device in devices.items():
        for number, port in device.get("ports", {}).items():
            if "v" not in port.get("cm_tos", {}):
                commands.add("cma_roce.tos:" + name, "cma_roce_tos", "-d", name, "-p", number)
            if "v" not in port.get("cm_mode", {}):
                commands.add("cma_roce.mode:" + name, "cma_roce_mode", "-d", name, "-p", number)


def _drives(commands: Commands, controllers: dict[str, Any]) -> None:
    commands.add("lsblk", "lsblk", "-J", "-b", "-o", _LSBLK_COLUMNS)
    for name, controller in controllers.items():
        if (controller["transport"].get("v") or "pcie") != "pcie":
            continue
        commands.add("nvme.id_ctrl:" + name, "nvme", "id-ctrl", "/dev/" + name, "-o", "json")
        commands.add("nvme.smart_log:" + name, "nvme", "smart-log", "/dev/" + name, "-o", "json")
        for namespace in controller["namespaces"]:
            commands.add("nvme.id_ns:" + namespace, "nvme", "id-ns", "/dev/" + namespace, "-o", "json")
            commands.add("nvme.id_ns_h:" + namespace, "nvme", "id-ns", "/dev/" + namespace, "-H")


def after(results: dict[str, Any]) -> Commands:
    """Commands that need an answer of the first round: the QoS of each adapter that niccli numbers."""
    commands = Commands()
    listed = results.get("niccli.devices", {}).get("out", "")
    number = ""
    for line in listed.splitlines():
        head, mark, _rest = line.strip().partition(")")
        if mark and head.strip().isdigit():
            number = head.strip()
        elif number and line.strip().startswith("PCI Address"):
            address = line.partition(":")[2].strip().lower()
            commands.add("niccli.qos:" + address, "niccli", "-dev", number, "qos", "--ets", "--show")
            number = ""
    return commands
