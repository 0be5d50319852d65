"""MTU, addresses and GIDs of the fabric ports."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network

from kvctl.fleet.checks.outcome import Outcome, Place, judged, listed, not_applicable, not_known
from kvctl.fleet.checks.parity import Reading, compare_facing
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port
from kvctl.types.facts import Gid
from kvctl.types.findings import Remedy, Severity

# include/rdma/ib_addr.h, iboe_get_mtu: GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC 4.
ROCE_HEADERS = 96
ROCE_MTUS = (4096, 2048, 1024, 512, 256)


def roce_mtu(mtu: int) -> int | None:
    """The RDMA MTU that the kernel chooses for an interface MTU, both in bytes: 9000 -> 4096, 1500 -> 1024."""
    return next((m for m in ROCE_MTUS if mtu - ROCE_HEADERS >= m), None)


@check(
    id="net.mtu",
    severity=Severity.CRITICAL,
    title="The interface MTU is the fabric's",
    reads=("nic.mtu",),
    right="{mtu}",
    remedy=Remedy("roce", "ip link set dev {subject} mtu {mtu}, and the same in the file that owns the interface"),
    after=("link.state",),
)
@each_port
def mtu(port: Port, fleet: Fleet) -> Outcome:
    seen = port.nic.mtu
    if seen.or_none() is None:
        return not_known(seen)
    # A link that is down still has its MTU, so a wrong one is a fault of its own.
    return judged(seen.value == fleet.fabric.mtu, seen.value, fleet.fabric.mtu, seen, alone=True)


@check(
    id="net.mtu.rdma",
    severity=Severity.CRITICAL,
    title="The RDMA port uses the MTU that the interface allows",
    reads=("nic.rdma.active_mtu",),
    right="the largest RDMA MTU under {mtu} (9000 -> 4096)",
    remedy=Remedy("roce", "Set the MTU of {subject} to {mtu}; take the link down and up once when active_mtu stays."),
    after=("net.mtu", "link.state"),
    notes="Only ibv_devinfo tells it. Where that is not installed the check is unknown, a warning: the kernel derives "
    "the value from the interface MTU.",
)
@each_port
def mtu_rdma(port: Port, fleet: Fleet) -> Outcome:
    seen, wanted = port.nic.rdma.active_mtu, roce_mtu(fleet.fabric.mtu)
    if seen.or_none() is None:
        return not_known(seen, severity=Severity.WARNING)
    return judged(seen.value == wanted, seen.value, wanted, seen)


def mtus(port: Port) -> Reading:
    mtu, active = port.nic.mtu, port.nic.rdma.active_mtu
    if mtu.or_none() is None or active.or_none() is None:
        return Reading(None, (mtu, active))
    return Reading((mtu.value, active.value), (mtu, active), f"{mtu.value} (RDMA {active.value})")


@check(
    id="net.mtu.peer",
    severity=Severity.CRITICAL,
    title="Facing ports have one MTU",
    reads=("nic.mtu", "nic.rdma.active_mtu"),
    right="the same interface MTU and active RDMA MTU on both ends of a rail",
    remedy=Remedy("roce", "Set the MTU of both ends to {mtu}."),
    after=("net.mtu", "net.mtu.rdma", "link.state"),
    notes="RDMA does not negotiate it: unequal ends fail with length errors while perftest passes.",
)
def mtu_peer(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    yield from compare_facing(fleet, mtus, unread=Severity.WARNING)


@check(
    id="net.address",
    severity=Severity.CRITICAL,
    title="The port has its address",
    reads=("nic.addresses",),
    right="the node's address for the interface, inside the rail's subnet",
    remedy=Remedy(text="Give {subject} its address in the file that owns it (netplan, NetworkManager, networkd)."),
)
@each_port
def address(port: Port, fleet: Fleet) -> Outcome:
    wanted = port.host.node.addresses.get(port.nic.netdev, "")
    subnet = port.rail.subnet if port.rail else ""
    if not (wanted or subnet):
        return not_applicable("the inventory gives neither an address nor a subnet")
    have = port.nic.addresses.or_none()
    if have is None:
        return not_known(port.nic.addresses)
    right = holds(have, wanted) if wanted else any(inside(text, subnet) for text in have)
    if wanted and subnet:
        right = right and inside(wanted, subnet)
    return judged(right, listed(have), wanted or f"one in {subnet}", port.nic.addresses)


def host_part(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_interface(text).ip
    except ValueError:
        return None


def holds(have: tuple[str, ...], wanted: str) -> bool:
    """Same address; the prefix length is the subnet's business."""
    return host_part(wanted) in {host_part(text) for text in have} - {None}


def inside(text: str, subnet: str) -> bool:
    found, network = host_part(text), ip_network(subnet)
    return found is not None and found.version == network.version and found in network


@check(
    id="net.gid",
    severity=Severity.CRITICAL,
    title="The port has a routable RoCE v2 GID",
    reads=("nic.rdma.gids",),
    right="at least one RoCE v2 GID of an IPv4 or a global IPv6 address; its index is computed, never fixed",
    remedy=Remedy(
        text="Give {subject} an IPv4 address (or a global IPv6 one) and keep the link up; GIDs follow addresses."
    ),
    after=("net.address", "link.state"),
    notes="Link-local GIDs do not count. A port with IPv6 GIDs only passes and is named: some engines refuse it.",
)
@each_port
def gid(port: Port, fleet: Fleet) -> Outcome:
    table = port.nic.rdma.gids.or_none()
    if table is None:
        return not_known(port.nic.rdma.gids)
    usable = [g for g in table if g.type == "RoCE v2" and routable(g)]
    shown = ", ".join(f"index {g.index} {g.gid}" for g in usable)
    if usable and not any(is_ipv4(g) for g in usable):
        shown += " (IPv6 only)"
    observed = shown or f"{len(table)} GIDs, none of them RoCE v2 and routable"
    return judged(bool(usable), observed, "a routable RoCE v2 GID", port.nic.rdma.gids)


def parsed(gid: Gid) -> IPv6Address | None:
    try:
        found = ip_address(gid.gid)
    except ValueError:
        return None
    return found if isinstance(found, IPv6Address) else None


def is_ipv4(gid: Gid) -> bool:
    found = parsed(gid)
    return found is not None and found.ipv4_mapped is not None


def routable(gid: Gid) -> bool:
    """IPv4-mapped, global or unique-local; not ::, not fe80::, not multicast, not a mapped 169.254 address."""
    found = parsed(gid)
    if found is None or found.is_unspecified or found.is_link_local or found.is_multicast or found.is_loopback:
        return False
    mapped = found.ipv4_mapped
    return mapped is None or not (mapped.is_link_local or mapped.is_unspecified or mapped.is_loopback)
