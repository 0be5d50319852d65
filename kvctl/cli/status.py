"""kvctl status."""

import click

from kvctl.cli.options import connect, inventory_option, output_option
from kvctl.cli.output import emit, note, table
from kvctl.types.status import NodeStatus, StatusReport

COLUMNS = ("node", "role", "state", "reason", "faults", "critical", "worst", "read_age", "error")


@click.command("status")
@inventory_option
@output_option()
def command(inventory: str | None, fmt: str | None) -> int:
    """One screen from stored facts, worst first. Reads no node.

    \b
    Examples:
      kvctl status
      kvctl status -o json
    """
    client, form = connect(inventory=inventory, fmt=fmt)
    report = client.status()
    if form == "table":
        show(report)
    else:
        document = report.document()
        emit(document, document["nodes"], COLUMNS, form)
    return 0


def show(report: StatusReport) -> None:
    if not report.nodes:
        click.echo(f"site {report.site}: no node was read yet")
    else:
        rows = [
            {
                "node": n.node,
                "role": n.role,
                "state": n.state,
                "faults": n.faults,
                "read": age(n.read_age),
                "detail": detail(n),
            }
            for n in report.nodes
        ]
        click.echo(table(rows, ("node", "role", "state", "faults", "read", "detail"), {"state": state_color}))
    for run in report.runs[:1]:
        note(f"last run {run['id']}: {run['state']}, {run['done']} of {run['steps']} steps done")
    note(f"next: {report.next_command}")


def detail(node: NodeStatus) -> str:
    parts = []
    if node.error:
        parts.append(f"did not answer ({node.error})")
    if node.worst:
        parts.append(node.worst)
    if node.state == "drained" and node.reason:
        parts.append(node.reason)
    return "; ".join(parts)


def age(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def state_color(state: str) -> str:
    return "green" if state == "in-service" else "yellow"
