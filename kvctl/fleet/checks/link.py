"""Links of the fabric ports: up, as fast as they should be, and not flapping."""

from collections.abc import Iterator

from kvctl.fleet.checks.growth import both_readings, grown
from kvctl.fleet.checks.outcome import Outcome, Place, judged, not_applicable, not_known
from kvctl.fleet.checks.parity import Reading, compare_facing, reading
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port
from kvctl.types.findings import Evidence, Remedy, Severity

# Azure's health checks take a link with this many flaps in their window out of service.
MANY_FLAPS = 5


@check(
    id="link.state",
    severity=Severity.CRITICAL,
    title="The link is up, for Ethernet and for RDMA",
    reads=("nic.operstate", "nic.carrier", "nic.rdma.state", "nic.rdma.phys_state"),
    right="operstate up, carrier, RDMA port ACTIVE and LinkUp",
    remedy=Remedy(text="ip link set {subject} up; then check cable, module and switch port (ethtool -m {subject})."),
    notes="Drivers that report no operstate (unknown) are judged by the carrier.",
)
@each_port
def state(port: Port, fleet: Fleet) -> Outcome:
    nic = port.nic
    facts = (nic.operstate, nic.carrier, nic.rdma.state, nic.rdma.phys_state)
    oper, carrier, rdma, phys = (f.or_none() for f in facts)
    shown = {"operstate": oper, "carrier": carrier, "RDMA": rdma, "physical": phys}
    text = ", ".join(f"{name} {word(value)}" for name, value in shown.items() if value is not None)
    wrong = (
        (oper is not None and oper not in ("up", "unknown"))
        or carrier is False
        or (rdma is not None and rdma != "ACTIVE")
        or (phys is not None and phys != "LinkUp")
    )
    # An interface that is down does not tell its carrier: what is known to be wrong decides.
    if not wrong and None in (oper, carrier, rdma, phys):
        return not_known(*facts)
    return judged(not wrong, text, "up, ACTIVE, LinkUp", *facts)


def word(value: object) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


@check(
    id="link.speed",
    severity=Severity.CRITICAL,
    title="The link runs at the rail's speed",
    reads=("nic.speed",),
    right="the rail's speed in Mb/s",
    remedy=Remedy(text="Check the cable or module of {subject}, its FEC, and the switch port's speed and breakout."),
    after=("link.state",),
)
@each_port
def speed(port: Port, fleet: Fleet) -> Outcome:
    wanted = port.rail.speed if port.rail else None
    if wanted is None:
        return not_applicable("the inventory gives no speed; link.speed.peer compares both ends")
    seen = port.nic.speed
    if seen.or_none() is None:
        return not_known(seen, expected=f"{wanted} Mb/s")
    return judged(seen.value == wanted, f"{seen.value} Mb/s", f"{wanted} Mb/s", seen)


@check(
    id="link.speed.peer",
    severity=Severity.CRITICAL,
    title="Facing ports run at one speed",
    reads=("nic.speed",),
    right="the same speed on both ends of a rail, unless the inventory states another for each",
    remedy=Remedy(
        text="Check cables, modules and breakout of the slower end; state rail speeds that differ on purpose."
    ),
    after=("link.state", "link.speed"),
)
def speed_peer(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    stated = {p.rail.speed for p in fleet.ports if p.rail and p.rail.speed}
    yield from compare_facing(fleet, relative if len(stated) > 1 else speed_of)


def speed_of(port: Port) -> Reading:
    return reading(port.nic.speed, " Mb/s")


def relative(port: Port) -> Reading:
    """Where the inventory states different speeds, compare whether each end runs at its own."""
    wanted = port.rail.speed if port.rail else None
    seen = port.nic.speed.or_none()
    if wanted is None or seen is None:
        return speed_of(port)
    return Reading("as stated" if seen == wanted else seen, (port.nic.speed,), f"{seen} of {wanted} Mb/s")


@check(
    id="link.flaps",
    severity=Severity.WARNING,
    title="The link did not flap between two readings",
    reads=("nic.carrier_changes", "host.boot_id"),
    right="no carrier change; from 5 on it is critical",
    remedy=Remedy(text="Reseat or replace the cable or module of {subject}; read ethtool -m and the switch's log."),
    after=("link.state",),
    evidence=Evidence.EFFECT,
    notes="Needs two readings. kvnoded keeps the history of flaps between them.",
)
@each_port
def flaps(port: Port, fleet: Fleet) -> Outcome:
    pair = both_readings(port, fleet)
    if isinstance(pair, Outcome):
        return pair
    now, before = port.nic.carrier_changes, pair.carrier_changes
    growth = grown(before, now)
    if isinstance(growth, Outcome):
        return growth
    severity = Severity.CRITICAL if growth >= MANY_FLAPS else Severity.WARNING
    return judged(growth == 0, f"{growth} changes", "0 changes", now, severity=severity)
