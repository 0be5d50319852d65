"""The fleet: nodes, a node's findings, a finding's cause, and the steps of the plan that would repair it."""

from __future__ import annotations

from collections.abc import Sequence

from kvctl.tui.tables import Ask, Column, Doc, Level, Table, of
from kvctl.tui.words import age, counted, moment, plain, severity, state
from kvctl.types.requests import Nothing, PlanNamed

CAUSE = (
    ("read", "observed"), ("expected", "expected"), ("why", "why"), ("read from", "source"), ("evidence", "evidence"),
)  # fmt: skip


def worst(node: Doc) -> str:
    if node["error"]:
        return f"!! did not answer: {plain(node['error'])}"
    if node["worst"]:
        return f"{'!!' if node['critical'] else '! '} {plain(node['worst'])}"
    return "?  never read" if node["read_age"] is None else "+  none"


def nodes(ask: Ask) -> Sequence[Doc]:
    return list(ask("fleet.status", Nothing())["nodes"])


def findings(ask: Ask) -> list[Doc]:
    """Worst first."""
    found = list(ask("fleet.findings", Nothing())["findings"])
    return sorted(found, key=lambda f: (not f.get("bad"), f["severity"] != "critical", f["verdict"] != "fail"))


def identity(finding: Doc) -> tuple[str, str, str]:
    return finding["node"], finding["check"], finding["subject"]


def node_level(node: Doc) -> Level:
    name = node["node"]
    table = Table(
        "findings", FINDING[1:], lambda f: "\0".join(identity(f)),
        lambda ask: [f for f in findings(ask) if f["node"] == name], of("bad"), finding_level, count=kinds,
        empty=f"no findings: kvctl check --node {name} reads it again",
    )  # fmt: skip
    return Level(name, (table,))


def finding_level(finding: Doc) -> Level:
    steps = Level("plan", text=lambda ask: plan_text(ask("fleet.plan", PlanNamed())["plan"], finding))
    text = cause(finding)
    return Level(f"{finding['check']} {finding['subject']}".strip(), text=lambda ask: text, behind=steps)


def cause(finding: Doc) -> str:
    """What was read, what it should be, and what puts it right."""
    lines = [
        f"{plain(finding['check'])} of {plain(finding['subject'])} on {plain(finding['node'])}",
        f"{severity(finding['severity'])}, verdict {plain(finding['verdict'])}", "",
    ]  # fmt: skip
    lines += [f"{title:10} {plain(finding[name])}" for title, name in CAUSE if finding.get(name)]
    lines += ["", *remedy(finding.get("remedy") or {}), "", "enter: the plan's steps for it"]
    return "\n".join(lines)


def remedy(found: Doc) -> list[str]:
    role = found.get("role")
    lines = [
        f"{'remedy':10} " + (f"role {plain(role)}" if role else "none that kvctl carries out: hands or the vendor")
    ]
    lines += [f"{'':10} {plain(found['text'])}"] if found.get("text") else []
    lines += [f"{'':10} ! needs a reboot"] if found.get("reboot") else []
    lines += [f"{'':10} !! destroys data"] if found.get("destroys_data") else []
    return lines


def plan_text(plan: Doc, finding: Doc) -> str:
    node, check, subject = identity(finding)
    steps = [step for step in plan["steps"] if step["node"] == node and check in step["because"]]
    refused = [r for r in plan.get("refusals", ()) if (r["node"], r["check"], r["subject"]) == (node, check, subject)]
    lines = [
        f"plan {plain(plan['id'])} of {moment(plan['created'])} UTC",
        f"facts of {plain(node)} read {moment(plan.get('facts_at', {}).get(node))}",
    ]
    for step in steps:
        lines += ["", *step_lines(step)]
    for one in refused:
        lines += ["", f"!! refused {plain(one['code'])}: {plain(one['why'])}", f"   to do: {plain(one['fix'])}"]
    if not steps and not refused:
        lines += ["", f"this plan has no step for it; kvctl plan --node {plain(node)} makes a new one"]
    elif steps:
        lines += ["", f"carry it out: kvctl provision --plan {plain(plan['id'])}"]
    return "\n".join(lines)


def step_lines(step: Doc) -> list[str]:
    marks = [word for name, word in (("reboot", "reboot"), ("cuts_ssh", "cuts SSH")) if step.get(name)]
    marks += [f"destroys {', '.join(step['destroys_data'])}"] if step.get("destroys_data") else []
    head = f"{plain(step['id'])} {plain(step['node'])} role {plain(step['role'])}"
    lines = [head + (f"  ! {', '.join(marks)}" if marks else "")]
    for change in step["changes"]:
        lines.append(f"  {plain(change['subject'])} {plain(change['name'])}")
        lines.append(f"    {plain(change['before'])} -> {plain(change['after'])}")
    return lines


def health(nodes: Sequence[Doc]) -> str:
    """How many nodes are how, so that a fleet of a thousand is said in a line."""
    said = [
        (sum(bool(n["error"]) for n in nodes), "did not answer"),
        (sum(bool(n["critical"]) for n in nodes), "critical"),
    ]
    said += [(sum(bool(n["faults"] and not n["critical"]) for n in nodes), "with warnings")]
    said += [(sum(n["read_age"] is None for n in nodes), "never read")]
    return ", ".join([f"{len(nodes)} nodes", *(f"{count} {word}" for count, word in said if count)])


def kinds(found: Sequence[Doc]) -> str:
    return counted((f["severity"] if f.get("bad") else "not known" for f in found), ("critical", "warning"))


NODES = Table(
    "nodes",
    (
        Column("node", 16, of("node")), Column("role", 8, of("role"), rank=3),
        Column("state", 13, of("state"), state, rank=1), Column("faults", 6, of("faults"), str, rank=4),
        Column("worst finding", 0, worst), Column("facts", 6, of("read_age"), age, rank=2),
    ),
    of("node"), nodes, lambda n: bool(n["faults"] or n["error"] or n["state"] == "drained"), node_level, count=health,
    empty="no nodes: kvctl init writes an inventory, kvctl check reads its nodes",
)  # fmt: skip
FINDING = (
    Column("node", 16, of("node")), Column("severity", 12, of("severity"), severity),
    Column("verdict", 8, of("verdict"), rank=3), Column("check", 16, of("check")),
    Column("subject", 0, of("subject")), Column("read", 12, of("observed"), rank=2),
)  # fmt: skip
FINDINGS = Table(
    "findings",
    FINDING,
    lambda f: "\0".join(identity(f)),
    findings,
    of("bad"),
    finding_level,
    count=kinds,
    empty="no findings: kvctl check reads the nodes and judges them",
)
