"""What a bounded, marked transfer on each rail showed."""

from collections.abc import Callable, Iterator

from kvctl.fleet.checks.outcome import Outcome, Place, judged, not_applicable, not_known, unclear
from kvctl.fleet.checks.readings import ProbeResult
from kvctl.fleet.checks.registry import check, unjudged_rails
from kvctl.fleet.checks.scope import Fleet, Port, fabric_ports
from kvctl.types.findings import Evidence, Remedy, Severity

NOT_ASKED = "no probe was asked for: kvctl check --probe"
# Share of the probe's bytes that must ride on the lossless priority; acknowledgements and CNPs ride elsewhere.
CLASS_SHARE = 0.9
# ib_write_bw reaches this share of the line on a healthy rail; links that pass every other check have shown 7 %.
LINE_SHARE = 0.9
MEGABITS_IN_GIGABIT = 1000


def each_probe(fleet: Fleet, judge: Callable[[ProbeResult, Port, Fleet], Outcome]) -> Iterator[tuple[Place, Outcome]]:
    """One outcome for each probe that a port sent, and one for each port that sent none."""
    for host in fleet.hosts:
        ports = fabric_ports(host)
        for port in ports:
            if fleet.probes is None:
                yield port.place, not_applicable(NOT_ASKED)
                continue
            mine = [result for result in fleet.probes if (result.node, result.netdev) == port.place]
            for result in mine:
                yield port.place, judge(result, port, fleet)
            if not mine:
                yield port.place, unclear("a probe was asked for and none ran on this port")
        yield from unjudged_rails(host, bool(ports))


@check(
    id="cnt.class",
    severity=Severity.CRITICAL,
    title="Marked traffic rides on the lossless priority, at both ends",
    reads=("probe.sent", "probe.received"),
    right="at least 90 % of the probe's bytes on priority {priority}, as sent and as received",
    remedy=Remedy(
        text="Find who drops the mark: cm.tos and tc.sysfs at the sender, trust and rewrite on the switch, "
        "qos.dscpmap at the receiver; applications need NCCL_IB_TC or UCX_IB_TRAFFIC_CLASS = {tos}."
    ),
    after=("link.state", "qos.trust", "qos.dscpmap", "cm.tos"),
    evidence=Evidence.EFFECT,
)
def traffic_class(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    yield from each_probe(fleet, on_class)


def on_class(result: ProbeResult, port: Port, fleet: Fleet) -> Outcome:
    sent, received = result.sent.or_none(), result.received.or_none()
    if sent is None or received is None:
        return not_known(result.sent, result.received)
    priority = fleet.fabric.lossless_priority
    if priority not in sent or priority not in received:
        return unclear(f"the counters of priority {priority} are not shown", result.sent, result.received)
    if result.volume <= 0:
        return unclear("the probe moved nothing", result.sent, result.received)
    shares = [counts[priority] / result.volume for counts in (sent, received)]
    shown = f"to {result.peer}:{result.peer_netdev}: {shares[0]:.0%} of the bytes sent, {shares[1]:.0%} received"
    peers = ((result.peer, result.peer_netdev),)
    wanted = f">= {CLASS_SHARE:.0%} on priority {priority}"
    return judged(min(shares) >= CLASS_SHARE, shown, wanted, result.sent, result.received, peers=peers)


@check(
    id="probe.bw",
    severity=Severity.CRITICAL,
    title="The rail carries its speed",
    reads=("probe.gbits", "nic.speed"),
    right="at least 90 % of the line rate, each direction",
    remedy=Remedy(
        text="Link checks passed and the rail is slow: cold-boot the node with the card, check pcie.width, pcie.mrrs, "
        "acs.redirect, and the switch port; then probe again."
    ),
    after=("link.state", "link.speed", "pcie.width", "net.mtu"),
    evidence=Evidence.EFFECT,
)
def bandwidth(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    yield from each_probe(fleet, at_speed)


def at_speed(result: ProbeResult, port: Port, fleet: Fleet) -> Outcome:
    gbits, speed = result.gbits.or_none(), port.nic.speed.or_none()
    if gbits is None or speed is None:
        return not_known(result.gbits, port.nic.speed)
    line = speed / MEGABITS_IN_GIGABIT
    shown = f"{gbits:.1f} Gb/s to {result.peer}:{result.peer_netdev}"
    peers = ((result.peer, result.peer_netdev),)
    return judged(gbits >= LINE_SHARE * line, shown, f">= {LINE_SHARE * line:.1f} Gb/s", result.gbits, peers=peers)
