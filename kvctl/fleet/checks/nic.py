"""Identity of the fabric NICs: how many, which part, which generation, which PSID."""

from collections.abc import Iterator

from kvctl.fleet.checks.outcome import Outcome, Place, judged, listed, not_applicable, not_known, unclear
from kvctl.fleet.checks.parity import Reading, compare_facing, vote
from kvctl.fleet.checks.registry import check, each_host, each_port
from kvctl.fleet.checks.scope import Fleet, Host, Port, absent_rails, fabric_ports, family
from kvctl.types.facts import Fact
from kvctl.types.findings import Remedy, Severity


@check(
    id="nic.count",
    severity=Severity.CRITICAL,
    title="Every fabric port is there",
    reads=("nics",),
    right="each rail's interface, and as many physical NIC functions as the role's nic.count says",
    remedy=Remedy(text="Reseat or replace the missing card on {node}, or correct the rails of its role."),
    notes="Virtual functions are not counted. Without rails and without nic.count nothing says how many are right.",
)
@each_host
def count(host: Host, fleet: Fleet) -> Outcome:
    ports, absent = fabric_ports(host), absent_rails(host)
    names = listed(p.nic.netdev for p in ports)
    wanted = host.role.nic.count
    if absent:
        return judged(False, f"{len(ports)}: {names}", f"also {listed(absent)}")
    if wanted is not None:
        return judged(len(ports) == wanted, f"{len(ports)}: {names}", wanted)
    if host.role.rails:
        return judged(len(ports) == len(host.role.rails), f"{len(ports)}: {names}", len(host.role.rails))
    if not ports:
        return unclear("the role lists no rails and the node shows no Ethernet RDMA device")
    return not_applicable(f"the role says neither rails nor nic.count; judged as fabric ports: {names}")


def generation_of(port: Port) -> Reading:
    vendor, device = port.nic.vendor_id, port.nic.device_id
    if vendor.or_none() is None or device.or_none() is None:
        return Reading(None, (vendor, device))
    name = f"{vendor.value}:{device.value}"
    return Reading(name, (vendor, device))


@check(
    id="nic.generation",
    severity=Severity.CRITICAL,
    title="Facing ports are of one NIC generation",
    reads=("nic.vendor_id", "nic.device_id"),
    right="one PCI vendor and device id on both ends of a rail",
    remedy=Remedy(text="Replace the card behind {subject} by the generation that its peers have, or move the node."),
    notes="Compared along a rail, not inside a host: a host may carry ConnectX-7 rails beside a BlueField-3 bond.",
)
def generation(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    yield from compare_facing(fleet, generation_of)


@check(
    id="nic.part",
    severity=Severity.CRITICAL,
    title="The NIC is an allowed part",
    reads=("nic.part_number",),
    right="one of the role's nic.part_numbers",
    remedy=Remedy(text="Replace the card behind {subject}, or add its part number to the role after review."),
    after=("nic.generation",),
)
@each_port
def part(port: Port, fleet: Fleet) -> Outcome:
    allowed = port.host.role.nic.part_numbers
    if not allowed:
        return not_applicable("the role allows any part number")
    number = port.nic.part_number.or_none()
    if number is None:
        return not_known(port.nic.part_number, expected=listed(allowed))
    return judged(number in allowed, number, listed(allowed), port.nic.part_number)


@check(
    id="nic.psid",
    severity=Severity.CRITICAL,
    title="The NIC's PSID is one the site has pinned, or the one its equals have",
    reads=("nic.psid",),
    also=("nic.part_number", "nic.device_id"),
    right="a PSID with a firmware pin in the role; without pins, the PSID that the majority of the same part has",
    remedy=Remedy(
        text="Order the card with the right PSID or pin this PSID's own firmware. Never burn across PSIDs "
        "(no -allow_psid_change): an OEM card with another image can lose ports.",
        reboot=True,
    ),
    after=("nic.generation", "nic.part"),
    notes="OEM cards of one part number carry PSIDs of their own; firmware is compared inside (part, PSID) only.",
)
@each_port
def psid(port: Port, fleet: Fleet) -> Outcome:
    kind = family(port.nic)
    if kind is not None and kind != "mlx5":
        return not_applicable("only NVIDIA firmware images carry a PSID")
    mine = port.nic.psid.or_none()
    if mine is None:
        return not_known(port.nic.psid)
    pins = port.host.role.nic.firmware
    if pins:
        return judged(mine in pins, mine, f"pinned: {listed(pins)}", port.nic.psid)
    return psid_by_vote(port, fleet, mine)


def psid_by_vote(port: Port, fleet: Fleet, mine: str) -> Outcome:
    facts: tuple[Fact[str], ...] = (port.nic.psid, port.nic.part_number, port.nic.device_id)
    number, device = port.nic.part_number.or_none(), port.nic.device_id.or_none()
    if number is None or device is None:
        return not_known(*facts)
    same = [
        p for p in fleet.ports
        if p.nic.part_number.or_none() == number and p.nic.device_id.or_none() == device
    ]  # fmt: skip
    ballots = [(p.host.node.name, p.nic.psid.value) for p in same if p.nic.psid.or_none() is not None]
    result = vote(ballots)
    if result.expected is None:
        return unclear(result.why, *facts, observed=mine)
    return judged(mine == result.expected, mine, result.expected, *facts, why=result.why)
