"""The reference page of the checks, generated from the registry."""

from kvctl.fleet.checks.all import MODULES
from kvctl.fleet.checks.registry import REGISTRY, CheckSpec, specs
from kvctl.fleet.checks.wording import GENERIC
from kvctl.types.findings import Evidence

INTRODUCTION = """\
# Checks

Generated from `kvctl/fleet/checks`; do not edit. Priorities, code points, MTU and all other numbers come from the
inventory (`fabric`, `roles`); `P`, `DSCP`, `MTU` below stand for them, `IF` for an interface, `D` for its RDMA device.

## How to read a finding

| verdict | meaning | exit code 3 |
|---|---|---|
| fail | the value is wrong | critical and warning |
| unknown | it could not be read or decided; the finding says why | critical |
| follows | wrong only because of the finding that it names: repair that one | no |
| waived | accepted in the inventory, with a reason and a last day | no |
| pass | it was read and is right | no |
| not-applicable | there is nothing to judge; the finding says why | no |

- Nothing passes without something that was looked at. A node without facts is unknown in every check; a value that
  could not be read is unknown; a counter that a driver does not show is not a zero.
- Evidence is `simulated` (a stand-in of the lab answered), `read-back` (the kernel or the device says so) or `effect`
  (traffic or counters showed it).
- Fabric ports are the rails of the node's role or, without rails, every physical NIC with an Ethernet RDMA device.
  Virtual functions and management NICs are never judged.
- Ports face each other when one of the nodes is a storage node and they are on one rail: the same subnet, else the
  same position in the role's list. A difference is reported at the end that differs from at least half of the ports
  that it faces; the other ends follow.
- Parity without pins: equal parts are compared across the fleet. Agreement of two nodes or more passes, because
  parity is all that was asked for and it holds. A difference needs three nodes or more and a value that more than
  half of the ports have; otherwise, and on a single node, it is unknown. A pin in the inventory decides at once.
- A waiver holds through its last day. One that has ended is mentioned in the finding and waives nothing.
"""


def markdown() -> str:
    """The whole page."""
    parts = [INTRODUCTION, overview()]
    for module in sorted(MODULES, key=lambda m: m.__name__):
        mine = [spec for spec in specs() if spec.judge.__module__ == module.__name__]
        if mine:
            parts.append(f"## {(module.__doc__ or '').split('.')[0].splitlines()[0].rstrip(':')}\n")
            parts += [entry(spec) for spec in mine]
    return "\n".join(parts)


def overview() -> str:
    rows = [f"| [{s.id}](#{s.anchor}) | {s.severity.value} | {s.title} | {who(s)} |" for s in specs()]
    return "\n".join(["## All checks\n", "| check | severity | what | repaired by |", "|---|---|---|---|", *rows, ""])


def who(spec: CheckSpec) -> str:
    if not spec.fed:
        return "not read yet"
    return f"role `{spec.remedy.role}`" if spec.remedy.role else "hands"


def entry(spec: CheckSpec) -> str:
    """One check's section, under an anchor that does not change."""
    lines = [f'<a id="{spec.anchor}"></a>', "", f"### {spec.id}", "", f"{spec.title}.", ""]
    lines.append(f"- Severity: {spec.severity.value}{'' if spec.waivable else '; cannot be waived'}")
    lines.append(f"- Right: {spec.right.format_map(GENERIC)}")
    if spec.reads:
        lines.append(f"- Reads: {codes(spec.reads)}")
    if spec.also:
        lines.append(f"- Uses when known: {codes(spec.also)}")
    if spec.kinds != ("storage", "gpu"):
        lines.append(f"- For {', '.join(spec.kinds)} nodes")
    if spec.after:
        lines.append("- Follows: " + ", ".join(f"[{c}](#{REGISTRY[c].anchor})" for c in spec.after))
    lines.append(f"- Evidence: {'effect' if spec.evidence is Evidence.EFFECT else 'read-back'}, or simulated in a lab")
    lines.append(f"- Remedy: {remedy(spec)}")
    if spec.notes:
        lines.append(f"- {'Not applicable on every node: ' + spec.notes if not spec.fed else spec.notes}")
    return "\n".join([*lines, ""])


def codes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def remedy(spec: CheckSpec) -> str:
    flags = [word for word, on in (("needs a reboot or reset", spec.remedy.reboot),
                                   ("destroys data", spec.remedy.destroys_data)) if on]  # fmt: skip
    text = spec.remedy.text.format_map(GENERIC).rstrip(".")
    return f"{text}{' (' + ', '.join(flags) + ')' if flags else ''}. {by(spec)}"


def by(spec: CheckSpec) -> str:
    return f"`kvctl provision` does it (role `{spec.remedy.role}`)." if spec.remedy.role else "By hand."
