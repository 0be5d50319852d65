"""Clean fleets with other NICs than ConnectX: Intel E810 and Broadcom Thor2."""

from dataclasses import replace

from kvctl.fleet.inventory.model import Inventory
from kvctl.types.facts import Nic, known, unknown

from . import fleet as f


def without_parts(inv: Inventory) -> Inventory:
    inv = f.unpinned(inv)
    return f.role(inv, "storage", nic=inv.roles["storage"].nic.model_copy(update={"part_numbers": ()}))


def all_nics(facts: f.Facts, change) -> f.Facts:  # type: ignore[no-untyped-def]
    return {name: replace(n, nics=(change(n.nics[0]), *n.nics[1:])) for name, n in facts.items()}


def e810_inventory() -> Inventory:
    """Priority 4 (DSCP 32): one that an E810 can reach."""
    return f.fabric(without_parts(f.inventory()), lossless_priority=4, dscp=32)


def as_e810(nic: Nic) -> Nic:
    classes = {**dict.fromkeys(range(8), 0), 4: 1, 6: 2}
    return replace(
        nic,
        driver=known("ice", "sysfs"),
        vendor_id=known("8086", "sysfs"),
        device_id=known("1592", "sysfs"),
        psid=unknown("not an NVIDIA card"),
        fw_components=known({"fw.mgmt": "7.3.4", "fw.mgmt.api": "1.7", "fw.app": "1.3.35.0"}, "devlink"),
        nvconfig=unknown("not an NVIDIA card"),
        priv_flags=known({"fw-lldp-agent": False}, "ethtool --show-priv-flags"),
        qos=replace(
            nic.qos,
            pfc=known(frozenset({4}), "dcb"),
            peer_pfc=known(frozenset({4}), "lldp"),
            prio_tc=known(classes, "dcb"),
            tsa=known({0: "ets", 1: "ets", 2: "strict"}, "dcb"),
            tc_bw=known({0: 50, 1: 50, 2: 0}, "dcb"),
            prio_buffer=known(classes, "dcb"),
            buffer_size=known({0: 70000, 1: 70000, 2: 70000}, "dcb"),
        ),
        rdma=replace(nic.rdma, cm_tos=known(130, "configfs"), tclass=known(130, "sysfs")),
    )


def e810() -> f.Facts:
    return all_nics(f.clean(), as_e810)


def bnxt_inventory() -> Inventory:
    return without_parts(f.inventory())


def as_bnxt(nic: Nic) -> Nic:
    """Thor2 sends CNPs on priority 7, whatever the site's number is."""
    return replace(
        nic,
        driver=known("bnxt_en", "sysfs"),
        vendor_id=known("14e4", "sysfs"),
        device_id=known("1760", "sysfs"),
        psid=unknown("not an NVIDIA card"),
        fw_running=known("237.1.137.0", "devlink"),
        fw_stored=known("237.1.137.0", "devlink"),
        nvconfig=unknown("not an NVIDIA card"),
        qos=replace(nic.qos, dscp_prio=known({**{d: d >> 3 for d in range(64)}, 48: 7}, "niccli")),
        ecn=replace(nic.ecn, cnp_prio=known(7, "configfs")),
    )


def bnxt() -> f.Facts:
    return all_nics(f.clean(), as_bnxt)
