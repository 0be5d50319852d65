"""The switch's side of the class, from its own `show` output (--switch-output)."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from kvctl.fleet.checks.outcome import Outcome, Place, judged, listed, not_applicable, not_known, unclear
from kvctl.fleet.checks.readings import SwitchPort
from kvctl.fleet.checks.registry import Judge, check
from kvctl.fleet.checks.scope import Fleet
from kvctl.types.facts import Fact
from kvctl.types.findings import Remedy, Severity

NOT_GIVEN = "no switch output was given: pass --switch-output FILE, or let kvctl read the switch by SSH"


def over_switches(os: str) -> Judge:
    """A judge of every port of the switches with this operating system."""

    def run(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
        found = False
        for name, given in sorted((fleet.switches or {}).items()):
            if isinstance(given, str):
                if fleet.fabric.switch_vendor in (os, "none"):
                    found = True
                    yield (name, ""), unclear(given)
                continue
            ports = [port for port in given if port.os == os]
            if ports:
                found = True
                if not any(port.node or port.whole for port in ports):
                    yield (name, ""), any_port(ports, fleet.fabric.lossless_priority)
                for port in ports:
                    yield (name, port.port), judge_port(port, fleet.fabric.lossless_priority)
        if not found:
            yield ("", ""), nothing_given(os, fleet)

    return run


def nothing_given(os: str, fleet: Fleet) -> Outcome:
    vendor = fleet.fabric.switch_vendor
    if vendor == os:
        return unclear(NOT_GIVEN, severity=Severity.WARNING)
    return not_applicable("the site names no switch" if vendor == "none" else f"the site's switches run {vendor}")


def any_port(ports: list[SwitchPort], priority: int) -> Outcome:
    """Without knowing who is on which port, a switch that runs the class nowhere is certainly wrong."""
    carrying = [port.port for port in ports if priority in (port.pfc.or_none() or ())]
    facts = tuple(port.pfc for port in ports)
    if not carrying and any(f.or_none() is None for f in facts):
        return not_known(*facts)
    return judged(
        bool(carrying), f"{len(carrying)} of {len(ports)} ports", f"PFC on {priority} on the nodes' ports", *facts
    )


def judge_port(port: SwitchPort, priority: int) -> Outcome:
    """One port: the class's priority, in the mode that makes it real, watched, and not stormed now.

    A port of which nothing says that a node of the fleet is on it may be unused: it is only mentioned.
    """
    facts: list[Fact[Any]] = [port.pfc]
    faults: list[str] = []
    seen = port.pfc.or_none()
    if seen is not None and priority not in seen:
        faults.append(f"PFC on {listed(seen)}")
    for fact, right, text in settings(port):
        facts.append(fact)
        if fact.or_none() is not None and not right:
            faults.append(text)
    ours = bool(port.node) or port.whole
    why = "" if ours else "nothing says which node is on this port"
    if faults:
        severity = None if ours else Severity.INFO
        return judged(False, "; ".join(faults), f"PFC on {priority}", *facts, severity=severity, why=why)
    if any(f.or_none() is None for f in facts):
        return not_known(*facts, severity=Severity.WARNING if seen is not None or not ours else None)
    return judged(True, f"PFC on {listed(seen or ())}", f"PFC on {priority}", *facts, why=why)


def settings(port: SwitchPort) -> list[tuple[Fact[Any], bool, str]]:
    """What this operating system shows beside the priorities: (fact, is right, what to say when it is not)."""
    mode = {"nxos": "on", "cumulus": "lossless"}.get(port.os)
    rows: list[tuple[Fact[Any], bool, str]] = []
    if mode is not None:
        rows.append((port.mode, port.mode.or_none() == mode, f"mode {port.mode.value}, not {mode}"))
    if port.os in ("nxos", "eos"):
        rows.append((port.oper, port.oper.or_none() is True, "PFC does not run"))
    if port.os in ("sonic", "eos"):
        rows.append((port.watchdog, port.watchdog.or_none() is True, "no PFC watchdog"))
    if port.os == "sonic":
        rows.append((port.storm, port.storm.or_none() is False, "a queue is stormed"))
    return rows


register = partial(check, severity=Severity.CRITICAL, site_wide=True)

register(
    id="sw.sonic",
    title="SONiC ports run PFC on the lossless priority, watched",
    reads=("switch.pfc", "switch.watchdog", "switch.storm"),
    right="each port's lossless priorities contain {priority}, the watchdog is set, no queue is stormed",
    remedy=Remedy(
        text="On the switch: PORT_QOS_MAP pfc_enable {priority} for the port, pfcwd start; then config save. "
        "config qos reload interrupts traffic."
    ),
    notes="Per port: a global flag says nothing. Headroom and WRED are not read yet. For all switches: a port is "
    "critical when it is known which node is on it, else only mentioned; critical is then a switch that runs the class "
    "on no port.",
)(over_switches("sonic"))

register(
    id="sw.cumulus",
    title="Cumulus runs RoCE lossless",
    reads=("switch.pfc", "switch.mode"),
    right="nv show qos roce: mode lossless, PFC on {priority}",
    remedy=Remedy(text="nv set qos roce; nv config apply (may interrupt traffic); nv config save."),
)(over_switches("cumulus"))

register(
    id="sw.nxos",
    title="NX-OS ports run PFC",
    reads=("switch.pfc", "switch.mode", "switch.oper"),
    right="Mode On and Oper On, network-qos pause pfc-cos {priority}",
    remedy=Remedy(
        text="interface X: priority-flow-control mode on; network-qos: pause pfc-cos {priority}; copy run start."
    ),
    notes="Mode Auto waits for DCBX, which a host that negotiates nothing never answers.",
)(over_switches("nxos"))

register(
    id="sw.eos",
    title="EOS ports run PFC, watched",
    reads=("switch.pfc", "switch.oper", "switch.watchdog"),
    right="port status enabled and active, priority {priority} no-drop, watchdog set",
    remedy=Remedy(
        text="interface X: priority-flow-control on, priority-flow-control priority {priority} no-drop; "
        "priority-flow-control pause watchdog; write mem."
    ),
    notes="PFC can be enabled globally with every port disabled.",
)(over_switches("eos"))
