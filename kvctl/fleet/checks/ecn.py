"""DCQCN: notification point, reaction point and CNP marking, as the site's ECN policy wants them.

`/sys/class/net/IF/ecn` exists with the NVIDIA driver packages (OFED, DOCA) only. Where nothing of it can be read the
check is unknown as a warning; where a part can be read, the missing part is critical.
"""

from kvctl.fleet.checks.outcome import Outcome, judged, not_applicable, not_known, unclear
from kvctl.fleet.checks.qos import cnp_priorities
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port
from kvctl.types.facts import Fact
from kvctl.types.findings import Remedy, Severity


def unread_severity(port: Port) -> Severity:
    ecn = port.nic.ecn
    shows_something = any(f.or_none() is not None for f in (ecn.np, ecn.rp, ecn.cnp_dscp, ecn.cnp_prio))
    return Severity.CRITICAL if shows_something else Severity.WARNING


def point(port: Port, fleet: Fleet, seen: Fact[dict[int, bool]]) -> Outcome:
    """One DCQCN side on the lossless priority. Other priorities carry no RoCE: not judged."""
    if fleet.fabric.ecn == "any":
        return not_applicable("the site does not check ECN")
    table, priority = seen.or_none(), fleet.fabric.lossless_priority
    if table is None:
        return not_known(seen, severity=unread_severity(port))
    if priority not in table:
        return unclear(f"priority {priority} is not shown", seen, severity=unread_severity(port))
    wanted = fleet.fabric.ecn == "dcqcn"
    return judged(table[priority] == wanted, on_off(table[priority]), on_off(wanted), seen)


def on_off(value: bool) -> str:
    return "on" if value else "off"


@check(
    id="ecn.np",
    severity=Severity.CRITICAL,
    title="The NIC answers marked packets with CNPs (notification point)",
    reads=("nic.ecn.np",),
    right="roce_np/enable/{priority} is 1 with fabric.ecn dcqcn, 0 with off",
    remedy=Remedy("roce", "echo 1 (ecn: off: 0) > /sys/class/net/{subject}/ecn/roce_np/enable/{priority}"),
)
@each_port
def notification_point(port: Port, fleet: Fleet) -> Outcome:
    return point(port, fleet, port.nic.ecn.np)


@check(
    id="ecn.rp",
    severity=Severity.CRITICAL,
    title="The NIC slows down on CNPs (reaction point)",
    reads=("nic.ecn.rp",),
    right="roce_rp/enable/{priority} is 1 with fabric.ecn dcqcn, 0 with off",
    remedy=Remedy("roce", "echo 1 (ecn: off: 0) > /sys/class/net/{subject}/ecn/roce_rp/enable/{priority}"),
)
@each_port
def reaction_point(port: Port, fleet: Fleet) -> Outcome:
    return point(port, fleet, port.nic.ecn.rp)


@check(
    id="ecn.cnp",
    severity=Severity.WARNING,
    title="CNPs leave with the site's DSCP and priority",
    reads=("nic.ecn.cnp_dscp", "nic.ecn.cnp_prio"),
    right="cnp_dscp {cnp_dscp}, cnp_802p_prio {cnp_priority}",
    remedy=Remedy(
        "roce",
        "In /sys/class/net/{subject}/ecn/roce_np: echo {cnp_dscp} > cnp_dscp; echo {cnp_priority} > cnp_802p_prio",
    ),
)
@each_port
def cnp(port: Port, fleet: Fleet) -> Outcome:
    fabric, ecn = fleet.fabric, port.nic.ecn
    if fabric.ecn != "dcqcn":
        return not_applicable(f"the site's ECN policy is {fabric.ecn}")
    dscp, priority = ecn.cnp_dscp.or_none(), ecn.cnp_prio.or_none()
    if dscp is None or priority is None:
        return not_known(ecn.cnp_dscp, ecn.cnp_prio)
    right = dscp == fabric.cnp_dscp and priority in cnp_priorities(port.nic, fabric)
    wanted = f"DSCP {fabric.cnp_dscp}, priority {fabric.cnp_priority}"
    return judged(right, f"DSCP {dscp}, priority {priority}", wanted, ecn.cnp_dscp, ecn.cnp_prio)
