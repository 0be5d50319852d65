"""The class of a node's interfaces: observe, plan, carry out, and own.

Owning an interface means: /etc/kvctl/class.json holds its wanted state, and the boot unit kvctl-class@IF.service and
kvnoded put that state back after a boot, a driver reload or a flap. Only a state that already holds is ever owned.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple

from . import kvctl_roce_dcb, kvctl_roce_lldpad, kvctl_roce_mlnx, kvctl_roce_niccli, kvctl_roce_system
from .kvctl_command import Command, execute, find
from .kvctl_files import CHANGE_LOCK, locked, read_json, read_text, write_atomic, write_json
from .kvctl_job import pack
from .kvctl_refused import Refused
from .kvctl_roce import Difference, Observed, desired_state, difference, refuse_unreadable, undo, wanted_with_buffers
from .kvctl_systemd import UNITS, escape, has_net_devices, systemctl

CLASS = "/etc/kvctl/class.json"
ARCHIVE = "/usr/lib/kvctl/class.pyz"
UNIT = "kvctl-class@.service"
BACKENDS: Dict[str, Any] = {
    "mlnx_qos": kvctl_roce_mlnx,
    "dcb": kvctl_roce_dcb,
    "niccli": kvctl_roce_niccli,
    "lldpad": kvctl_roce_lldpad,
}
BY_DRIVER = {"mlx5_core": ("mlnx_qos", "dcb"), "bnxt_en": ("niccli", "dcb"), "ice": ("lldpad",)}


class Planned(NamedTuple):
    """One interface's gap and the commands that close it."""

    interface: Dict[str, Any]
    backend: str
    observed: Observed
    diff: Difference
    commands: List[Command]

    @property
    def netdev(self) -> str:
        return str(self.interface["netdev"])


def choose(driver: str, installed: Dict[str, bool]) -> str:
    """The back end for a driver, of those whose tool is installed. KV-ROCE-002 when none is."""
    candidates = BY_DRIVER.get(driver, ("dcb",))
    for name in candidates:
        if installed[name]:
            return name
    tools = " or ".join(BACKENDS[name].TOOL for name in candidates)
    raise Refused(
        "KV-ROCE-002", "driver %s needs %s, which is not installed" % (driver, tools), "install it on the node"
    )


def driver_of(netdev: str) -> str:
    link = "/sys/class/net/%s/device/driver" % netdev
    if os.path.exists(link):
        return os.path.basename(os.path.realpath(link))
    for line in (read_text("/sys/class/net/%s/device/uevent" % netdev) or "").splitlines():
        if line.startswith("DRIVER="):
            return line[len("DRIVER=") :]
    return ""


def backend_of(interface: Dict[str, Any]) -> str:
    netdev = interface["netdev"]
    if read_text("/sys/class/net/%s/mtu" % netdev) is None:
        raise Refused("KV-ROCE-001", "there is no interface %s" % netdev, "check the inventory's rails")
    if os.path.exists("/sys/class/net/%s/device/physfn" % netdev):
        raise Refused("KV-ROCE-005", "%s is a virtual function; its class is its parent's" % netdev, "name the PF")
    installed = {name: find(module.TOOL) is not None for name, module in BACKENDS.items()}
    return choose(driver_of(netdev), installed)


def plan(interface: Dict[str, Any]) -> Planned:
    """Read the interface and compute every command; nothing is changed. Raises Refused for what cannot be done."""
    name = backend_of(interface)
    backend = BACKENDS[name]
    if hasattr(backend, "refuse"):
        backend.refuse(interface, desired_state(interface))
    common, own = kvctl_roce_system.read(interface), backend.read(interface)
    observed = Observed({**common.state, **own.state}, {**common.unknown, **own.unknown}, own.max_buffer)
    wanted = wanted_with_buffers(observed, interface)
    if hasattr(backend, "only_shown_classes"):
        wanted = backend.only_shown_classes(observed, wanted)
    refuse_unreadable(interface["netdev"], wanted, observed, ["pfc"])
    diff = difference(observed, wanted)
    return Planned(interface, name, observed, diff, commands(interface, name, observed, diff))


def commands(interface: Dict[str, Any], backend: str, observed: Observed, diff: Difference) -> List[Command]:
    if not diff:
        return []
    own: List[Command] = BACKENDS[backend].commands(interface, observed, diff.after)
    return kvctl_roce_system.commands(interface, diff.after) + own


