"""Non-volatile NIC settings (mlxconfig). They need NVIDIA's tool, so what it does not say is a warning."""

import re
from collections.abc import Callable

from kvctl.fleet.checks.outcome import Outcome, judged, not_applicable, not_known, unclear
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port, family
from kvctl.types.facts import NvConfig
from kvctl.types.findings import Remedy, Severity

WARNING = Severity.WARNING


def number(text: str) -> int | None:
    """The number in mlxconfig's "ETH(2)", "48" or "0xff"; None when there is none."""
    found = re.fullmatch(r".*\((\d+)\)|(\d+)|(0[xX][0-9a-fA-F]+)", text.strip())
    if found is None:
        return None
    named, plain, hexadecimal = found.groups()
    return int(hexadecimal, 16) if hexadecimal else int(named or plain)


def port_name(port: Port, setting: str) -> str:
    """LINK_TYPE -> LINK_TYPE_P2 on PCI function 1 of a card that has a second port."""
    function = (port.nic.pci.or_none() or "").rpartition(".")[2]
    second = f"{setting}_P2"
    rows = port.nic.nvconfig.or_none() or {}
    return second if function == "1" and second in rows else f"{setting}_P1"


def unread(port: Port) -> Outcome | None:
    """The outcome of every check here for a NIC without such settings, or without an answer."""
    kind = family(port.nic)
    if kind is not None and kind != "mlx5":
        return not_applicable("mlxconfig settings exist on NVIDIA cards only")
    if port.nic.nvconfig.or_none() is None:
        return not_known(port.nic.nvconfig, severity=WARNING)
    return None


def settled(port: Port, names: dict[str, tuple[Callable[[str], bool], str]]) -> Outcome:
    """Judge settings by name: each must satisfy its rule now and after the next boot."""
    rows = port.nic.nvconfig.or_none() or {}
    absent = [name for name in names if name not in rows]
    if absent:
        return unclear(f"the card does not show {', '.join(absent)}", port.nic.nvconfig, severity=WARNING)
    seen = ", ".join(f"{name} {shown(rows[name])}" for name in names)
    expected = ", ".join(f"{name} {text}" for name, (_, text) in names.items())
    if any(rows[name].current is None for name in names):
        return unclear("the current value is not shown", port.nic.nvconfig, observed=seen, severity=WARNING)
    right = all(rule(rows[n].current or "") and rule(rows[n].next_boot) for n, (rule, _) in names.items())
    return judged(right, seen, expected, port.nic.nvconfig)


def shown(row: NvConfig) -> str:
    return row.next_boot if row.current == row.next_boot else f"{row.current or '?'} (next boot {row.next_boot})"


def equals(value: int) -> tuple[Callable[[str], bool], str]:
    return (lambda text: number(text) == value), str(value)


@check(
    id="nv.linktype",
    severity=Severity.CRITICAL,
    title="The port is Ethernet, now and after a reboot",
    reads=("nic.nvconfig",),
    right="LINK_TYPE_Px is ETH(2), current and next boot",
    remedy=Remedy(text="mlxconfig -d {pci} set LINK_TYPE_P1=2 (P2 for the second port), then reboot.", reboot=True),
)
@each_port
def linktype(port: Port, fleet: Fleet) -> Outcome:
    early = unread(port)
    if early:
        return early
    name = port_name(port, "LINK_TYPE")
    if port.nic.nvconfig.or_none() and name not in (port.nic.nvconfig.value or {}):
        return not_applicable(f"the card has no {name}: it is Ethernet only")
    return settled(port, {name: (lambda text: number(text) == 2, "ETH(2)")})


@check(
    id="nv.rocecc",
    severity=WARNING,
    title="Congestion control covers the lossless priority in firmware",
    reads=("nic.nvconfig",),
    right="ROCE_CC_PRIO_MASK_Px has bit {priority} set",
    remedy=Remedy(text="mlxconfig -d {pci} set ROCE_CC_PRIO_MASK_P1=255, then reboot.", reboot=True),
)
@each_port
def rocecc(port: Port, fleet: Fleet) -> Outcome:
    if fleet.fabric.ecn != "dcqcn":
        return not_applicable(f"the site's ECN policy is {fleet.fabric.ecn}")
    bit = 1 << fleet.fabric.lossless_priority
    rule = ((lambda text: bool((number(text) or 0) & bit)), f"with bit {fleet.fabric.lossless_priority}")
    return unread(port) or settled(port, {port_name(port, "ROCE_CC_PRIO_MASK"): rule})


@check(
    id="nv.cnp",
    severity=WARNING,
    title="Congestion notifications are marked as the site says, in firmware",
    reads=("nic.nvconfig",),
    right="CNP_DSCP_Px is {cnp_dscp} and CNP_802P_PRIO_Px is {cnp_priority}",
    remedy=Remedy(
        text="mlxconfig -d {pci} set CNP_DSCP_P1={cnp_dscp} CNP_802P_PRIO_P1={cnp_priority}, then reboot.", reboot=True
    ),
    notes="The driver's ecn/roce_np/cnp_dscp overrides it while the driver is loaded: ecn.cnp judges that layer.",
)
@each_port
def cnp(port: Port, fleet: Fleet) -> Outcome:
    if fleet.fabric.ecn != "dcqcn":
        return not_applicable(f"the site's ECN policy is {fleet.fabric.ecn}")
    return unread(port) or settled(
        port,
        {
            port_name(port, "CNP_DSCP"): equals(fleet.fabric.cnp_dscp),
            port_name(port, "CNP_802P_PRIO"): equals(fleet.fabric.cnp_priority),
        },
    )


@check(
    id="nv.policy",
    severity=WARNING,
    title="Other non-volatile settings are as the role says",
    reads=("nic.nvconfig",),
    right="each setting of the role's nic.nvconfig, current and next boot",
    remedy=Remedy(text="mlxconfig -d {pci} set NAME=VALUE for each difference, then reboot.", reboot=True),
    after=("nv.linktype", "nv.rocecc", "nv.cnp"),
)
@each_port
def policy(port: Port, fleet: Fleet) -> Outcome:
    wanted = port.host.role.nic.nvconfig
    if not wanted:
        return not_applicable("the role lists no nvconfig")
    return unread(port) or settled(port, {name: written(value) for name, value in wanted.items()})


def written(value: str) -> tuple[Callable[[str], bool], str]:
    """ETH(2), 2 and ETH mean the same row: compare numbers where both have one, else texts."""
    wanted = number(value)

    def rule(text: str) -> bool:
        return text == value or (wanted is not None and number(text) == wanted)

    return rule, value
