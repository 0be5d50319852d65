"""kvctl provision."""

import sys
from typing import Any

import click

from kvctl.cli.follow import Follower
from kvctl.cli.options import (
    choose,
    confirm_options,
    connect,
    controller_option,
    inventory_option,
    output_option,
    pace_options,
    selection_options,
)
from kvctl.cli.output import emit, note
from kvctl.cli.plan import COLUMNS
from kvctl.cli.plan import rows as plan_rows
from kvctl.cli.plan import show as show_plan
from kvctl.cli.run import finish
from kvctl.types.errors import ExitCode, UsageError
from kvctl.types.plans import Plan


@click.command("provision")
@inventory_option
@selection_options
@pace_options
@controller_option
@click.option("--plan", "plan_id", metavar="ID", help="Carry out this plan and no other; refused when facts changed.")
@click.option("--converge", is_flag=True, help="Run every role on every node, whatever the plan says.")
@click.option("--destroy", multiple=True, metavar="SERIAL", help="A drive whose contents may be destroyed.")
@click.option("--max-fail", type=click.IntRange(1), default=None, help="Start no further node after this many failed.")
@click.option("--serial", type=click.IntRange(1, 16), default=None, help="Change at most this many nodes at once.")
@click.option("--detailed-exitcode", is_flag=True, help="With --dry-run: exit 6 when there are changes to make.")
@confirm_options
@output_option("table", "json")
def command(
    inventory: str | None,
    limit: tuple[str, ...],
    roles: tuple[str, ...],
    plan_id: str | None,
    converge: bool,
    destroy: tuple[str, ...],
    max_fail: int | None,
    serial: int | None,
    detailed_exitcode: bool,
    yes: bool,
    dry_run: bool,
    diff: bool,
    fmt: str | None,
    **pace: Any,
) -> int:
    """Carry a plan out: over SSH and Ansible, one step at a time, journalled and resumable.

    \b
    Examples:
      kvctl provision                    plan, show, ask, do
      kvctl provision --plan p-3f9c1d2e4a5b
      kvctl provision --limit storage2 --yes
      kvctl provision --dry-run --diff   each value before and after; changes nothing
      kvctl provision --converge --yes   every role again; a settled fleet reports 0 changes

    Exits 0 when all is done and clean, 5 when some nodes were not reached or failed, 7 when the plan is stale, 8 when
    another run holds the site or a node. A node returns to service only when its critical checks pass.
    """
    client, form = connect(inventory=inventory, fmt=fmt, **pace)
    if plan_id and (limit or roles or destroy or converge):
        raise UsageError(
            "KV-CLI-005",
            "--plan says which nodes and drives",
            fix="leave --limit, --role, --destroy and --converge out, or make another plan: kvctl plan",
        )
    if plan_id:
        report = client.renewed(plan_id)
    else:
        report = client.draft(choose(client.nodes(), limit, roles), frozenset(destroy))
    plan = report.plan
    if dry_run and form != "table":
        emit(report.document(), plan_rows(plan), COLUMNS, form)
    elif form == "table" or diff or not yes:
        show_plan(plan, to_stderr=form != "table", diff=diff)
    if not plan.facts_at:
        return int(ExitCode.UNREACHABLE)
    if dry_run:
        if converge:
            note(f"--converge would run every role on {', '.join(sorted(plan.desired))}")
        return int(ExitCode.CHANGES_PENDING if detailed_exitcode and plan.steps else ExitCode.OK)
    confirm(plan, converge, yes, site=plan.site)
    with Follower() as follow:
        view = client.provision(
            plan, converge=converge, on_event=follow, concurrency=serial or client.concurrency, max_fail=max_fail
        )
    return finish(view, form)


def confirm(plan: Plan, converge: bool, yes: bool, site: str) -> None:
    """Ask before anything is changed; a typed name before data is destroyed. No terminal and no --yes is an error."""
    if not plan.steps and not converge:
        return
    destroyed = sorted({serial for step in plan.steps for serial in step.destroys_data})
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("KV-CLI-004", "nobody is there to confirm", fix="add --yes, or run on a terminal")
    nodes = sorted(plan.desired if converge else {s.node for s in plan.steps})
    if destroyed:
        note(f"this destroys the data on {', '.join(destroyed)}")
        click.prompt(f"type the site's name ({site}) to go on", type=click.Choice([site]), show_choices=False, err=True)
    elif not click.confirm(f"change {len(nodes)} nodes: {', '.join(nodes)}?", err=True):
        raise click.Abort
