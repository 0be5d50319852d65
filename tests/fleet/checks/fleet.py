"""A fleet in which nothing is wrong, and ways to make exactly one thing wrong."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from typing import Any

from kvctl.fleet.checks.readings import ProbeResult, SwitchPort
from kvctl.fleet.checks.run import run_checks
from kvctl.fleet.inventory.model import Inventory
from kvctl.types.facts import (
    Contents,
    Drive,
    Ecn,
    Fact,
    Gid,
    Gpu,
    HostFacts,
    LbaFormat,
    Namespace,
    Nic,
    NodeFacts,
    NvConfig,
    Pause,
    PcieLink,
    Qos,
    RdmaPort,
    Service,
    Smart,
    known,
)  # fmt: skip
from kvctl.types.findings import Finding, Verdict

TODAY = date(2026, 1, 15)
NETDEV = "enp65s0f0np0"
PSID = "MT_0000000359"
FIRMWARE = "22.43.1014"
OLD = "22.39.1002"
NODES = ("gpu1", "storage1", "storage2", "storage3")
Facts = dict[str, NodeFacts]
COUNTERS = {
    "rx_prio3_discards": 0,
    "rx_discards_phy": 4,
    "rx_prio3_pause": 10,
    "tx_prio3_pause": 0,
    "rx_prio3_pause_duration": 20,
    "tx_prio3_pause_duration": 0,
    "tx_pause_storm_error_events": 0,
}


def inventory(**changes: Any) -> Inventory:
    """One GPU node and three storage nodes on one rail; `changes` replace top-level sections, `fabric` is merged."""
    rail = {"interface": NETDEV, "subnet": "10.78.0.0/16", "speed": 200000}
    pins = {PSID: {"version": FIRMWARE}}
    document: dict[str, Any] = {
        "site": {"name": "test"},
        "roles": {
            "gpu": {"kind": "gpu", "gpus": 1, "rails": (rail,), "nic": {"firmware": pins, "count": 1}},
            "storage": {
                "kind": "storage",
                "rails": (rail,),
                "nic": {"firmware": pins, "count": 1, "part_numbers": ("MCX623106AN-CDAT",)},
                "drives": {"model": "KV9 3.84TB", "count": 2, "firmware": "1.0.4"},
                "sysctls": {"net.ipv4.tcp_mtu_probing": "1"},
            },
        },
        "nodes": tuple({"name": n, "address": n, "role": n.rstrip("0123456789")} for n in NODES),
    }
    document.update(changes)
    return Inventory.model_validate(document)


def role(inv: Inventory, name: str, **changes: Any) -> Inventory:
    """The inventory with fields of one role replaced by validated models or plain values."""
    return inv.model_copy(update={"roles": {**inv.roles, name: inv.roles[name].model_copy(update=changes)}})


def fabric(inv: Inventory, **changes: Any) -> Inventory:
    return inv.model_copy(update={"fabric": inv.fabric.model_copy(update=changes)})


def unpinned(inv: Inventory) -> Inventory:
    for name, r in inv.roles.items():
        inv = role(inv, name, nic=r.nic.model_copy(update={"firmware": {}}))
    return inv


def full_link(speed: float, width: int) -> PcieLink:
    return PcieLink(known(speed, "sysfs"), known(speed, "sysfs"), known(width, "sysfs"), known(width, "sysfs"))


def qos() -> Qos:
    source = f"mlnx_qos -i {NETDEV}"
    return Qos(
        trust=known("dscp", source),
        pfc=known(frozenset({3}), source),
        dscp_prio=known({d: d >> 3 for d in range(64)}, source),
        prio_tc=known({p: p for p in range(8)}, source),
        tsa=known({**dict.fromkeys(range(8), "ets"), 6: "strict"}, source),
        tc_bw=known({**dict.fromkeys(range(8), 0), 0: 50, 3: 50}, source),
        prio_buffer=known({**dict.fromkeys(range(8), 0), 3: 1}, source),
        buffer_size=known({0: 131072, 1: 131072}, source),
        cable_len=known(7, source),
        dcbx=known("os", source),
        willing=known(False, source),
        peer_pfc=known(frozenset({3}), "lldp"),
    )


def rdma(index: int) -> RdmaPort:
    return RdmaPort(
        device=known("mlx5_0", "sysfs"),
        hca_type=known("MT4125", "sysfs"),
        state=known("ACTIVE", "sysfs"),
        phys_state=known("LinkUp", "sysfs"),
        link_layer=known("Ethernet", "sysfs"),
        rate=known(200.0, "sysfs"),
        active_mtu=known(4096, "ibv_devinfo"),
        gids=known(
            (
                Gid(0, "fe80::1", "RoCE v1", NETDEV),
                Gid(1, "fe80::1", "RoCE v2", NETDEV),
                Gid(3, f"::ffff:10.78.0.{index}", "RoCE v2", NETDEV),
            ),
            "sysfs",
        ),
        tclass=known(106, "sysfs"),
        cm_tos=known(106, "configfs"),
        cm_mode=known("RoCE v2", "configfs"),
        hw_counters=known({"out_of_sequence": 7, "packet_seq_err": 0, "local_ack_timeout_err": 0}, "sysfs"),
    )


def nic(index: int) -> Nic:
    return Nic(
        netdev=NETDEV,
        pci=known("0000:41:00.0", "sysfs"),
        driver=known("mlx5_core", "sysfs"),
        mac=known(f"02:00:00:00:00:{index:02x}", "sysfs"),
        vendor_id=known("15b3", "sysfs"),
        device_id=known("101d", "sysfs"),
        part_number=known("MCX623106AN-CDAT", "vpd"),
        serial=known(f"MT2{index}", "vpd"),
        psid=known(PSID, "devlink"),
        fw_running=known(FIRMWARE, "devlink"),
        fw_stored=known(FIRMWARE, "devlink"),
        fw_components=known({"fw": FIRMWARE}, "devlink"),
        virtual_function=known(False, "sysfs"),
        pcie=full_link(16.0, 16),
        mtu=known(9000, "sysfs"),
        operstate=known("up", "sysfs"),
        carrier=known(True, "sysfs"),
        carrier_changes=known(2, "sysfs"),
        speed=known(200000, "sysfs"),
        addresses=known((f"10.78.0.{index}/16",), "netlink"),
        carries_ssh=known(False, "netlink"),
        pause=known(Pause(False, False), "ethtool -a"),
        priv_flags=known({}, "ethtool"),
        counters=known(COUNTERS, "ethtool -S"),
        nvconfig=known(
            {
                "LINK_TYPE_P1": NvConfig("ETH(2)", "ETH(2)", "ETH(2)"),
                "ROCE_CC_PRIO_MASK_P1": NvConfig("255", "255", "255"),
                "CNP_DSCP_P1": NvConfig("48", "48", "48"),
                "CNP_802P_PRIO_P1": NvConfig("6", "6", "6"),
            },
            "mlxconfig",
        ),
        qos=qos(),
        ecn=Ecn(
            known(dict.fromkeys(range(8), True), "sysfs"),
            known(dict.fromkeys(range(8), True), "sysfs"),
            known(48, "sysfs"),
            known(6, "sysfs"),
        ),
        rdma=rdma(index),
    )


def drive(node: int, number: int) -> Drive:
    serial = f"KV{node}D{number}"
    formats = (LbaFormat(0, 512, 0, "Good", False), LbaFormat(1, 4096, 0, "Best", True))
    return Drive(
        controller=f"nvme{number}",
        serial=known(serial, "sysfs"),
        model=known("KV9 3.84TB", "sysfs"),
        firmware=known("1.0.4", "sysfs"),
        pci=known(f"0000:0{number}:00.0", "sysfs"),
        transport=known("pcie", "sysfs"),
        state=known("live", "sysfs"),
        pcie=full_link(16.0, 4),
        format_supported=known(True, "nvme id-ctrl"),
        capacity=known(3840755982336, "nvme id-ctrl"),
        smart=known(Smart(0, 3, 100, 10, 0, 38), "nvme smart-log"),
        namespaces=(
            Namespace(
                name=f"nvme{number}n1",
                nsid=known(1, "sysfs"),
                wwid=known(f"eui.00{node:07d}{number:07d}", "sysfs"),
                size=known(3840755982336, "sysfs"),
                lba=known(4096, "sysfs"),
                metadata=known(0, "sysfs"),
                formats=known(formats, "nvme id-ns"),
                scheduler=known("none", "sysfs"),
                rotational=known(False, "sysfs"),
                contents=known(Contents(), "lsblk"),
            ),
        ),
    )


def host(index: int) -> HostFacts:
    return HostFacts(
        hostname=known(NODES[index - 1], "uname"),
        os_id=known("debian", "os-release"),
        os_version=known("13", "os-release"),
        boot_id=known(f"boot-{index}", "proc"),
        clock_offset=known(0.02, "controller"),
        peermem_registered=known(True, "sysfs"),
        dmabuf=known(False, "sysfs"),
        acs_redirect=known((), "lspci"),
        sysctls=known({"net.ipv4.tcp_mtu_probing": "1"}, "proc"),
        services=known(
            {
                "kvnoded.service": Service("active", "running", "enabled"),
                "fstrim.timer": Service("active", "waiting", "enabled"),
            },
            "systemctl",
        ),
        md_arrays=known({"md0": "idle"}, "sysfs"),
    )


def node(index: int) -> NodeFacts:
    name = NODES[index - 1]
    gpus = (Gpu(f"GPU-{index}", pcie=full_link(32.0, 16), busy=known(False, "nvidia-smi")),)
    return NodeFacts(
        node=name,
        at="2026-01-15T10:00:00Z",
        lab=False,
        host=host(index),
        nics=(nic(index), Nic("eno1", virtual_function=known(False, "sysfs"), mtu=known(1500, "sysfs"))),
        drives=() if name == "gpu1" else (drive(index, 0), drive(index, 1)),
        gpus=gpus if name == "gpu1" else (),
    )


def clean() -> Facts:
    return {name: node(i + 1) for i, name in enumerate(NODES)}


def later(facts: Facts) -> Facts:
    """The same fleet, read again ten minutes later."""
    return {name: replace(f, at="2026-01-15T10:10:00Z") for name, f in facts.items()}


def probes() -> tuple[ProbeResult, ...]:
    """Each port sends to its neighbour at line rate, marked."""
    pairs = zip(NODES, NODES[1:] + NODES[:1], strict=True)
    moved = known({0: 10, 3: 1000}, "ethtool -S")
    return tuple(ProbeResult(a, NETDEV, b, NETDEV, 1000, known(192.5, "ib_write_bw"), moved, moved) for a, b in pairs)


def switches(os: str = "sonic", **changes: Fact[Any]) -> dict[str, tuple[SwitchPort, ...]]:
    mode = {"nxos": "on", "cumulus": "lossless"}.get(os, "")
    port = SwitchPort(
        os=os,
        port="Ethernet0",
        node="gpu1",
        netdev=NETDEV,
        pfc=known(frozenset({3}), "show pfc priority"),
        mode=known(mode, "show"),
        oper=known(True, "show"),
        watchdog=known(True, "show pfcwd config"),
        storm=known(False, "show pfcwd stats"),
    )
    return {"leaf1": (replace(port, **changes),)}


def put(value: Any, path: Iterable[str], change: Callable[[Any], Any]) -> Any:
    """The frozen value with the field at `path` changed; on a tuple, in its first element."""
    first, *rest = path
    if isinstance(value, tuple):
        return (put(value[0], [first, *rest], change), *value[1:])
    inner = getattr(value, first)
    return replace(value, **{first: put(inner, rest, change) if rest else change(inner)})


ROOTS = {"nic": ("nics",), "drive": ("drives",), "ns": ("drives", "namespaces"), "gpu": ("gpus",), "host": ("host",)}


def with_fact(facts: Facts, name: str, path: str, value: Any) -> Facts:
    """The facts with one value changed: `path` as checks name it, such as nic.qos.pfc or ns.lba (the first of them).

    A plain value becomes a known fact; a Fact stays as it is.
    """
    root, _, rest = path.partition(".")
    new = value if isinstance(value, Fact) else known(value, "changed")
    return {**facts, name: put(facts[name], [*ROOTS[root], *rest.split(".")], lambda old: new)}


def run(inv: Inventory | None = None, facts: Facts | None = None, **kwargs: Any) -> tuple[Finding, ...]:
    return run_checks(inv or inventory(), clean() if facts is None else facts, today=TODAY, **kwargs)


def bad(findings: Iterable[Finding]) -> set[tuple[str, str]]:
    """(check, node) of everything that alone makes exit code 3."""
    return {(f.check, f.node) for f in findings if f.bad}


def of(findings: Iterable[Finding], check: str, node: str = "storage2") -> Finding:
    """The one finding of a check on a node (its first rail or first drive)."""
    mine = [f for f in findings if f.check == check and f.node == node]
    firsts = [f for f in mine if f.subject in ("", NETDEV, "KV3D0", "GPU-1")] or mine
    assert firsts, f"no finding of {check} on {node}"
    return firsts[0]


def verdict(findings: Iterable[Finding], check: str, node: str = "storage2") -> Verdict:
    return of(findings, check, node).verdict
