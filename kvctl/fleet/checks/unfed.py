"""Checks that the list names and that no fact feeds yet: always not applicable, with the reason, never silent."""

from collections.abc import Iterable

from kvctl.fleet.checks.outcome import Outcome, Place
from kvctl.fleet.checks.registry import check
from kvctl.fleet.checks.scope import Fleet
from kvctl.types.findings import Remedy, Severity


def nothing(fleet: Fleet) -> Iterable[tuple[Place, Outcome]]:
    """The runner gives each node one NOT_APPLICABLE with the check's notes."""
    return ()


def unfed(id: str, severity: Severity, title: str, right: str, remedy: str, why: str) -> None:
    check(id=id, severity=severity, title=title, right=right, remedy=Remedy(text=remedy), notes=why, fed=False)(nothing)


unfed(
    "net.route",
    Severity.WARNING,
    "Traffic leaves by the port whose address it carries",
    "a policy route a fabric port; rp_filter, arp_ignore and arp_announce that fit several ports in a subnet",
    "One routing table a port (ip rule from ADDRESS), arp_ignore 1, arp_announce 2, rp_filter 2.",
    "the facts hold no policy routes yet",
)
unfed(
    "pcie.mrrs",
    Severity.WARNING,
    "The NIC's maximum read request is large",
    "MaxReadReq 4096",
    "setpci -s {pci} CAP_EXP+8.w, in a boot unit: it is not kept.",
    "the facts hold no MaxReadReq yet",
)
unfed(
    "pcie.ro",
    Severity.INFO,
    "Relaxed ordering is as the site wants it",
    "RlxdOrd in DevCtl as on the node's equals",
    "mlxconfig -d {pci} set PCI_WR_ORDERING=1, then reboot.",
    "the facts hold no relaxed-ordering bit yet",
)
unfed(
    "nic.drv.lib",
    Severity.WARNING,
    "Kernel driver and userspace provider fit",
    "versions of one release (Broadcom: equal)",
    "Install the provider library of the driver's release.",
    "the facts hold no userspace provider version yet",
)
unfed(
    "app.tc",
    Severity.CRITICAL,
    "Services mark their own queue pairs",
    "the same traffic class in NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS and MC_* on both ends",
    "Set the variables to {tos} in the units of the services on both ends.",
    "the facts hold no environment of services yet",
)
