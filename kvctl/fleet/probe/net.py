"""Network interfaces: rtnetlink for links and addresses, sysfs for what a physical NIC adds."""

from __future__ import annotations

from . import pci
from .tree import Tree, known, unknown, why_not

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


CLASS = "/sys/class/net"
_FROM_SYSFS = {"mtu": "mtu", "mac": "address", "operstate": "operstate", "carrier": "carrier"}
_PRIORITIES = "01234567"


def interfaces(tree: Tree, errors: list[str]) -> dict[str, Any]:
    """Every interface; those with a bus device also get what only a NIC has, and `handle` when it is one."""
    found = _links(tree, errors)
    for name, interface in found.items():
        folder = CLASS + "/" + name
        if tree.exists(folder + "/device"):
            _physical(tree, folder, interface)
    _ask_kernel(tree, found, errors)
    return found


def _links(tree: Tree, errors: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if tree.live:
        try:
            found = _from_netlink()
        except OSError as error:
            errors.append("rtnetlink: " + why_not(error))
    for name in tree.names(CLASS):
        # bonding_masters and the like are files of the class, not interfaces.
        if name not in found and tree.exists(CLASS + "/" + name + "/type"):
            found[name] = _from_sysfs(tree, CLASS + "/" + name)
    return found


def _from_netlink() -> dict[str, Any]:
    from .netlink import Netlink

    netlink = Netlink()
    try:
        links, addresses = netlink.links(), netlink.addresses()
    finally:
        netlink.close()
    names = {link["index"]: name for name, link in links.items()}
    found = {}
    for name, link in links.items():
        source = "netlink RTM_GETLINK " + name
        interface: dict[str, Any] = {}
        for key in ("mtu", "mac", "operstate", "carrier", "carrier_changes"):
            interface[key] = known(link[key], source) if key in link else unknown("the kernel did not say", source)
        interface["addresses"] = known(addresses.get(link["index"], []), "netlink RTM_GETADDR " + name)
        interface["kind"] = link.get("kind", "")
        interface["master"] = names.get(link.get("master", 0), "")
        interface["lower"] = names.get(link.get("lower", 0), "")
        found[name] = interface
    return found


def _from_sysfs(tree: Tree, folder: str) -> dict[str, Any]:
    interface: dict[str, Any] = {key: tree.text(folder + "/" + name) for key, name in _FROM_SYSFS.items()}
    interface["carrier_changes"] = tree.text(folder + "/carrier_changes")
    interface["addresses"] = unknown("sysfs does not hold addresses", folder)
    interface["kind"] = "bond" if tree.exists(folder + "/bonding") else ""
    interface["master"] = tree.target(folder + "/master") or ""
    interface["lower"] = next((name[6:] for name in tree.names(folder) if name.startswith("lower_")), "")
    return interface


def _physical(tree: Tree, folder: str, interface: dict[str, Any]) -> None:
    device = folder + "/device"
    address = pci.address_of(tree, device)
    bus = tree.target(device + "/subsystem")
    interface["device"] = address or ""
    # As devlink names devices; netdevsim is the kernel's own NIC simulator, and tests fabrics through the real API.
    if address:
        interface["handle"] = "pci/" + address
    elif bus == "netdevsim":
        interface["handle"] = bus + "/" + tree.real(device).rsplit("/", 1)[-1]
    interface["driver"] = pci.driver_of(tree, device)
    interface["virtual_function"] = tree.exists(device + "/physfn")
    interface["sysfs"] = tree.texts(folder, ("speed", "dev_port", "phys_port_name"))
    interface["rdma"] = tree.names(device + "/infiniband")
    if tree.exists(folder + "/ecn"):
        interface["ecn"] = _ecn(tree, folder + "/ecn")


def _ecn(tree: Tree, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for point in ("roce_np", "roce_rp"):
        enable = folder + "/" + point + "/enable"
        found[point] = {priority: tree.text(enable + "/" + priority) for priority in _PRIORITIES}
    found["cnp_dscp"] = tree.text(folder + "/roce_np/cnp_dscp")
    found["cnp_prio"] = tree.text(folder + "/roce_np/cnp_802p_prio")
    return found


def _ask_kernel(tree: Tree, found: dict[str, Any], errors: list[str]) -> None:
    """DCB and ethtool requests for the physical interfaces of a live node."""
    names = [name for name, interface in found.items() if interface.get("handle")]
    if not tree.live or not names:
        return
    from .ethtool import Ethtool
    from .netlink import Netlink

    try:
        netlink, ethtool = Netlink(), Ethtool()
    except OSError as error:
        errors.append("netlink: " + why_not(error))
        return
    for name in names:
        interface = found[name]
        interface["dcb"] = netlink.dcb(name)
        interface["ethtool"] = {
            "driver": ethtool.driver(name),
            "pause": ethtool.pause(name),
            "fec": ethtool.fec(name),
            "counters": ethtool.counters(name),
            "private_flags": ethtool.private_flags(name),
        }
    netlink.close()
    ethtool.close()
