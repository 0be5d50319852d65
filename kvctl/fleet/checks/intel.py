"""Limits of Intel E810 ports that a fabric plan must respect."""

from kvctl.fleet.checks.outcome import Outcome, judged, listed, not_applicable, not_known, unclear
from kvctl.fleet.checks.registry import check, each_port
from kvctl.fleet.checks.scope import Fleet, Port, family
from kvctl.types.findings import Remedy, Severity

# Intel's irdma README: with ToS steering only ToS 0, 8, 24 and 16 exist, on priorities 0, 2, 4 and 6.
REACHABLE = (0, 2, 4, 6)
CLASSES = 4
LLDP_FLAG = "fw-lldp-agent"


def not_ours(port: Port) -> Outcome | None:
    kind = family(port.nic)
    if kind is None:
        return not_known(port.nic.driver, port.nic.vendor_id)
    return None if kind == "ice" else not_applicable("not an Intel E810")


@check(
    id="intel.e810",
    severity=Severity.CRITICAL,
    title="The site's class can exist on an E810",
    reads=("nic.driver", "nic.qos.prio_tc"),
    right="lossless priority 0, 2, 4 or 6; at most four traffic classes, contiguous from 0",
    remedy=Remedy(
        text="Choose one lossless_priority for the whole fleet that an E810 can reach (0, 2, 4, 6), on hosts and "
        "switches; it has one lossless class at most."
    ),
    notes="A fleet that mixes ConnectX and E810 cannot keep the usual priority 3 for both.",
)
@each_port
def e810(port: Port, fleet: Fleet) -> Outcome:
    early = not_ours(port)
    if early:
        return early
    priority, table = fleet.fabric.lossless_priority, port.nic.qos.prio_tc
    if priority not in REACHABLE:
        return judged(False, f"lossless priority {priority}", f"one of {listed(REACHABLE)}", port.nic.driver)
    used = table.or_none()
    if used is None:
        return not_known(table)
    if not used:
        return unclear("the traffic class table is empty", table)
    classes = sorted(set(used.values()))
    right = len(classes) <= CLASSES and classes == list(range(len(classes)))
    return judged(right, f"traffic classes {listed(classes)}", f"0..{CLASSES - 1}, contiguous", table)


@check(
    id="intel.lldp",
    severity=Severity.WARNING,
    title="One LLDP agent only",
    reads=("nic.priv_flags",),
    also=("host.services",),
    right="fw-lldp-agent off with fabric.dcbx os, on with firmware; with any, not together with lldpad",
    remedy=Remedy(text="ethtool --set-priv-flags {subject} fw-lldp-agent off and run lldpad (or on, without lldpad)."),
)
@each_port
def lldp(port: Port, fleet: Fleet) -> Outcome:
    early = not_ours(port)
    if early:
        return early
    flags = port.nic.priv_flags.or_none()
    if flags is None:
        return not_known(port.nic.priv_flags)
    if LLDP_FLAG not in flags:
        return unclear(f"the driver shows no flag {LLDP_FLAG}", port.nic.priv_flags)
    agent, wanted = flags[LLDP_FLAG], {"os": False, "firmware": True}.get(fleet.fabric.dcbx)
    if wanted is not None:
        return judged(agent == wanted, on_off(agent), on_off(wanted), port.nic.priv_flags)
    services = port.host.facts.host.services.or_none()
    if not agent:
        return judged(True, "off", "one agent", port.nic.priv_flags)
    if services is None:
        return not_known(port.host.facts.host.services)
    daemon = "lldpad.service" in services and services["lldpad.service"].active == "active"
    return judged(not daemon, "firmware and lldpad" if daemon else "firmware", "one agent", port.nic.priv_flags)


def on_off(value: bool) -> str:
    return "on" if value else "off"
