"""The lab's networks: bridges in a namespace of their own, one namespace a node. The machine's own is never touched."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute, netns

from kvctl.fleet.lab.layout import RAIL, Layout
from kvctl.fleet.lab.nodes import LabNode

T = TypeVar("T")

RUN = Path("/run/netns")
MANAGEMENT_BRIDGE, RAIL_BRIDGE = "br0", "br1"
BRIDGE_MTU = 9216  # larger than any rail's, as on a switch
PREFIX = 16


def exists(name: str) -> bool:
    return (RUN / name).exists()


def namespaces(prefix: str) -> list[str]:
    return sorted(p.name for p in RUN.glob(f"{prefix}*")) if RUN.is_dir() else []


def create_fabric(layout: Layout) -> None:
    """The namespace with both bridges; the controller's own addresses are .0.1 on each."""
    if not exists(layout.name):
        netns.create(layout.name)
    management, rail = layout.subnets()
    with IPRoute(netns=layout.name) as ip:
        ip.link("set", index=index(ip, "lo"), state="up")
        for bridge, network in ((MANAGEMENT_BRIDGE, management), (RAIL_BRIDGE, rail)):
            if not ip.link_lookup(ifname=bridge):
                ip.link("add", ifname=bridge, kind="bridge")
            ip.link("set", index=index(ip, bridge), state="up", mtu=BRIDGE_MTU if bridge == RAIL_BRIDGE else 1500)
            ip.addr("replace", index=index(ip, bridge), address=f"{network}.0.1", prefixlen=PREFIX)


def connect(layout: Layout, node: LabNode, rail_mtu: int) -> None:
    """A node's namespace with eth0 and its rail, each plugged into its bridge. Safe to repeat."""
    name = layout.machine(node.name)
    if not exists(name):
        netns.create(name)
    ports = {"eth0": (f"m-{node.name}", MANAGEMENT_BRIDGE), RAIL: (f"r-{node.name}", RAIL_BRIDGE)}
    with IPRoute(netns=layout.name) as fabric, IPRoute(netns=name) as inside:
        inside.link("set", index=index(inside, "lo"), state="up")
        for interface, (port, bridge) in ports.items():
            mac = mac_of(node, interface)
            if not inside.link_lookup(ifname=interface):
                peer = {"ifname": interface, "address": mac, "net_ns_fd": name}
                fabric.link("add", ifname=port, kind="veth", peer=peer)
            mtu = 1500 if interface == "eth0" else BRIDGE_MTU
            fabric.link("set", index=index(fabric, port), mtu=mtu, master=index(fabric, bridge), state="up")
        for interface, address, mtu in (("eth0", node.address, 1500), (RAIL, node.rail_address, rail_mtu)):
            inside.link("set", index=index(inside, interface), state="up", mtu=mtu)
            inside.addr("replace", index=index(inside, interface), address=address, prefixlen=PREFIX)


def mac_of(node: LabNode, interface: str) -> str:
    """The rail's MAC begins with an Nvidia prefix, as the simulated card's does."""
    high, low = divmod(node.unique, 256)
    prefix = "b8:3f:d2:10" if interface == RAIL else "02:4b:56:00"
    return f"{prefix}:{high:02x}:{low:02x}"


def set_link(layout: Layout, node: str, interface: str, **change: object) -> None:
    """Change a node's interface from outside, such as mtu=1500 or state="down"."""
    with IPRoute(netns=layout.machine(node)) as inside:
        inside.link("set", index=index(inside, interface), **change)


def set_port(layout: Layout, port: str, **change: object) -> None:
    """Change the bridge's end of a cable: state="down" takes the node's carrier away."""
    with IPRoute(netns=layout.name) as fabric:
        fabric.link("set", index=index(fabric, port), **change)


def index(ip: IPRoute, interface: str) -> int:
    found: list[int] = list(ip.link_lookup(ifname=interface))
    if not found:
        raise LookupError(f"no interface {interface} in the namespace")
    return found[0]


def remove(name: str) -> None:
    """Remove a namespace; its interfaces, and the bridges' ends of its cables, go with it."""
    with suppress(FileNotFoundError):
        netns.remove(name)


def inside(name: str, function: Callable[[], T]) -> T:
    """Call a function in a network namespace. setns(2) changes one thread, so it has a thread of its own."""
    results: list[T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            netns.setns(name)
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread and raised there
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
