"""What the checks look at: hosts, the fabric ports and cache drives on them, and which ports face each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network

from kvctl.fleet.checks.outcome import Place
from kvctl.fleet.checks.readings import Certificate, ProbeResult, SwitchPort
from kvctl.fleet.inventory.model import DrivePolicy, Fabric, Inventory, Node, Rail, Role
from kvctl.types.facts import Drive, Nic, NodeFacts

Network = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Host:
    """A node of the inventory with its facts."""

    node: Node
    role: Role
    facts: NodeFacts

    @property
    def place(self) -> Place:
        return (self.node.name, "")


@dataclass(frozen=True)
class Port:
    """One fabric port. `rail` is None when the role lists no rails; `index` counts rails from 0."""

    host: Host
    nic: Nic
    rail: Rail | None
    index: int

    @property
    def place(self) -> Place:
        return (self.host.node.name, self.nic.netdev)

    @property
    def name(self) -> str:
        return f"{self.host.node.name}:{self.nic.netdev}"


@dataclass(frozen=True)
class CacheDrive:
    host: Host
    policy: DrivePolicy
    drive: Drive

    @property
    def place(self) -> Place:
        return (self.host.node.name, self.drive.serial.or_none() or self.drive.controller)


@dataclass(frozen=True)
class Fleet:
    """Everything a check may look at. `hosts` are the nodes whose facts are there."""

    inventory: Inventory
    hosts: tuple[Host, ...]
    previous: Mapping[str, NodeFacts] | None = None
    switches: Mapping[str, tuple[SwitchPort, ...] | str] | None = None  # a text says why a switch was not read
    probes: tuple[ProbeResult, ...] | None = None
    certificates: tuple[Certificate, ...] = ()
    today: date = date.min

    @property
    def fabric(self) -> Fabric:
        return self.inventory.fabric

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        return tuple(port for host in self.hosts for port in fabric_ports(host))

    @cached_property
    def drives(self) -> tuple[CacheDrive, ...]:
        return tuple(drive for host in self.hosts for drive in cache_drives(host))

    @cached_property
    def facing(self) -> dict[Place, tuple[Port, ...]]:
        """For each port, the ports it talks to: storage with GPU, and storage with storage, on one rail."""
        where = {p.place: networks(p) for p in self.ports}
        return {
            p.place: tuple(q for q in self.ports if kinds_face(p, q) and same_rail(p, q, where)) for p in self.ports
        }


def fabric_ports(host: Host) -> tuple[Port, ...]:
    """The rails' interfaces; without rails, every physical NIC with an Ethernet RDMA device. VFs never."""
    if host.role.rails:
        named = ((i, rail, host.facts.nic(rail.interface)) for i, rail in enumerate(host.role.rails))
        return tuple(Port(host, nic, rail, i) for i, rail, nic in named if nic and not is_virtual(nic))
    found = sorted((n for n in host.facts.nics if is_roce(n) and not is_virtual(n)), key=lambda n: n.netdev)
    return tuple(Port(host, nic, None, i) for i, nic in enumerate(found))


def absent_rails(host: Host) -> tuple[str, ...]:
    """Rail interfaces of the role that the node does not have."""
    return tuple(r.interface for r in host.role.rails if host.facts.nic(r.interface) is None)


def virtual_rails(host: Host) -> tuple[str, ...]:
    nics = (host.facts.nic(r.interface) for r in host.role.rails)
    return tuple(n.netdev for n in nics if n and is_virtual(n))


def is_virtual(nic: Nic) -> bool:
    return nic.virtual_function.or_none() is True


def is_roce(nic: Nic) -> bool:
    return nic.rdma.device.or_none() is not None and nic.rdma.link_layer.or_none() == "Ethernet"


def cache_drives(host: Host) -> tuple[CacheDrive, ...]:
    """The role's cache drives: those listed by serial, or every local drive that is not excluded."""
    policy = host.role.drives
    if policy is None:
        return ()
    return tuple(CacheDrive(host, policy, d) for d in host.facts.drives if is_cache(policy, d))


def is_cache(policy: DrivePolicy, drive: Drive) -> bool:
    serial = drive.serial.or_none()
    if serial in policy.exclude_serials:
        return False
    if policy.serials:
        return serial in policy.serials
    # A drive whose transport or serial is unknown is judged rather than passed over in silence.
    return drive.transport.or_none() in (None, "pcie")


FAMILIES = {"mlx5_core": "mlx5", "bnxt_en": "bnxt", "ice": "ice"}
VENDORS = {"15b3": "mlx5", "14e4": "bnxt", "8086": "ice"}


def family(nic: Nic) -> str | None:
    """ "mlx5", "bnxt", "ice" or "other"; None when neither the driver nor the vendor is known."""
    driver = nic.driver.or_none()
    if driver is not None:
        return FAMILIES.get(driver, "other")
    vendor = nic.vendor_id.or_none()
    return None if vendor is None else VENDORS.get(vendor, "other")


def kinds_face(a: Port, b: Port) -> bool:
    """GPU nodes talk to storage, storage talks to both; two GPU nodes do not share a cache path."""
    return a.host.node.name != b.host.node.name and "storage" in (a.host.role.kind, b.host.role.kind)


def networks(port: Port) -> frozenset[Network]:
    """The subnet of the port's rail or, without one, the subnets of its own addresses."""
    if port.rail and port.rail.subnet:
        return frozenset({ip_network(port.rail.subnet)})
    found = set()
    for text in port.nic.addresses.or_none() or ():
        try:
            network = ip_interface(text).network
        except ValueError:
            continue  # net.address reports texts that are no addresses
        if not network.is_link_local:
            found.add(network)
    return frozenset(found)


def same_rail(a: Port, b: Port, where: Mapping[Place, frozenset[Network]]) -> bool:
    if a.rail and b.rail and not (a.rail.subnet and b.rail.subnet):
        return a.index == b.index
    return any(m.version == n.version and m.overlaps(n) for m in where[a.place] for n in where[b.place])
