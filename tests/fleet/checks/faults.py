"""One planted fault for each check: what is changed in a clean fleet, and the only check that may report it."""

from dataclasses import dataclass, field, replace
from typing import Any

from kvctl.fleet.checks.readings import Certificate
from kvctl.fleet.inventory.model import DriveLayout, DrivePolicy, Inventory
from kvctl.types.facts import Contents, Gid, NvConfig, Pause, Service, Smart, known, unknown

from . import fleet as f
from . import vendors


@dataclass
class Fault:
    name: str
    check: str
    facts: f.Facts
    node: str = "storage2"
    inv: Inventory = field(default_factory=f.inventory)
    kwargs: dict[str, Any] = field(default_factory=dict)


def planted(name: str, check: str, *changes: tuple[str, Any], node: str = "storage2", **more: Any) -> Fault:
    facts = more.pop("facts", None) or f.clean()
    for path, value in changes:
        facts = f.with_fact(facts, node, path, value)
    return Fault(name, check, facts, node, more.pop("inv", None) or f.inventory(), more)


def without(facts: f.Facts, node: str, **fields: Any) -> f.Facts:
    return {**facts, node: replace(facts[node], **fields)}


def on(*priorities: int) -> frozenset[int]:
    return frozenset(priorities)


FLAT = {d: d >> 3 for d in range(64)}
XFS = f.role(f.inventory(), "storage", drives=DrivePolicy(layout=DriveLayout.XFS, count=2))


def xfs_facts() -> f.Facts:
    """Every cache drive carries XFS, mounted by its serial."""

    def mounted(d):  # type: ignore[no-untyped-def]
        contents = Contents(fstype="xfs", uuid="u", mounts=(f"/srv/kvctl/{d.serial.value}",))
        return replace(d, namespaces=(replace(d.namespaces[0], contents=known(contents, "lsblk")),))

    return {name: replace(n, drives=tuple(mounted(d) for d in n.drives)) for name, n in f.clean().items()}


NV = f.nic(3).nvconfig.value or {}
NV_POLICY = f.role(f.inventory(), "storage", nic=f.inventory().roles["storage"].nic.model_copy(
    update={"nvconfig": {"LINK_TYPE_P1": "ETH(2)", "CNP_DSCP_P1": "46"}}))  # fmt: skip
COUNTERS = f.nic(3).counters.value or {}
PORT = f.NETDEV
SPARE = f.clean()["storage2"].drives
PROBES = f.probes()
TIMER_OFF = {
    "kvnoded.service": Service("active", "running", "enabled"),
    "fstrim.timer": Service("inactive", "dead", "disabled"),
}
NODED_OFF = {
    "kvnoded.service": Service("failed", "failed", "enabled"),
    "fstrim.timer": Service("active", "waiting", "enabled"),
}

