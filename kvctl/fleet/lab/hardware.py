"""Gives a node its simulated hardware: state, recorded tree, stand-ins, unit, marker."""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from kvctl.fleet.lab import cards, host, loops
from kvctl.fleet.lab.layout import Layout
from kvctl.fleet.lab.loops import Loop
from kvctl.fleet.lab.nodes import LabNode
from kvctl.fleet.lab.standins import COMMANDS, store, tree

DRIVES_PER_NODE = 2
LIBRARY = "usr/lib/kvctl-lab"
PATHS = ("/sys/class/infiniband", "/sys/class/nvme", "/sys/bus/pci", "/sys/kernel/config/rdma_cm", "/sys/module")
LAUNCHER = """#!/usr/bin/python3 -IS
# Stand-in of a kvctl lab host; see /etc/kvctl-lab.json.
import sys

sys.path.insert(0, "/usr/lib/kvctl-lab")
from standins.{module} import {function}

sys.exit({function}(sys.argv[1:]))
"""
MODULES = {
    "storage": ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "nvme", "nvme_core", "rdma_cm", "rdma_ucm"],
    "gpu": ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib", "nvidia", "nvidia_peermem", "rdma_cm", "rdma_ucm"],
}
DEVICES_UNIT = """[Unit]
Description=Device database of a kvctl lab host
DefaultDependencies=no
Before=sysinit.target

[Service]
ExecStart=/usr/lib/kvctl-lab/devices
Restart=on-failure

[Install]
WantedBy=sysinit.target
"""


def drives(layout: Layout, node: LabNode) -> dict[str, Loop]:
    """Attach a storage node's loop devices: name in /dev -> loop. Safe to repeat."""
    if node.role != "storage":
        return {}
    directory = layout.node_dir(node.name) / "drives"
    directory.mkdir(parents=True, exist_ok=True)
    formats = current_formats(layout, node)
    return {
        f"nvme{i}n1": loops.attach(directory / f"nvme{i}n1.img", cards.DRIVE_BYTES, formats.get(i, 4096))
        for i in range(DRIVES_PER_NODE)
    }


def current_formats(layout: Layout, node: LabNode) -> dict[int, int]:
    """Block size in bytes by drive, for a node that had drives before."""
    if not has_state(layout, node.name):
        return {}
    found = store.load(str(layout.hardware(node.name)))["drives"]
    return {i: 1 << drive["formats"][drive["flbas"]]["ds"] for i, drive in enumerate(found)}


def has_state(layout: Layout, node: str) -> bool:
    return (layout.hardware(node) / "state.json").exists()


def boot_mtu(layout: Layout, node: str) -> int:
    """What the node's boot configuration sets the rail's MTU to."""
    return int(store.load(str(layout.hardware(node)))["boot_mtu"])


def new_state(node: LabNode, attached: dict[str, Loop]) -> dict[str, Any]:
    namespace = uuid.uuid5(uuid.NAMESPACE_DNS, node.name)
    state: dict[str, Any] = {
        "schema": 1,
        "node": node.name,
        "boot_mtu": 9000,
        "nics": [cards.nic(node)],
        "drives": [cards.drive(node, i, loop.minor) for i, loop in enumerate(attached.values())],
        "modules": MODULES[node.role],
        "hostnqn": f"nqn.2014-08.org.nvmexpress:uuid:{namespace}",
        "hostid": str(namespace),
    }
    if node.role == "gpu":
        smi, functions = cards.gpus(node)
        state.update(smi=smi, gpus=functions, peer_memory=["nvidia_peermem"])
    return state


def install(layout: Layout, node: LabNode, attached: dict[str, Loop]) -> None:
    """Write a node's hardware and what makes it appear at boot. An existing state is kept, with its loops renewed."""
    at = layout.hardware(node.name)
    at.mkdir(parents=True, exist_ok=True)
    if has_state(layout, node.name):
        with store.changing(str(at)) as state:
            for drive, loop in zip(state["drives"], attached.values(), strict=True):
                drive["loop_minor"] = loop.minor
            tree.build(state, str(at))
    else:
        state = new_state(node, attached)
        tree.build(state, str(at))
        store.save(state, str(at))  # last: a state means that the tree is whole
    install_files(host.upper(layout, node.name), state)


def install_files(root: Path, state: dict[str, Any]) -> None:
    library = root / LIBRARY
    shutil.copytree(Path(__file__).with_name("standins"), library / "standins", dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    tools = commands_for(state)
    for name, (module, function) in tools.items():
        write_launcher(root / "usr/bin" / name, module, function)
        if name in ("ethtool", "nvme"):  # where Debian has the real one; /usr/sbin comes first in root's PATH
            write_launcher(root / "usr/sbin" / name, module, function)
    write_launcher(library / "init", "boot", "main")
    write_launcher(library / "replug", "boot", "replug")
    write_launcher(library / "devices", "devices", "main")
    marker = {"lab": True, "simulated": [*sorted(tools), *PATHS]}
    host.write(root / "etc/kvctl-lab.json", json.dumps(marker, indent=1) + "\n")
    install_units(root / "etc/systemd/system")


def commands_for(state: dict[str, Any]) -> dict[str, tuple[str, str]]:
    absent = set() if state.get("smi") else {"nvidia-smi"}
    if not state["drives"]:
        absent.add("nvme")
    return {name: entry for name, entry in COMMANDS.items() if name not in absent}


def write_launcher(path: Path, module: str, function: str) -> None:
    host.write(path, LAUNCHER.format(module=module, function=function), 0o755)


def install_units(units: Path) -> None:
    name = "kvctl-lab-devices.service"
    host.write(units / name, DEVICES_UNIT)
    link = units / "sysinit.target.wants" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(f"/etc/systemd/system/{name}")
