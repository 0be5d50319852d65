"""The lossless class on the host: trust, map, PFC, buffer, scheduling, and who negotiates it."""

from collections.abc import Iterator

from kvctl.fleet.checks.outcome import Outcome, Place, judged, listed, not_applicable, not_known, unclear
from kvctl.fleet.checks.parity import Reading, compare_facing
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port, family
from kvctl.fleet.inventory.model import Fabric
from kvctl.types.facts import Nic
from kvctl.types.findings import Remedy, Severity

WARNING = Severity.WARNING


def cnp_priorities(nic: Nic, fabric: Fabric) -> frozenset[int]:
    """Priorities a CNP may ride on. Thor2 firmware sends its own on 7 whatever the site's number is."""
    own = {7} if family(nic) == "bnxt" else set()
    return frozenset({fabric.cnp_priority} | own) - {fabric.lossless_priority}


@check(
    id="qos.trust",
    severity=Severity.CRITICAL,
    title="The NIC classifies by what the site says",
    reads=("nic.qos.trust",),
    right="trust {trust}",
    remedy=Remedy("roce", "mlnx_qos -i {subject} --trust {trust}"),
    notes="Drivers other than mlx5 and ice do not report it: unknown there, a warning.",
)
@each_port
def trust(port: Port, fleet: Fleet) -> Outcome:
    seen = port.nic.qos.trust
    if seen.or_none() is None:
        reports_it = family(port.nic) in ("mlx5", "ice", None)
        return not_known(seen, severity=None if reports_it else WARNING)
    return judged(seen.value == fleet.fabric.trust, seen.value, fleet.fabric.trust, seen)


@check(
    id="qos.dscpmap",
    severity=Severity.CRITICAL,
    title="RoCE and CNP code points map to their priorities",
    reads=("nic.qos.dscp_prio",),
    right="DSCP {dscp} -> priority {priority}, DSCP {cnp_dscp} -> priority {cnp_priority}",
    remedy=Remedy(
        "roce",
        "mlnx_qos -i {subject} --dscp2prio set,{dscp},{priority} and --dscp2prio set,{cnp_dscp},{cnp_priority}",
    ),
    after=("qos.trust",),
    notes="On a Broadcom port the CNP priority may also be 7, the firmware's own.",
)
@each_port
def dscpmap(port: Port, fleet: Fleet) -> Outcome:
    fabric, seen = fleet.fabric, port.nic.qos.dscp_prio
    if fabric.trust != "dscp":
        return not_applicable("the site classifies by PCP")
    table = seen.or_none()
    if table is None:
        return not_known(seen)
    roce, cnp = table.get(fabric.dscp), table.get(fabric.cnp_dscp)
    right = roce == fabric.lossless_priority and cnp in cnp_priorities(port.nic, fabric)
    shown = f"{fabric.dscp}->{'none' if roce is None else roce}, {fabric.cnp_dscp}->{'none' if cnp is None else cnp}"
    wanted = f"{fabric.dscp}->{fabric.lossless_priority}, {fabric.cnp_dscp}->{fabric.cnp_priority}"
    # A map that was read and is wrong is a second fault: trust explains only a map that is not there.
    return judged(right, shown, wanted, seen, alone=bool(table))


@check(
    id="qos.pfc.host",
    severity=Severity.CRITICAL,
    title="PFC runs on the lossless priority and on no other",
    reads=("nic.qos.pfc",),
    right="exactly priority {priority}",
    remedy=Remedy("roce", "mlnx_qos -i {subject} --pfc {pfc}"),
    notes="A second lossless priority beside the right one is a warning; PFC off or elsewhere is critical.",
)
@each_port
def pfc_host(port: Port, fleet: Fleet) -> Outcome:
    seen, wanted = port.nic.qos.pfc, fleet.fabric.lossless_priority
    have = seen.or_none()
    if have is None:
        return not_known(seen)
    severity = WARNING if wanted in have else Severity.CRITICAL
    return judged(have == {wanted}, listed(have), wanted, seen, severity=severity)


