"""What was observed on a node. Every value says where it came from, or why it is not known.

These types hold no rule about what is right: that is `fleet.checks`. Units are in the field's comment.
"""

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")
NOT_LOOKED_FOR = "the probe did not look for it"


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One observed value with its source, or the reason it is unknown. Never a zero for "did not answer"."""

    value: T | None
    source: str = ""  # a path, an argv, or a netlink request
    unknown: str = ""  # why there is no value; empty exactly when `value` is one
    simulated: bool = False

    @property
    def known(self) -> bool:
        return not self.unknown

    def or_none(self) -> T | None:
        return self.value if self.known else None


def known(value: T, source: str, *, simulated: bool = False) -> Fact[T]:
    return Fact(value, source, "", simulated)


def unknown(why: str, source: str = "") -> Fact[Any]:
    """An unknown value. `why` is a clause that can follow "unknown, because "."""
    return Fact(None, source, why or "no reason was recorded")


def absent() -> Fact[Any]:
    return unknown(NOT_LOOKED_FOR)


@dataclass(frozen=True, slots=True)
class PcieLink:
    """Speeds in GT/s (2.5, 5, 8, 16, 32, 64); widths in lanes."""

    current_speed: Fact[float] = field(default_factory=absent)
    max_speed: Fact[float] = field(default_factory=absent)
    current_width: Fact[int] = field(default_factory=absent)
    max_width: Fact[int] = field(default_factory=absent)


@dataclass(frozen=True, slots=True)
class Pause:
    """IEEE 802.3x global pause; wrong on a link that runs priority flow control."""

    rx: bool
    tx: bool


@dataclass(frozen=True, slots=True)
class Qos:
    """Data Center Bridging state of one interface. Priorities are 0..7, DSCPs 0..63."""

    trust: Fact[str] = field(default_factory=absent)  # "dscp" | "pcp"
    pfc: Fact[frozenset[int]] = field(default_factory=absent)  # lossless priorities
    dscp_prio: Fact[dict[int, int]] = field(default_factory=absent)
    prio_tc: Fact[dict[int, int]] = field(default_factory=absent)
    tsa: Fact[dict[int, str]] = field(default_factory=absent)  # by traffic class: "ets" | "strict" | "vendor"
    tc_bw: Fact[dict[int, int]] = field(default_factory=absent)  # percent by traffic class
    prio_buffer: Fact[dict[int, int]] = field(default_factory=absent)
    buffer_size: Fact[dict[int, int]] = field(default_factory=absent)  # bytes by buffer
    cable_len: Fact[int] = field(default_factory=absent)  # metres
    dcbx: Fact[str] = field(default_factory=absent)  # "os" | "firmware"
    willing: Fact[bool] = field(default_factory=absent)
    peer_pfc: Fact[frozenset[int]] = field(default_factory=absent)  # what LLDP says of the neighbour


@dataclass(frozen=True, slots=True)
class Ecn:
    """DCQCN: the notification point (np) and the reaction point (rp), by priority."""

    np: Fact[dict[int, bool]] = field(default_factory=absent)
    rp: Fact[dict[int, bool]] = field(default_factory=absent)
    cnp_dscp: Fact[int] = field(default_factory=absent)
    cnp_prio: Fact[int] = field(default_factory=absent)


@dataclass(frozen=True, slots=True)
class Gid:
    index: int
    gid: str  # canonical IPv6 text; ::ffff:a.b.c.d for IPv4
    type: str  # "RoCE v1" | "RoCE v2" | "IB"
    netdev: str


@dataclass(frozen=True, slots=True)
class RdmaPort:
    device: Fact[str] = field(default_factory=absent)  # mlx5_0
    port: int = 1
    hca_type: Fact[str] = field(default_factory=absent)
    state: Fact[str] = field(default_factory=absent)  # ACTIVE
    phys_state: Fact[str] = field(default_factory=absent)  # LinkUp
    link_layer: Fact[str] = field(default_factory=absent)  # Ethernet | InfiniBand
    rate: Fact[float] = field(default_factory=absent)  # Gb/s
    active_mtu: Fact[int] = field(default_factory=absent)  # bytes: 1024, 2048, 4096
    gids: Fact[tuple[Gid, ...]] = field(default_factory=absent)
    tclass: Fact[int] = field(default_factory=absent)  # tc/1/traffic_class, 0..255; "unset" is unknown
    cm_tos: Fact[int] = field(default_factory=absent)  # rdma_cm default ToS, 0..255
    cm_mode: Fact[str] = field(default_factory=absent)  # "RoCE v1" | "RoCE v2"
    node_guid: Fact[str] = field(default_factory=absent)
    sys_image_guid: Fact[str] = field(default_factory=absent)
    hw_counters: Fact[dict[str, int]] = field(default_factory=absent)


@dataclass(frozen=True, slots=True)
class NvConfig:
    """One non-volatile setting of a NIC: texts as mlxconfig prints them, such as "ETH(2)"."""

    default: str | None
    current: str | None
    next_boot: str


@dataclass(frozen=True, slots=True)
class Nic:
    """One physical network interface (a PCI function with a netdev)."""

    netdev: str
    pci: Fact[str] = field(default_factory=absent)  # dddd:bb:dd.f
    driver: Fact[str] = field(default_factory=absent)
    mac: Fact[str] = field(default_factory=absent)
    vendor_id: Fact[str] = field(default_factory=absent)  # "15b3"
    device_id: Fact[str] = field(default_factory=absent)  # "101d"
    part_number: Fact[str] = field(default_factory=absent)
    serial: Fact[str] = field(default_factory=absent)
    psid: Fact[str] = field(default_factory=absent)
    fw_running: Fact[str] = field(default_factory=absent)
    fw_stored: Fact[str] = field(default_factory=absent)
    fw_components: Fact[dict[str, str]] = field(default_factory=absent)  # devlink names, running
    virtual_function: Fact[bool] = field(default_factory=absent)
    numa: Fact[int] = field(default_factory=absent)
    pcie: PcieLink = field(default_factory=PcieLink)
    mtu: Fact[int] = field(default_factory=absent)
    operstate: Fact[str] = field(default_factory=absent)
    carrier: Fact[bool] = field(default_factory=absent)
    carrier_changes: Fact[int] = field(default_factory=absent)
    speed: Fact[int] = field(default_factory=absent)  # Mb/s
    addresses: Fact[tuple[str, ...]] = field(default_factory=absent)  # CIDR texts
    carries_ssh: Fact[bool] = field(default_factory=absent)
    pause: Fact[Pause] = field(default_factory=absent)
    fec: Fact[str] = field(default_factory=absent)
    priv_flags: Fact[dict[str, bool]] = field(default_factory=absent)
    counters: Fact[dict[str, int]] = field(default_factory=absent)  # ethtool -S
    nvconfig: Fact[dict[str, NvConfig]] = field(default_factory=absent)
    qos: Qos = field(default_factory=Qos)
    ecn: Ecn = field(default_factory=Ecn)
    rdma: RdmaPort = field(default_factory=RdmaPort)


@dataclass(frozen=True, slots=True)
class LbaFormat:
    index: int
    data_size: int  # bytes
    metadata: int  # bytes
    performance: str  # "Best" | "Better" | "Good" | "Degraded"
    in_use: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What a block device carries; anything here means a format would destroy somebody's data."""

    fstype: str = ""
    uuid: str = ""
    label: str = ""
    partitions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()  # md, dm, lvm devices on top
    mounts: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()  # blkid types: linux_raid_member, LVM2_member, gpt, dos ...

    @property
    def empty(self) -> bool:
        return self == Contents()


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str  # nvme0n1; never an identity
    nsid: Fact[int] = field(default_factory=absent)
    wwid: Fact[str] = field(default_factory=absent)
    size: Fact[int] = field(default_factory=absent)  # bytes
    lba: Fact[int] = field(default_factory=absent)  # bytes
    metadata: Fact[int] = field(default_factory=absent)  # bytes per block
    formats: Fact[tuple[LbaFormat, ...]] = field(default_factory=absent)
    scheduler: Fact[str] = field(default_factory=absent)
    rotational: Fact[bool] = field(default_factory=absent)
    write_cache: Fact[str] = field(default_factory=absent)
    io_timeout: Fact[int] = field(default_factory=absent)  # ms
    contents: Fact[Contents] = field(default_factory=absent)


