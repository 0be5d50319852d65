"""kvctl check."""

from pathlib import Path
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
from kvctl.cli.output import COLORS, MARKS, emit, note, table
from kvctl.types.findings import Finding, Severity, Verdict
from kvctl.types.reports import CheckReport

COLUMNS = ("node", "check", "subject", "verdict", "severity", "observed", "expected", "why", "evidence", "remedy")


@click.command("check")
@inventory_option
@selection_options
@pace_options
@controller_option
@click.option("--all", "show_all", is_flag=True, help="Show what passes, too.")
@click.option(
    "--switch-output",
    multiple=True,
    metavar="NAME=FILE",
    help="The output of a switch's show commands, to compare with the hosts.",
)
@output_option()
def command(
    inventory: str | None,
    limit: tuple[str, ...],
    roles: tuple[str, ...],
    show_all: bool,
    switch_output: tuple[str, ...],
    fmt: str | None,
    **pace: Any,
) -> int:
    """Read every node and judge it. Changes nothing.

    \b
    Examples:
      kvctl check
      kvctl check --limit 'storage*' --all
      kvctl check -o json | jq '.findings[] | select(.bad)'

    Exits 0 when clean, 3 when a check failed, 5 when some and 4 when all nodes did not answer.
    """
    client, form = connect(inventory=inventory, fmt=fmt, **pace)
    chosen = choose(client.nodes(), limit, roles)
    report = client.check(chosen, read_switches(switch_output))
    rows = [row(f) for f in report.findings if show_all or needs_eyes(f)]
    if form == "table":
        show(report, show_all)
    else:
        emit(report.document(), rows, COLUMNS, form)
    return int(report.exit_code)


def read_switches(items: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for item in items:
        name, _, file = item.partition("=")
        if not file:
            raise click.BadParameter(f"{item!r} is not NAME=FILE", param_hint="--switch-output")
        try:
            found[name] = Path(file).read_text(errors="replace")
        except OSError as error:
            raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--switch-output") from error
    return found


def row(finding: Finding) -> dict[str, Any]:
    return {
        "node": finding.node,
        "check": finding.check,
        "subject": finding.subject,
        "verdict": str(finding.verdict),
        "severity": str(finding.severity),
        "observed": finding.observed,
        "expected": finding.expected,
        "why": finding.why,
        "evidence": str(finding.evidence),
        "remedy": finding.remedy.text,
    }


def show(report: CheckReport, show_all: bool) -> None:
    """The findings for people: what needs a hand first, each with what was seen, what is right, and the remedy."""
    shown = [f for f in report.findings if show_all or needs_eyes(f)]
    rows = []
    for finding in shown:
        rows.append(
            {
                "node": finding.node,
                "check": finding.check,
                "subject": finding.subject,
                "result": MARKS[str(finding.verdict)],
                "detail": detail(finding),
            }
        )
    if rows:
        click.echo(table(rows, ("node", "check", "subject", "result", "detail"), {"result": COLORS.__getitem__}))
    for dead in report.unreachable:
        note(f"{dead.node}: not read: {dead.code} {dead.why}. {dead.fix}")
    counts = {name: n for name, n in report.counts().items() if n}
    simulated = sum(f.evidence == "simulated" for f in report.findings)
    note(
        f"{len(report.nodes) - len(report.unreachable)} of {len(report.nodes)} nodes read in {report.seconds:.1f} s: "
        + ", ".join(f"{n} {name}" for name, n in counts.items())
        + (f" ({simulated} on simulated hardware)" if simulated else "")
    )
    if report.bad:
        note("next: kvctl plan")


def needs_eyes(finding: Finding) -> bool:
    """What is wrong, and what could not be judged; not what is unknown for information only."""
    if finding.verdict is Verdict.UNKNOWN:
        return finding.severity is not Severity.INFO
    return finding.verdict is Verdict.FAIL


def detail(finding: Finding) -> str:
    """What was seen and what is right; the remedy when it takes hands, since provision does the others."""
    if finding.verdict is Verdict.FAIL:
        hands = "" if finding.remedy.role else f". {finding.remedy.text}"
        return f"{finding.observed or '-'}, should be {finding.expected}{hands}"
    if finding.verdict is Verdict.PASS:
        return finding.observed
    return finding.why