FAULTS = (
    planted("other generation", "nic.generation", ("nic.device_id", "1021"), ("nic.part_number", "MCX75310AAS-NEAT"),
            ("nic.psid", "MT_0000000838"), ("nic.fw_running", "28.43.1014"), ("nic.fw_stored", "28.43.1014")),
    planted("part not allowed", "nic.part", ("nic.part_number", "MCX623105AN-CDAT"), ("nic.psid", "MT_0000000436")),
    planted("OEM PSID", "nic.psid", ("nic.psid", "LNV0000000041"), ("nic.fw_running", f.OLD), ("nic.fw_stored", f.OLD)),
    planted("older firmware running and stored", "nic.fw.running", ("nic.fw_running", f.OLD), ("nic.fw_stored", f.OLD)),
    planted("new firmware stored, old runs", "nic.fw.pending", ("nic.fw_running", f.OLD)),
    planted("old firmware stored, new runs", "nic.fw.pending", ("nic.fw_stored", f.OLD)),
    planted("rail gone", "nic.count", facts=without(f.clean(), "storage2", nics=f.clean()["storage2"].nics[1:])),
    planted("InfiniBand after the next boot", "nv.linktype",
            ("nic.nvconfig", {**NV, "LINK_TYPE_P1": NvConfig("IB(1)", "ETH(2)", "IB(1)")})),
    planted("congestion control mask", "nv.rocecc",
            ("nic.nvconfig", {**NV, "ROCE_CC_PRIO_MASK_P1": NvConfig("255", "4", "4")})),
    planted("CNP DSCP in NV", "nv.cnp",
            ("nic.nvconfig", {**NV, "CNP_DSCP_P1": NvConfig("48", "4", "4")})),
    planted("NV policy", "nv.policy", inv=NV_POLICY, facts=f.clean()),
    planted("trust pcp", "qos.trust", ("nic.qos.trust", "pcp"), ("nic.qos.dscp_prio", unknown("trust is pcp"))),
    planted("DSCP 26 unmapped", "qos.dscpmap", ("nic.qos.dscp_prio", {**FLAT, 26: 0})),
    planted("CNP DSCP mapped to 0", "qos.dscpmap", ("nic.qos.dscp_prio", {**FLAT, 48: 0})),
    planted("PFC off", "qos.pfc.host", ("nic.qos.pfc", on()),
            ("nic.qos.prio_buffer", dict.fromkeys(range(8), 0)), ("nic.qos.buffer_size", {0: 262016})),
    planted("PFC on another priority", "qos.pfc.host", ("nic.qos.pfc", on(4))),
    planted("two lossless priorities", "qos.pfc.host", ("nic.qos.pfc", on(3, 4))),
    planted("switch without PFC", "qos.pfc.peer", ("nic.qos.peer_pfc", on())),
    planted("firmware negotiates", "qos.dcbx", ("nic.qos.dcbx", "firmware")),
    planted("willing", "qos.dcbx", ("nic.qos.willing", True)),
    planted("global pause", "qos.pause", ("nic.pause", Pause(True, False))),
    planted("896 bytes of buffer", "qos.buffer", ("nic.qos.prio_buffer", {**dict.fromkeys(range(8), 0), 3: 7}),
            ("nic.qos.buffer_size", {0: 261120, 7: 896})),
    planted("shared buffer", "qos.buffer", ("nic.qos.prio_buffer", dict.fromkeys(range(8), 0))),
    planted("cable length", "qos.buffer", ("nic.qos.cable_len", 5)),
    planted("no share", "qos.ets", ("nic.qos.tc_bw", {**dict.fromkeys(range(8), 0), 0: 90, 3: 10})),
    planted("NP off", "ecn.np", ("nic.ecn.np", {**dict.fromkeys(range(8), True), 3: False})),
    planted("RP off", "ecn.rp", ("nic.ecn.rp", {**dict.fromkeys(range(8), True), 3: False})),
    planted("CNP priority", "ecn.cnp", ("nic.ecn.cnp_prio", 0)),
    planted("CM ToS 0", "cm.tos", ("nic.rdma.cm_tos", 0)),
    planted("CM RoCE v1", "cm.mode", ("nic.rdma.cm_mode", "RoCE v1")),
    planted("traffic class", "tc.sysfs", ("nic.rdma.tclass", 0)),
    planted("MTU 1500", "net.mtu", ("nic.mtu", 1500), ("nic.rdma.active_mtu", 1024)),
    planted("MTU 1500 on the GPU node", "net.mtu", ("nic.mtu", 1500), ("nic.rdma.active_mtu", 1024), node="gpu1"),
    planted("RDMA MTU 1024", "net.mtu.rdma", ("nic.rdma.active_mtu", 1024)),
    planted("address of another subnet", "net.address", ("nic.addresses", ("10.79.0.3/16",)),
            ("nic.rdma.gids", (Gid(1, "fe80::1", "RoCE v2", PORT),))),
    planted("link-local GIDs only", "net.gid", ("nic.rdma.gids", (Gid(1, "fe80::1", "RoCE v2", PORT),))),
    planted("link down", "link.state", ("nic.operstate", "down"), ("nic.carrier", unknown("EINVAL")),
            ("nic.speed", unknown("EINVAL")), ("nic.rdma.state", "DOWN"), ("nic.rdma.phys_state", "Disabled"),
            ("nic.rdma.active_mtu", 1024), ("nic.rdma.gids", ())),
    planted("100G", "link.speed", ("nic.speed", 100000)),
    planted("x8", "pcie.width", ("nic.pcie.current_width", 8)),
    planted("GPU at x8", "pcie.gpu", ("gpu.pcie.current_width", 8), node="gpu1"),
    planted("ACS", "acs.redirect", ("host.acs_redirect", ("0000:40:01.0",)), node="gpu1"),
    planted("GPU gone", "gpu.count", facts=without(f.clean(), "gpu1", gpus=()), node="gpu1"),
    planted("no GPUDirect", "gdr", ("host.peermem_registered", False), node="gpu1"),
    planted("wrong model", "nvme.model", ("drive.model", "KV8 1.92TB"), ("ns.size", 1920383410176)),
    planted("drive firmware", "nvme.firmware", ("drive.firmware", "0.9.1")),
    planted("drive missing", "nvme.count", facts=without(f.clean(), "storage2", drives=SPARE[1:])),
    planted("all drives missing", "nvme.count", facts=without(f.clean(), "storage2", drives=())),
    planted("512-byte LBA", "nvme.lba", ("ns.lba", 512)),
    planted("metadata", "nvme.lba", ("ns.metadata", 8)),
    planted("two namespaces", "nvme.ns", facts=without(f.clean(), "storage2", drives=(
            replace(SPARE[0], namespaces=(*SPARE[0].namespaces, replace(SPARE[0].namespaces[0], name="nvme0n2",
            wwid=known("eui.77", "sysfs")))), SPARE[1]))),
    planted("no namespace", "nvme.ns",
            facts=without(f.clean(), "storage2", drives=(replace(SPARE[0], namespaces=()), SPARE[1]))),
    planted("small namespace", "nvme.ns", ("ns.size", 153600000000)),
    planted("media errors", "nvme.wear", ("drive.smart", Smart(0, 3, 100, 10, 12, 38))),
    planted("read only", "nvme.wear", ("drive.smart", Smart(0b1000, 3, 100, 10, 0, 38))),
    planted("drive at x2", "nvme.link", ("drive.pcie.current_width", 2)),
    planted("serial of another drive", "nvme.id", ("drive.serial", "KV3D1")),
    planted("zero identifier", "nvme.id", ("ns.wwid", "eui.0000000000000000")),
    planted("scheduler", "nvme.queue", ("ns.scheduler", "mq-deadline")),
    planted("dead drive", "nvme.state", ("drive.state", "dead"), ("drive.smart", unknown("EIO")),
            ("drive.pcie.current_width", unknown("ENODEV")), ("ns.size", 0)),
    planted("resync", "md.sync", ("host.md_arrays", {"md0": "resync"})),
    planted("fstrim timer off", "fs.discard", ("host.services", TIMER_OFF), inv=XFS, facts=xfs_facts()),
    planted("not mounted", "fs.layout", ("ns.contents", Contents(fstype="xfs", uuid="u")), inv=XFS, facts=xfs_facts()),
    planted("somebody's data on a raw drive", "fs.layout", ("ns.contents", Contents(fstype="ext4", mounts=("/home",)))),
    planted("lab host", "host.lab", facts=without(f.clean(), "storage2", lab=True)),
    planted("old system", "host.os", ("host.os_version", "11")),
    planted("clock", "host.clock", ("host.clock_offset", -4.0)),
    planted("sysctl", "host.sysctl", ("host.sysctls", {"net.ipv4.tcp_mtu_probing": "0"})),
    planted("kvnoded failed", "node.kvnoded", ("host.services", NODED_OFF)),
    planted("discards grow", "cnt.lossless", ("nic.counters", {**COUNTERS, "rx_prio3_discards": 9}),
            facts=f.later(f.clean()), previous=f.clean()),
    planted("sequence errors grow", "cnt.lossless", ("nic.rdma.hw_counters", {**(f.rdma(3).hw_counters.value or {}),
            "out_of_sequence": 8}), facts=f.later(f.clean()), previous=f.clean()),
    planted("paused for a minute", "cnt.pause", ("nic.counters", {**COUNTERS, "rx_prio3_pause": 99,
            "rx_prio3_pause_duration": 60_000_020}), facts=f.later(f.clean()), previous=f.clean()),
    planted("pause storm", "cnt.pause", ("nic.counters", {**COUNTERS, "tx_pause_storm_error_events": 1}),
            facts=f.later(f.clean()), previous=f.clean()),
    planted("flap", "link.flaps", ("nic.carrier_changes", 4), facts=f.later(f.clean()), previous=f.clean()),
    planted("marked traffic on priority 0", "cnt.class", node="storage2", probes=(*PROBES[:2],
            replace(PROBES[2], received=known({0: 1000, 3: 10}, "ethtool -S")), PROBES[3])),
    planted("13 Gb/s on a healthy link", "probe.bw", node="storage2", probes=(*PROBES[:2],
            replace(PROBES[2], gbits=known(13.0, "ib_write_bw")), PROBES[3])),
    planted("a certificate that ends", "tls.ends",
            certificates=(Certificate("storage2", "store", "storage2", f.TODAY),)),
    planted("SONiC port without PFC", "sw.sonic", switches=f.switches("sonic", pfc=known(on(4), "show pfc priority")),
            node="leaf1", facts=f.clean()),
    planted("Cumulus lossy", "sw.cumulus", switches=f.switches("cumulus", mode=known("lossy", "nv show")),
            node="leaf1", facts=f.clean()),
    planted("NX-OS auto", "sw.nxos", node="leaf1", facts=f.clean(),
            switches=f.switches("nxos", mode=known("auto", "show"), oper=known(False, "show"))),
    planted("EOS disabled", "sw.eos", switches=f.switches("eos", oper=known(False, "show")), node="leaf1",
            facts=f.clean()),
    planted("priority 3 on an E810", "intel.e810", node="storage2",
            inv=f.fabric(vendors.e810_inventory(), lossless_priority=3, dscp=26), facts=vendors.all_nics(
                vendors.e810(), lambda n: replace(n, qos=replace(f.qos(), prio_tc=known({**dict.fromkeys(range(8), 0),
                3: 1, 6: 2}, "dcb"), tsa=known({0: "ets", 1: "ets", 2: "strict"}, "dcb"),
                tc_bw=known({0: 50, 1: 50, 2: 0}, "dcb")), rdma=f.rdma(9)))),
    planted("LLDP agent in firmware", "intel.lldp", ("nic.priv_flags", {"fw-lldp-agent": True}),
            inv=vendors.e810_inventory(), facts=vendors.e810()),
    planted("other DDP package", "nic.fw.intel", ("nic.fw_components", {"fw.mgmt": "7.3.4", "fw.app": "1.3.30.0"}),
            inv=vendors.e810_inventory(), facts=vendors.e810()),
    planted("bad Broadcom branch", "nic.fw.bnxt", ("nic.fw_running", "231.2.63.0"), ("nic.fw_stored", "231.2.63.0"),
            inv=vendors.bnxt_inventory(), facts=vendors.bnxt()),
)  # fmt: skip

# These compare two ends; a check of one end that knows the right value always explains the difference.
EXPLAINED = {"net.mtu.peer", "qos.class.peer"}
# Without a speed in the inventory only the comparison is left.
UNSTATED = planted("slower than its peers", "link.speed.peer", ("nic.speed", 100000), inv=f.role(f.role(
    f.inventory(), "storage", rails=()), "gpu", rails=()))  # fmt: skip
ALL = (*FAULTS, UNSTATED)