@dataclass(frozen=True, slots=True)
class Smart:
    critical_warning: int  # bits of the NVMe SMART log, byte 0
    percent_used: int
    available_spare: int
    spare_threshold: int
    media_errors: int
    temperature: int  # degrees Celsius


@dataclass(frozen=True, slots=True)
class Drive:
    """One local NVMe controller; `serial` is its identity."""

    controller: str  # nvme0
    serial: Fact[str] = field(default_factory=absent)
    model: Fact[str] = field(default_factory=absent)
    firmware: Fact[str] = field(default_factory=absent)
    pci: Fact[str] = field(default_factory=absent)
    transport: Fact[str] = field(default_factory=absent)
    state: Fact[str] = field(default_factory=absent)
    numa: Fact[int] = field(default_factory=absent)
    pcie: PcieLink = field(default_factory=PcieLink)
    format_supported: Fact[bool] = field(default_factory=absent)
    crypto_erase: Fact[bool] = field(default_factory=absent)
    capacity: Fact[int] = field(default_factory=absent)  # tnvmcap, bytes
    unallocated: Fact[int] = field(default_factory=absent)  # unvmcap, bytes
    smart: Fact[Smart] = field(default_factory=absent)
    namespaces: tuple[Namespace, ...] = ()


@dataclass(frozen=True, slots=True)
class Gpu:
    uuid: str
    name: Fact[str] = field(default_factory=absent)
    pci: Fact[str] = field(default_factory=absent)
    driver: Fact[str] = field(default_factory=absent)
    pcie: PcieLink = field(default_factory=PcieLink)
    busy: Fact[bool] = field(default_factory=absent)  # a clock or utilisation that says "not idle"