@check(
    id="qos.pfc.peer",
    severity=Severity.CRITICAL,
    title="The neighbour's PFC is the host's",
    reads=("nic.qos.peer_pfc", "nic.qos.pfc"),
    right="the neighbour announces exactly priority {priority}, and the host has it",
    remedy=Remedy(
        text="Enable PFC on priority {priority} alone on the switch port that {subject} is plugged into, "
        "and let it announce it by LLDP."
    ),
    after=("qos.pfc.host",),
    notes="Unknown without a listener for LLDP: a warning when the inventory names a switch, else for information.",
)
@each_port
def pfc_peer(port: Port, fleet: Fleet) -> Outcome:
    peer, host, wanted = port.nic.qos.peer_pfc, port.nic.qos.pfc, fleet.fabric.lossless_priority
    theirs, ours = peer.or_none(), host.or_none()
    if theirs is None:
        # Without LLDP and without a switch in the inventory there is nobody to compare with, and no hand to call for.
        return not_known(peer, severity=WARNING if fleet.fabric.switch_vendor != "none" else Severity.INFO)
    if ours is None:
        return not_known(host)
    shown = f"switch {listed(theirs)}, host {listed(ours)}"
    # A neighbour that is right differs only because this host is wrong; one that is wrong is its own fault.
    return judged(theirs == ours == {wanted}, shown, f"{wanted} on both", peer, host, alone=theirs != {wanted})


@check(
    id="qos.dcbx",
    severity=WARNING,
    title="One side negotiates DCB, as the site says",
    reads=("nic.qos.dcbx",),
    also=("nic.qos.willing",),
    right="the site's fabric.dcbx: os and not willing, or firmware",
    remedy=Remedy(
        "roce", "mlnx_qos -i {subject} --dcbx os (or firmware, as the inventory says); lldptool -T willing off"
    ),
)
@each_port
def dcbx(port: Port, fleet: Fleet) -> Outcome:
    wanted, seen, willing = fleet.fabric.dcbx, port.nic.qos.dcbx, port.nic.qos.willing
    if wanted == "any":
        return not_applicable("the site does not say who negotiates")
    if seen.or_none() is None:
        return not_known(seen)
    yields = wanted == "os" and willing.or_none() is True
    shown = f"{seen.value}{', willing' if yields else ''}"
    return judged(seen.value == wanted and not yields, shown, wanted, seen, willing)


@check(
    id="qos.pause",
    severity=Severity.CRITICAL,
    title="Global pause is off",
    reads=("nic.pause",),
    right="rx off, tx off: global pause and PFC exclude each other",
    remedy=Remedy("roce", "ethtool -A {subject} autoneg off rx off tx off"),
)
@each_port
def pause(port: Port, fleet: Fleet) -> Outcome:
    seen = port.nic.pause.or_none()
    if seen is None:
        return not_known(port.nic.pause)
    shown = f"rx {'on' if seen.rx else 'off'}, tx {'on' if seen.tx else 'off'}"
    return judged(not (seen.rx or seen.tx), shown, "rx off, tx off", port.nic.pause)


@check(
    id="qos.buffer",
    severity=Severity.CRITICAL,
    title="The lossless priority has headroom of its own",
    reads=("nic.qos.prio_buffer", "nic.qos.buffer_size"),
    also=("nic.qos.cable_len",),
    right="priority {priority} alone in a buffer of at least {buffer_min} bytes, sized for {cable} m of cable",
    remedy=Remedy(
        "roce",
        "mlnx_qos -i {subject} --prio2buffer and --buffer_size: priority {priority} alone in a buffer of at least "
        "{buffer_min} bytes; --cable_len {cable}",
    ),
    after=("qos.pfc.host",),
    notes="PFC with 896 bytes of buffer is PFC in name only. Old tools print no buffers: unknown, a warning.",
)
@each_port
def buffer(port: Port, fleet: Fleet) -> Outcome:
    qos, fabric = port.nic.qos, fleet.fabric
    owners, sizes = qos.prio_buffer.or_none(), qos.buffer_size.or_none()
    if owners is None or sizes is None:
        return not_known(qos.prio_buffer, qos.buffer_size, severity=WARNING)
    mine = owners.get(fabric.lossless_priority)
    size = None if mine is None else sizes.get(mine)
    if mine is None or size is None:
        why = "the output does not show the buffer of the lossless priority"
        return unclear(why, qos.prio_buffer, qos.buffer_size, severity=WARNING)
    sharing = [p for p, b in owners.items() if b == mine and p != fabric.lossless_priority]
    cable = qos.cable_len.or_none()
    short = cable is not None and cable < fabric.cable_length
    shown = f"buffer {mine}, {size} bytes"
    shown += f", shared with priority {listed(sharing)}" if sharing else ""
    shown += f", for {cable} m" if short else ""
    wanted = f"own buffer, >= {fabric.buffer_min} bytes" + (f", for {fabric.cable_length} m" if short else "")
    right = size >= fabric.buffer_min and not sharing and not short
    return judged(right, shown, wanted, qos.prio_buffer, qos.buffer_size, qos.cable_len)


