"""How RDMA traffic is marked and which RoCE version connections use."""

from kvctl.fleet.checks.outcome import Outcome, judged, not_known
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port
from kvctl.types.facts import Fact
from kvctl.types.findings import Remedy, Severity


def marking(seen: Fact[int], fleet: Fleet) -> Outcome:
    """A ToS or traffic class is right when its upper six bits are the DSCP: the ECN bits below may be anything."""
    tos, dscp = seen.or_none(), fleet.fabric.dscp
    if tos is None:
        return not_known(seen)
    wanted = f"{dscp << 2}..{(dscp << 2) + 3} (DSCP {dscp})"
    return judged(tos >> 2 == dscp, f"{tos} (DSCP {tos >> 2})", wanted, seen)


@check(
    id="cm.tos",
    severity=Severity.CRITICAL,
    title="RDMA CM connections are marked with the RoCE DSCP",
    reads=("nic.rdma.cm_tos",),
    right="default_roce_tos >> 2 is {dscp}",
    remedy=Remedy("roce", "cma_roce_tos -d {rdma} -t {tos}"),
    notes="104 to 107 all mean DSCP 26. The value is unknown when configfs is not mounted or rdma_cm is not loaded.",
)
@each_port
def tos(port: Port, fleet: Fleet) -> Outcome:
    return marking(port.nic.rdma.cm_tos, fleet)


@check(
    id="cm.mode",
    severity=Severity.CRITICAL,
    title="RDMA CM uses RoCE v2",
    reads=("nic.rdma.cm_mode",),
    right="default_roce_mode is RoCE v2",
    remedy=Remedy("roce", "cma_roce_mode -d {rdma} -p 1 -m 2"),
)
@each_port
def mode(port: Port, fleet: Fleet) -> Outcome:
    seen = port.nic.rdma.cm_mode
    if seen.or_none() is None:
        return not_known(seen)
    return judged(seen.value == "RoCE v2", seen.value, "RoCE v2", seen)


@check(
    id="tc.sysfs",
    severity=Severity.WARNING,
    title="Verbs traffic without an own mark gets the RoCE DSCP",
    reads=("nic.rdma.tclass",),
    right="tc/1/traffic_class >> 2 is {dscp}",
    remedy=Remedy("roce", "echo {tos} > /sys/class/infiniband/{rdma}/tc/1/traffic_class"),
    notes="Applications that build their own queue pairs (DevX, GPU-initiated) bypass it: set their traffic class too. "
    "The file is empty while nothing is set: unknown, not 0. Only the NVIDIA driver packages have it.",
)
@each_port
def tclass(port: Port, fleet: Fleet) -> Outcome:
    return marking(port.nic.rdma.tclass, fleet)
