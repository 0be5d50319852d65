"""kvctl plan."""

from typing import Any

import click

from kvctl.cli.options import (
    choose,
    connect,
    controller_option,
    inventory_option,
    output_option,
    pace_options,
    selection_options,
)
from kvctl.cli.output import colored, emit, note, printable, table
from kvctl.types.errors import ExitCode
from kvctl.types.plans import Plan, Step

COLUMNS = ("step", "node", "role", "subject", "check", "before", "after", "effects")


@click.command("plan")
@inventory_option
@selection_options
@pace_options
@controller_option
@click.option(
    "--destroy", multiple=True, metavar="SERIAL", help="A drive whose contents may be destroyed. Repeat for each drive."
)
@click.option("--detailed-exitcode", is_flag=True, help="Exit 6 when there are changes to make.")
@output_option()
def command(
    inventory: str | None,
    limit: tuple[str, ...],
    roles: tuple[str, ...],
    destroy: tuple[str, ...],
    detailed_exitcode: bool,
    fmt: str | None,
    **pace: Any,
) -> int:
    """Turn findings into reviewed steps. Changes nothing on any node.

    \b
    Examples:
      kvctl plan
      kvctl plan --limit storage2 -o json
      kvctl plan --destroy S64GNX0T500001

    The plan has an id; `kvctl provision --plan ID` carries out that plan and no other. Exits 5 when some and 4 when
    all nodes did not answer.
    """
    client, form = connect(inventory=inventory, fmt=fmt, **pace)
    report = client.plan(choose(client.nodes(), limit, roles), frozenset(destroy))
    if form == "table":
        show(report.plan)
        if report.plan.steps:
            note(f"next: kvctl provision --plan {report.plan.id}")
    else:
        emit(report.document(), rows(report.plan), COLUMNS, form)
    if detailed_exitcode and report.plan.steps:
        return int(ExitCode.CHANGES_PENDING)
    if not report.plan.facts_at:
        return int(ExitCode.UNREACHABLE)
    return int(ExitCode.PARTIAL if report.plan.unreachable else ExitCode.OK)


def rows(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "step": step.id,
            "node": step.node,
            "role": step.role,
            "subject": change.subject,
            "check": change.name,
            "before": change.before,
            "after": change.after,
            "effects": effects(step),
        }
        for step in plan.steps
        for change in step.changes
    ]


def effects(step: Step) -> str:
    """What a step costs the node, in words."""
    words = []
    if step.reboot:
        words.append("NIC reset or reboot")
    if step.cuts_ssh:
        words.append("may cut SSH (reverts unless confirmed)")
    if step.destroys_data:
        words.append(f"DESTROYS DATA on {', '.join(step.destroys_data)}")
    return "; ".join(words)


def as_diff(plan: Plan) -> str:
    """Each step with its values before and after, one below the other."""
    lines = []
    for step in plan.steps:
        lines.append(f"{step.id} {step.node} {step.role}" + (f" [{effects(step)}]" if effects(step) else ""))
        for change in step.changes:
            name = f"{change.subject} {change.name}".strip()
            lines.append(colored(printable(f"- {name}: {change.before or '-'}"), "red"))
            lines.append(colored(printable(f"+ {name}: {change.after or '-'}"), "green"))
    return "\n".join(lines)


def show(plan: Plan, *, to_stderr: bool = False, diff: bool = False) -> None:
    """The plan for people: one line a change, or a diff; then what was not planned and why."""
    if plan.steps and diff:
        click.echo(as_diff(plan), err=to_stderr)
    elif plan.steps:
        lines = [
            {
                "step": r["step"],
                "node": r["node"],
                "role": r["role"],
                "subject": r["subject"],
                "change": f"{r['check']}: {r['before'] or '-'} -> {r['after'] or '-'}"
                + (f" [{r['effects']}]" if r["effects"] else ""),
            }
            for r in rows(plan)
        ]
        click.echo(table(lines, ("step", "node", "role", "subject", "change")), err=to_stderr)
    else:
        click.echo("no changes", err=to_stderr)
    for refusal in plan.refusals:
        subject = f"{refusal.node} {refusal.check} {refusal.subject}".strip()
        note(f"not planned: {subject}: {refusal.code} {refusal.why}. {refusal.fix}")
    for node in plan.unreachable:
        note(f"not planned: {node} could not be read")
    note(
        f"plan {plan.id}: {len(plan.steps)} steps on {len({s.node for s in plan.steps})} nodes; facts of {plan.created}"
    )
