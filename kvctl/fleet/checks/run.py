"""Runs every check over a fleet: raw outcomes, causes, waivers, order."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from kvctl.fleet.checks.causes import Raw, explain
from kvctl.fleet.checks.outcome import Outcome, Place, not_applicable, unclear
from kvctl.fleet.checks.readings import Certificate, ProbeResult, SwitchPort
from kvctl.fleet.checks.registry import CheckSpec, specs
from kvctl.fleet.checks.scope import Fleet, Host
from kvctl.fleet.checks.switch_output import read_ports
from kvctl.fleet.checks.waivers import waived
from kvctl.fleet.checks.wording import GENERIC, words
from kvctl.fleet.inventory.model import Inventory
from kvctl.types.facts import NodeFacts
from kvctl.types.findings import Evidence, Finding, Remedy, Severity, Verdict

NO_FACTS = "no facts from this node"
NO_SUBJECT = "the check found nothing to look at"


def run_checks(
    inventory: Inventory,
    facts: Mapping[str, NodeFacts],
    *,
    today: date,
    previous: Mapping[str, NodeFacts] | None = None,
    switches: Mapping[str, Sequence[SwitchPort] | str] | None = None,
    probes: Sequence[ProbeResult] | None = None,
    certificates: Sequence[Certificate] = (),
    extra: Iterable[Finding] = (),
    only: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Every finding, worst first.

    `facts` by node name; a node of the inventory without facts is UNKNOWN in every check. `previous` is an earlier
    reading of the same nodes, for what only growth can show. `switches`, by name: ports, or the text of the
    switch's own show commands. `probes`: results of marked transfers; None when none was asked for. `certificates`:
    the site's. `extra`: findings made elsewhere, waived and sorted alike. `only`: globs of check ids to return; all
    checks still run, so that causes are known.
    """
    fleet = Fleet(
        inventory,
        tuple(Host(node, inventory.role_of(node), facts[node.name]) for node in inventory.nodes if node.name in facts),
        previous,
        None if switches is None else {name: read_switch(given, inventory) for name, given in switches.items()},
        None if probes is None else tuple(probes),
        tuple(certificates),
        today,
    )
    raw = explain([(spec, place, out) for spec in specs() for place, out in outcomes(spec, fleet)])
    findings = [waived(finding(r, fleet), inventory.waivers, today, r[0].waivable) for r in raw]
    findings += [waived(f, inventory.waivers, today, True) for f in extra]
    wanted = [f for f in findings if not only or any(fnmatchcase(f.check, glob) for glob in only)]
    return tuple(sorted(wanted, key=rank))


def read_switch(given: Sequence[SwitchPort] | str, inventory: Inventory) -> tuple[SwitchPort, ...] | str:
    return read_ports(given, inventory.fabric.switch_vendor) if isinstance(given, str) else tuple(given)


def outcomes(spec: CheckSpec, fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    """What one check says of every node of the inventory: never silence, and never a PASS over nothing."""
    if spec.site_wide:
        yield from spec.judge(fleet)
        return
    by_node: dict[str, list[tuple[Place, Outcome]]] = {}
    for place, outcome in spec.judge(fleet):
        by_node.setdefault(place[0], []).append((place, outcome))
    present = {h.node.name for h in fleet.hosts}
    for node in fleet.inventory.nodes:
        kind = fleet.inventory.role_of(node).kind
        if kind not in spec.kinds:
            yield (node.name, ""), not_applicable(f"not for {kind} nodes")
        elif not spec.fed:
            yield (node.name, ""), not_applicable(spec.notes)
        elif node.name not in present:
            yield (node.name, ""), unclear(NO_FACTS)
        else:
            yield from by_node.get(node.name) or [((node.name, ""), unclear(NO_SUBJECT))]


def finding(raw: Raw, fleet: Fleet) -> Finding:
    spec, (node, subject), out = raw
    text = {**GENERIC, **words(fleet.fabric), **names_on(fleet, node, subject)}
    return Finding(
        check=spec.id,
        node=node,
        subject=subject,
        verdict=out.verdict,
        severity=out.severity or spec.severity,
        observed=out.observed or "-",
        expected=out.expected or ("" if out.verdict is Verdict.NOT_APPLICABLE else spec.right.format_map(text)),
        why=out.why,
        source="; ".join(dict.fromkeys(f.source for f in out.facts if f.source)),
        evidence=Evidence.SIMULATED if any(f.simulated for f in out.facts) else spec.evidence,
        remedy=remedy_of(spec, out, text),
    )


def remedy_of(spec: CheckSpec, out: Outcome, text: Mapping[str, str]) -> Remedy:
    if out.verdict is Verdict.UNKNOWN:
        return out.remedy or Remedy(text=unreadable(spec, out))
    if out.verdict is not Verdict.FAIL:
        return Remedy()
    return out.remedy or replace(spec.remedy, text=spec.remedy.text.format_map(text))


def unreadable(spec: CheckSpec, out: Outcome) -> str:
    """A fact that cannot be read is repaired by making it readable, not by a role that changes the node."""
    if out.why == NO_FACTS:
        return "Make the node answer (kvctl node ls), then check again."
    missing = [f.source for f in out.facts if f.or_none() is None and f.source]
    if missing:
        return f"Make {missing[0]} readable on the node, or waive {spec.id} with a reason; then check again."
    return f"Settle what the finding says is open, or waive {spec.id} with a reason; then check again."


def names_on(fleet: Fleet, node: str, subject: str) -> dict[str, str]:
    """Names that remedy texts use: the interface or drive, its RDMA device, its PCI address."""
    names = {"node": node, "subject": subject or node}
    host = next((h for h in fleet.hosts if h.node.name == node), None)
    nic = host.facts.nic(subject) if host else None
    if nic:
        names["rdma"] = nic.rdma.device.or_none() or "D"
        names["pci"] = nic.pci.or_none() or "PCI"
    return names


VERDICT_ORDER = (
    Verdict.FAIL, Verdict.UNKNOWN, Verdict.FOLLOWS, Verdict.WAIVED, Verdict.PASS, Verdict.NOT_APPLICABLE,
)  # fmt: skip
SEVERITY_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


def rank(f: Finding) -> tuple[bool, int, int, str, str, str]:
    """Sort key: what makes the exit code first, failures before unknowns inside one severity."""
    severity, verdict = SEVERITY_ORDER.index(f.severity), VERDICT_ORDER.index(f.verdict)
    if f.verdict in (Verdict.FAIL, Verdict.UNKNOWN):
        return (not f.bad, severity, verdict, f.node, f.check, f.subject)
    return (True, len(SEVERITY_ORDER) + verdict, severity, f.node, f.check, f.subject)
