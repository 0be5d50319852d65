"""The desired state of one node in the arguments of the roles. Pure; the only reader of policy for changes."""

from collections.abc import Mapping
from typing import Any

from kvctl import __version__
from kvctl.fleet.inventory.model import DrivePolicy, Fabric, Inventory, Node, Role
from kvctl.types.facts import Drive, Nic, NodeFacts

ECN_CAPABLE = 0b10  # RFC 3168 ECT(0), the low bits of the ToS byte


def intent(
    inventory: Inventory, node: Node, facts: NodeFacts, *, may_destroy: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Role name -> arguments for `node`, in the order in which roles run.

    `may_destroy` are serials whose contents the operator gave up by name. A drive on which nothing was
    recognised may be formatted without; a drive whose contents are unknown may not.
    """
    role = inventory.role_of(node)
    wanted: dict[str, Any] = {"host": host_args(role)}
    nics = fabric_nics(role, facts)
    firmware = [f for f in (firmware_args(nic, role) for nic in nics) if f]
    if firmware:
        wanted["nic_firmware"] = {"devices": firmware}
    interfaces = [interface_args(nic, inventory.fabric) for nic in nics]
    if interfaces:
        wanted["roce"] = {"interfaces": interfaces}
    if role.drives is not None:
        drives = [drive_args(d, role.drives, may_destroy) for d in cache_drives(role.drives, facts)]
        if drives:
            wanted["nvme"] = {"drives": drives}
    wanted["node"] = {"interfaces": interfaces, "version": __version__}
    return wanted


def host_args(role: Role) -> dict[str, Any]:
    fstrim = None if role.drives is None else role.drives.discard == "fstrim"
    return {"sysctls": dict(role.sysctls), "modules": [], "fstrim_timer": fstrim}


def fabric_nics(role: Role, facts: NodeFacts) -> list[Nic]:
    """The role's rails; without rails, every physical NIC with an Ethernet RDMA port."""
    if role.rails:
        return [nic for rail in role.rails if (nic := facts.nic(rail.interface))]
    return [
        nic for nic in facts.nics if not nic.virtual_function.or_none() and nic.rdma.link_layer.or_none() == "Ethernet"
    ]


def firmware_args(nic: Nic, role: Role) -> dict[str, Any] | None:
    psid = nic.psid.or_none()
    pin = role.nic.firmware.get(psid) if psid else None
    if pin is None or not nic.pci.known:
        return None
    return {
        "netdev": nic.netdev,
        "pci": nic.pci.value,
        "psid": psid,
        "version": pin.version,
        "image": pin.image,
        "sha256": pin.sha256,
    }


def interface_args(nic: Nic, fabric: Fabric) -> dict[str, Any]:
    priority, cnp = fabric.lossless_priority, fabric.cnp_priority
    return {
        "netdev": nic.netdev,
        "pci": nic.pci.or_none() or "",
        "rdma": nic.rdma.device.or_none() or "",
        "mtu": fabric.mtu,
        "priority": priority,
        "dscp": fabric.dscp,
        "trust": fabric.trust,
        "dscp_prio": {str(fabric.dscp): priority, str(fabric.cnp_dscp): cnp},
        "pfc": [priority],
        "dcbx": "os" if fabric.dcbx == "os" else "any",
        "ets": ets_args(fabric),
        "prio_buffer": {str(p): int(p == priority) for p in range(8)},
        "buffer_min": fabric.buffer_min,
        "cable_length": fabric.cable_length,
        "pause": False,
        "ecn": {"dcqcn": True, "off": False}.get(fabric.ecn),
        "cnp_dscp": fabric.cnp_dscp,
        "cnp_priority": cnp,
        "cm_tos": fabric.dscp << 2 | ECN_CAPABLE,
        "tclass": fabric.dscp << 2 | ECN_CAPABLE,
    }


def ets_args(fabric: Fabric) -> dict[str, Any]:
    """One traffic class a priority; the lossless one has its share, class 0 the rest, strict ones none."""
    strict = set(fabric.ets.strict) - {fabric.lossless_priority}
    rest = min(set(range(8)) - strict - {fabric.lossless_priority})
    shares = {fabric.lossless_priority: fabric.ets.lossless, rest: 100 - fabric.ets.lossless}
    return {
        "tsa": {str(tc): "strict" if tc in strict else "ets" for tc in range(8)},
        "bw": {str(tc): shares.get(tc, 0) for tc in range(8)},
        "prio_tc": {str(p): p for p in range(8)},
    }


def cache_drives(policy: DrivePolicy, facts: NodeFacts) -> list[Drive]:
    """The local NVMe drives that are kvctl's, by serial. A drive without a readable serial is nobody's."""
    chosen = []
    for drive in facts.drives:
        serial = drive.serial.or_none()
        if not serial or serial in policy.exclude_serials:
            continue
        if policy.serials and serial not in policy.serials:
            continue
        chosen.append(drive)
    return chosen


def drive_args(drive: Drive, policy: DrivePolicy, may_destroy: frozenset[str]) -> dict[str, Any]:
    serial = drive.serial.value or ""
    allowed = serial in may_destroy or is_blank(drive)
    mount = f"{policy.mount_root}/{serial}" if policy.layout != "raw" else ""
    return {
        "serial": serial,
        "pci": drive.pci.or_none() or "",
        "lba": policy.lba,
        "layout": str(policy.layout),
        "mount": mount,
        "discard": policy.discard,
        "may_format": allowed,
        "may_mkfs": allowed,
    }


def is_blank(drive: Drive) -> bool:
    """True only when every namespace was read and nothing was recognised on it."""
    return bool(drive.namespaces) and all(
        ns.contents.known and ns.contents.value is not None and ns.contents.value.empty for ns in drive.namespaces
    )


def limited(args: Mapping[str, Any], subjects: set[str]) -> dict[str, Any]:
    """The same arguments for the named devices only; arguments without devices are returned whole."""
    keys = {"devices": "netdev", "interfaces": "netdev", "drives": "serial"}
    out = dict(args)
    for field, key in keys.items():
        if field in out:
            out[field] = [item for item in out[field] if item[key] in subjects]
    return out
