"""Findings to steps. Pure: the same facts, findings and inventory give the same hash."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from kvctl.fleet.inventory.model import Inventory, Node
from kvctl.fleet.plan.intent import intent, limited
from kvctl.fleet.plan.preconditions import find_drive, read
from kvctl.types.facts import Drive, NodeFacts
from kvctl.types.findings import Finding, Severity, Verdict
from kvctl.types.plans import Change, Plan, Refusal, Step, Uncut

# Firmware before the class that it may reset; drives before the daemon that reports them.
ROLES = ("host", "nic_firmware", "roce", "nvme", "node")
UNCUT = {"nic_firmware": Uncut.UNIT, "roce": Uncut.NETWORK, "nvme": Uncut.UNIT}


def build(
    inventory: Inventory,
    facts: Mapping[str, NodeFacts],
    findings: Sequence[Finding],
    *,
    created: str,
    limit: frozenset[str] | None = None,
    may_destroy: frozenset[str] = frozenset(),
) -> Plan:
    """The plan that would put every repairable finding right.

    `created` is the caller's clock (UTC, RFC 3339); `limit` names the nodes to plan for (None: all);
    `may_destroy` are drive serials whose contents the operator gave up by name.
    """
    steps: list[Step] = []
    refusals: list[Refusal] = []
    desired: dict[str, dict[str, Any]] = {}
    nodes = [n for n in inventory.nodes if limit is None or n.name in limit]
    for node in nodes:
        known = facts.get(node.name)
        if known is None:
            continue
        wanted = intent(inventory, node, known, may_destroy=may_destroy)
        desired[node.name] = wanted
        mine = [f for f in findings if f.node == node.name]
        made, refused = node_steps(node, known, mine, wanted)
        steps += made
        refusals += refused
    steps.sort(key=lambda s: (s.node, ROLES.index(s.role)))
    plan = Plan(
        id="",
        hash="",
        site=inventory.site.name,
        created=created,
        nodes=tuple(n.name for n in nodes),
        destroy=tuple(sorted(may_destroy)),
        facts_at={n.name: facts[n.name].at for n in nodes if n.name in facts},
        steps=tuple(replace(s, id=f"s{i:02d}") for i, s in enumerate(steps, 1)),
        refusals=tuple(refusals),
        unreachable=tuple(n.name for n in nodes if n.name not in facts),
        desired=desired,
    )
    digest = plan_hash(plan)
    return replace(plan, hash=digest, id=f"p-{digest[:12]}")


def plan_hash(plan: Plan) -> str:
    """SHA-256 over the canonical JSON of what would be done; when it was planned is not part of it."""
    body = asdict(plan)
    for key in ("id", "hash", "created", "facts_at"):
        del body[key]
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def node_steps(
    node: Node, facts: NodeFacts, findings: Sequence[Finding], wanted: Mapping[str, Any]
) -> tuple[list[Step], list[Refusal]]:
    by_role: dict[str, list[Finding]] = defaultdict(list)
    refusals: list[Refusal] = []
    for finding in findings:
        if finding.verdict is not Verdict.FAIL:
            continue
        role = finding.remedy.role
        refusal = refuse(finding, facts, wanted)
        if refusal is not None:
            if finding.severity is not Severity.INFO:
                refusals.append(refusal)
        elif role:
            by_role[role].append(finding)
    # A reset takes the class with it, so the class is set again behind the firmware.
    reset = {f.subject: f.check for f in by_role.get("nic_firmware", ())} if "roce" in wanted else {}
    if reset:
        by_role.setdefault("roce", [])
    steps = [make_step(node, facts, role, found, wanted[role], reset) for role, found in by_role.items()]
    return steps, refusals


def refuse(finding: Finding, facts: NodeFacts, wanted: Mapping[str, Any]) -> Refusal | None:
    """Why kvctl will not repair this finding by itself, or None when it will."""

    def no(code: str, why: str, fix: str) -> Refusal:
        return Refusal(finding.node, finding.check, finding.subject, code, why, fix)

    role = finding.remedy.role
    if not role:
        return no("KV-PLAN-001", "no role of kvctl can change this", finding.remedy.text)
    if role not in wanted:
        return no("KV-PLAN-002", f"the inventory gives role {role} nothing to set on this node", finding.remedy.text)
    args = wanted[role]
    if role == "nic_firmware":
        device = next((d for d in args["devices"] if d["netdev"] == finding.subject), None)
        if device is None:
            return no("KV-PLAN-003", "no firmware is pinned for this PSID", "pin it under roles.*.nic.firmware")
        if not device["image"] and finding.check != "nic.fw.pending":
            return no("KV-PLAN-004", "the pin names no image", "add image and sha256 to the pin")
    if role == "nvme":
        return refuse_drive(finding, facts, args, no)
    return None


def refuse_drive(finding: Finding, facts: NodeFacts, args: Mapping[str, Any], no: Any) -> Refusal | None:
    wanted = next((d for d in args["drives"] if d["serial"] == finding.subject), None)
    drive = find_drive(facts, finding.subject)
    if wanted is None or drive is None:
        return no("KV-PLAN-005", "the drive is not one of the inventory's cache drives", finding.remedy.text)  # type: ignore[no-any-return]
    if finding.remedy.destroys_data and not wanted["may_format"]:
        held = "; ".join(describe(drive)) or "its contents could not be read"
        return no(  # type: ignore[no-any-return]
            "KV-PLAN-006",
            f"it would destroy what is on the drive: {held}",
            f"kvctl plan --destroy {finding.subject}, after its data is saved and it is not in use",
        )
    return None


def describe(drive: Drive) -> list[str]:
    """What a person must know before the drive is wiped."""
    lines = []
    for ns in drive.namespaces:
        contents = ns.contents.or_none()
        if contents is None:
            continue
        parts = {
            "file system": contents.fstype,
            "mounted at": ", ".join(contents.mounts),
            "partitions": ", ".join(contents.partitions),
            "held by": ", ".join(contents.holders),
            "signatures": ", ".join(contents.signatures),
        }
        lines += [f"{name} {text}" for name, text in parts.items() if text]
    return lines


def make_step(
    node: Node,
    facts: NodeFacts,
    role: str,
    findings: Sequence[Finding],
    wanted: Mapping[str, Any],
    reset: Mapping[str, str],
) -> Step:
    """`reset`: interfaces whose class a firmware step of the same node takes away, each with that step's check."""
    changes = [Change(f.subject, f.check, f.observed, f.expected) for f in findings]
    subjects = {f.subject for f in findings if f.subject}
    if role == "roce":
        changes += [
            Change(s, "qos.class", "lost with the NIC's reset", "set again") for s in sorted(reset.keys() - subjects)
        ]
        subjects |= reset.keys()
    args = limited(wanted, subjects) if subjects and role != "node" else dict(wanted)
    reboot = any(f.remedy.reboot for f in findings)
    if role == "nic_firmware":
        args["reboot"] = reboot  # the plan says so, and one node of a pool follows another
    identities = read(facts, identity_keys(args))
    return Step(
        id="",
        node=node.name,
        role=role,
        verb="apply",
        args=args,
        preconditions={k: v for k, v in identities.items() if v},
        changes=tuple(changes),
        because=tuple(sorted({f.check for f in findings} or set(reset.values()))),
        uncut=UNCUT.get(role, Uncut.NO),
        reboot=reboot,
        cuts_ssh=role == "roce" and any(may_carry_ssh(facts, i["netdev"]) for i in args["interfaces"]),
        destroys_data=destroyed(facts, role, findings),
    )


def identity_keys(args: Mapping[str, Any]) -> list[str]:
    """Stable identities only: serial, PCI address, PSID. Never nvmeN, an index or a counter."""
    keys = ["host.machine_id"]
    for item in [*args.get("devices", ()), *args.get("interfaces", ())]:
        keys += [f"nic.pci:{item['netdev']}", f"nic.psid:{item['netdev']}"]
    return keys + [f"drive.pci:{item['serial']}" for item in args.get("drives", ())]


def may_carry_ssh(facts: NodeFacts, netdev: str) -> bool:
    nic = facts.nic(netdev)
    return nic is None or nic.carries_ssh.or_none() is not False


def destroyed(facts: NodeFacts, role: str, findings: Sequence[Finding]) -> tuple[str, ...]:
    if role != "nvme":
        return ()
    serials = sorted({f.subject for f in findings if f.remedy.destroys_data})
    return tuple(s for s in serials if (drive := find_drive(facts, s)) is not None and describe(drive))