@dataclass(frozen=True, slots=True)
class Service:
    """A systemd unit: ActiveState, SubState, UnitFileState."""

    active: str
    sub: str
    enabled: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    hostname: Fact[str] = field(default_factory=absent)
    os_id: Fact[str] = field(default_factory=absent)  # debian
    os_version: Fact[str] = field(default_factory=absent)  # 13
    kernel: Fact[str] = field(default_factory=absent)
    arch: Fact[str] = field(default_factory=absent)
    python: Fact[str] = field(default_factory=absent)
    boot_id: Fact[str] = field(default_factory=absent)
    machine_id: Fact[str] = field(default_factory=absent)
    uptime: Fact[float] = field(default_factory=absent)  # seconds
    clock_offset: Fact[float] = field(default_factory=absent)  # node minus controller, seconds
    cpus: Fact[int] = field(default_factory=absent)
    memory: Fact[int] = field(default_factory=absent)  # bytes
    cmdline: Fact[str] = field(default_factory=absent)
    modules: Fact[frozenset[str]] = field(default_factory=absent)
    peermem_registered: Fact[bool] = field(default_factory=absent)
    dmabuf: Fact[bool] = field(default_factory=absent)
    acs_redirect: Fact[tuple[str, ...]] = field(default_factory=absent)  # PCI addresses of redirecting bridges
    sysctls: Fact[dict[str, str]] = field(default_factory=absent)
    services: Fact[dict[str, Service]] = field(default_factory=absent)
    md_arrays: Fact[dict[str, str]] = field(default_factory=absent)  # md0 -> sync_action
    root_free: Fact[int] = field(default_factory=absent)  # bytes


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """All that one probe run saw on one node."""

    node: str
    at: str  # UTC, RFC 3339, the node's clock
    lab: bool  # the node says it is a lab host: its hardware is simulated
    simulated: tuple[str, ...] = ()  # tools and paths that are stand-ins, as the lab marker lists them
    host: HostFacts = field(default_factory=HostFacts)
    nics: tuple[Nic, ...] = ()
    drives: tuple[Drive, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    errors: tuple[str, ...] = ()  # what the probe itself could not do

    def nic(self, netdev: str) -> Nic | None:
        return next((n for n in self.nics if n.netdev == netdev), None)