def carry_out(planned: List[Planned]) -> None:
    for item in planned:
        execute(item.commands, "KV-ROCE-020")


def put_back(item: Planned) -> List[Command]:
    """Commands that undo `item`, computed against the state that its commands leave."""
    back = undo(item.diff)
    after = Observed({**item.observed.state, **_overlaid(item)}, {})
    return commands(item.interface, item.backend, after, Difference({}, back))


def _overlaid(item: Planned) -> Dict[str, Any]:
    return {
        name: {**(item.observed.state.get(name) or {}), **value} if isinstance(value, dict) else value
        for name, value in item.diff.after.items()
    }


def owned() -> Dict[str, Dict[str, Any]]:
    """The owned interfaces by netdev; empty when nothing is owned."""
    document = read_json(CLASS)
    if document is None:
        return {}
    interfaces = document.get("interfaces")
    if document.get("version") != 1 or not isinstance(interfaces, dict):
        raise Refused("KV-ROCE-006", "%s is not version 1" % CLASS, "run the roce role of this version")
    return interfaces


def unit_text(bind: bool) -> str:
    """The boot unit. Without udevd there are no device units to bind to: it is ordered before the network instead."""
    device = "sys-subsystem-net-devices-%i.device"
    bound = "BindsTo=%s\nAfter=%s network-pre.target\n" % (device, device) if bind else "After=network-pre.target\n"
    return (
        "[Unit]\nDescription=kvctl network class of %%I\n%s"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/python3 %s class %%I\n"
        "[Install]\nWantedBy=%s\n"
    ) % (bound, ARCHIVE, device if bind else "multi-user.target")


def boot_files(entry: str) -> Dict[str, bytes]:
    return {ARCHIVE: pack(entry), UNITS + "/" + UNIT: unit_text(has_net_devices()).encode()}


def unit_of(netdev: str) -> str:
    return UNIT.replace("@", "@" + escape(netdev))


def enabled(netdev: str) -> bool:
    target = "sys-subsystem-net-devices-%s.device" % escape(netdev) if has_net_devices() else "multi-user.target"
    return os.path.islink("%s/%s.wants/%s" % (UNITS, target, unit_of(netdev)))


def missing(interfaces: List[Dict[str, Any]], entry: str) -> Dict[str, str]:
    """What is not owned yet, by netdev or path, with the reason; empty when all is as it must be."""
    have = owned()
    gaps = {}
    for interface in interfaces:
        netdev = interface["netdev"]
        if have.get(netdev) != interface:
            gaps[netdev] = "not in %s as wanted" % CLASS
        elif not enabled(netdev):
            gaps[netdev] = "%s is not enabled" % unit_of(netdev)
    for path, data in boot_files(entry).items():
        try:
            with open(path, "rb") as stream:
                if stream.read() != data:
                    gaps[path] = "other content"
        except FileNotFoundError:
            gaps[path] = "absent"
    return gaps


def own(interfaces: List[Dict[str, Any]], entry: str) -> None:
    """Record the interfaces and enable their boot units; what is owned already stays."""
    with locked(CLASS + ".lock", wait=30):
        for path, data in boot_files(entry).items():
            write_atomic(path, data)
        have = owned()
        have.update({interface["netdev"]: interface for interface in interfaces})
        write_json(CLASS, {"version": 1, "interfaces": have}, 0o644)
    systemctl("daemon-reload")
    systemctl("enable", "--quiet", *(unit_of(interface["netdev"]) for interface in interfaces))


def disown(netdevs: List[str]) -> bool:
    """Forget interfaces; their live state stays until the next boot. True when one was owned."""
    with locked(CLASS + ".lock", wait=30):
        have = owned()
        gone = [netdev for netdev in netdevs if netdev in have]
        if gone:
            write_json(CLASS, {"version": 1, "interfaces": {k: v for k, v in have.items() if k not in gone}}, 0o644)
    for netdev in gone:
        systemctl("disable", "--quiet", unit_of(netdev))
    return bool(gone)


def reapply(netdev: str) -> Planned:
    """Put the owned class of one interface back, under the node's change lock; the plan says what had drifted."""
    have = owned()
    if netdev not in have:
        raise Refused("KV-ROCE-007", "%s is not owned (%s)" % (netdev, CLASS))
    with locked(CHANGE_LOCK):
        planned = plan(have[netdev])
        carry_out([planned])
    return planned