@check(
    id="qos.ets",
    severity=WARNING,
    title="The lossless class has its share and CNPs go first",
    reads=("nic.qos.prio_tc", "nic.qos.tsa", "nic.qos.tc_bw"),
    right="priority {priority} alone in an ETS class with the site's share; the strict priorities strict",
    remedy=Remedy("roce", "mlnx_qos -i {subject} --prio_tc, --tsa and --tcbw as fabric.ets says"),
)
@each_port
def ets(port: Port, fleet: Fleet) -> Outcome:
    qos, fabric = port.nic.qos, fleet.fabric
    prio_tc, tsa, share = qos.prio_tc.or_none(), qos.tsa.or_none(), qos.tc_bw.or_none()
    facts = (qos.prio_tc, qos.tsa, qos.tc_bw)
    if prio_tc is None or tsa is None or share is None:
        return not_known(*facts)
    tc = prio_tc.get(fabric.lossless_priority)
    strict = {p: prio_tc.get(p) for p in fabric.ets.strict}
    shown_tcs = [tc, *strict.values()]
    if tc is None or any(c is None or c not in tsa for c in shown_tcs) or (tsa[tc] == "ets" and tc not in share):
        return unclear("the output does not show every traffic class", *facts)
    faults = []
    if [p for p, c in prio_tc.items() if c == tc] != [fabric.lossless_priority]:
        faults.append(f"priority {fabric.lossless_priority} shares its class")
    if tsa[tc] != "ets" or share.get(tc) != fabric.ets.lossless:
        faults.append(f"class {tc} is {tsa[tc]}" + (f" {share[tc]} %" if tsa[tc] == "ets" else ""))
    faults += [f"priority {p} is {tsa[c]}" for p, c in strict.items() if c is not None and tsa[c] != "strict"]
    wanted = f"own class, ets {fabric.ets.lossless} %; strict: {listed(fabric.ets.strict)}"
    return judged(not faults, "; ".join(faults) or wanted, wanted, *facts)


@check(
    id="qos.class.peer",
    severity=Severity.CRITICAL,
    title="Facing ports carry one class",
    reads=("nic.qos.trust", "nic.qos.pfc", "nic.qos.dscp_prio"),
    right="the same trust, PFC set and priority of DSCP {dscp} on both ends of a rail",
    remedy=Remedy(
        "roce", "Set the class of {subject} as the inventory says; see qos.trust, qos.dscpmap, qos.pfc.host."
    ),
    after=("qos.trust", "qos.dscpmap", "qos.pfc.host"),
)
def class_peer(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    yield from compare_facing(fleet, lambda port: class_of(port, fleet.fabric), unread=WARNING)


def class_of(port: Port, fabric: Fabric) -> Reading:
    qos = port.nic.qos
    facts = (qos.trust, qos.pfc, *((qos.dscp_prio,) if fabric.trust == "dscp" else ()))
    if any(f.or_none() is None for f in facts):
        return Reading(None, facts)
    priority = (qos.dscp_prio.or_none() or {}).get(fabric.dscp) if fabric.trust == "dscp" else None
    pfc = qos.pfc.value or frozenset()
    shown = f"trust {qos.trust.value}, PFC {listed(pfc)}"
    if fabric.trust == "dscp":
        shown += f", DSCP {fabric.dscp}->{'none' if priority is None else priority}"
    return Reading((qos.trust.value, pfc, priority), facts, shown)
