"""The inventory of a lab: what its nodes would be if nothing were wrong with them."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from kvctl.fleet.lab import cards, images, network
from kvctl.fleet.lab.hardware import DRIVES_PER_NODE
from kvctl.fleet.lab.layout import RAIL, Layout
from kvctl.fleet.lab.nodes import LabNode

HEAD = """\
# Written by `kvctl lab up`; written anew at the next one.
# The nodes are lab hosts: real systemd, SSH and file systems, simulated NICs, firmware and drives.
"""
SPEED = 10000  # Mb/s: what a veth says, so that the card, the kernel and ethtool agree
SYSCTLS = {
    "storage": {"net.ipv4.tcp_mtu_probing": "1", "net.ipv4.conf.all.arp_ignore": "1"},
    "gpu": {"net.ipv4.tcp_mtu_probing": "1", "net.ipv4.conf.all.arp_ignore": "1"},
}


def document(layout: Layout, nodes: Sequence[LabNode], checksums: Mapping[str, str]) -> dict[str, Any]:
    """The inventory as data; its model is `fleet.inventory.model.Inventory`."""
    present = [role for role in ("storage", "gpu") if any(node.role == role for node in nodes)]
    return {
        "version": 1,
        "site": {"name": layout.name, "country": "FR", "entity": "kvctl lab", "lab": True},
        "access": {
            "identity_file": str(layout.identity),
            "known_hosts": str(layout.known_hosts),
            "netns": layout.name,
        },
        "fabric": {"mtu": 9000, "lossless_priority": 3, "dscp": 26, "cnp_dscp": 48, "cnp_priority": 6},
        "roles": {role: role_of(layout, role, checksums) for role in present},
        "pools": {POOLS[role]: {"kind": POOLS[role], "max_unavailable": 1} for role in present},
        "nodes": [node_of(node) for node in nodes],
    }


POOLS = {"storage": "storage", "gpu": "serving"}


def role_of(layout: Layout, role: str, checksums: Mapping[str, str]) -> dict[str, Any]:
    _, rail = layout.subnets()
    name = images.file_name(cards.PSID, cards.FIRMWARE)
    pin = {"version": cards.FIRMWARE, "image": str(layout.images / name), "sha256": checksums[name]}
    wanted: dict[str, Any] = {
        "kind": role,
        "nic": {
            "part_numbers": [cards.PART, f"{cards.PART}_Ax"],  # as the VPD has it, as the tools print it
            "count": 1,
            "firmware": {cards.PSID: pin},
            "nvconfig": {"LINK_TYPE_P1": "ETH(2)"},
        },
        "rails": [{"interface": RAIL, "subnet": f"{rail}.0.0/{network.PREFIX}", "speed": SPEED}],
        "addressing": "none",
        "sysctls": SYSCTLS[role],
    }
    if role == "gpu":
        wanted["gpus"] = 1
        wanted["rails"][0]["gpu"] = 0
    else:
        wanted["drives"] = {
            "model": cards.DRIVE_MODEL,
            "firmware": cards.DRIVE_FIRMWARE,
            "count": DRIVES_PER_NODE,
            "lba": 4096,
            "layout": "xfs",
            "discard": "fstrim",
            "disk_tier": 1,
        }
    return wanted


def node_of(node: LabNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "address": node.address,
        "role": node.role,
        "pool": POOLS[node.role],
        "failure_domain": f"rack{node.number}",
        "addresses": {RAIL: f"{node.rail_address}/{network.PREFIX}"},
    }


def text(layout: Layout, nodes: Sequence[LabNode], checksums: Mapping[str, str]) -> str:
    return HEAD + yaml.safe_dump(document(layout, nodes, checksums), sort_keys=False)
