"""kvctl run: the history of what was done to the fleet."""

from typing import Any

import click

from kvctl.cli.follow import Follower, summary
from kvctl.cli.options import connect, controller_option, inventory_option, output_option
from kvctl.cli.output import emit, note, table

COLUMNS = ("id", "state", "started", "steps", "done", "failed", "not_done")


@click.group("run")
def command() -> None:
    """List, show, resume and cancel runs.

    \b
    Examples:
      kvctl run ls
      kvctl run show r-20260301-120000-ab12
      kvctl run resume r-20260301-120000-ab12
    """


@command.command("ls")
@inventory_option
@output_option()
@click.option("-n", "--count", type=click.IntRange(1), default=20, show_default=True, help="How many, newest first.")
def list_runs(inventory: str | None, fmt: str | None, count: int) -> None:
    """Runs, newest first."""
    client, form = connect(inventory=inventory, fmt=fmt)
    runs = client.runs(count)
    if form == "table":
        click.echo(table(runs, COLUMNS) or "no runs")
    else:
        emit({"schema": "kvctl.runs/1", "runs": list(runs)}, runs, COLUMNS, form)


@command.command("show")
@click.argument("run_id")
@inventory_option
@output_option("table", "json", "yaml", "jsonl")
def show_run(run_id: str, inventory: str | None, fmt: str | None) -> None:
    """What a run did, is doing and did not do. "latest" names the newest."""
    client, form = connect(inventory=inventory, fmt=fmt)
    view = client.run(run_id)
    if form == "table":
        click.echo(summary(view))
    else:
        emit({"schema": "kvctl.run/1", **view}, view["steps_view"], ("id", "node", "role", "state", "why"), form)


@command.command("resume")
@click.argument("run_id")
@inventory_option
@controller_option
@output_option("table", "json")
def resume_run(run_id: str, **flags: Any) -> int:
    """Finish a run that was interrupted: attach to what still runs on nodes, skip what is done, do the rest."""
    client, form = connect(**flags)
    with Follower() as follow:
        view = client.resume(run_id, follow)
    return finish(view, form)


@command.command("cancel")
@click.argument("run_id")
@inventory_option
@controller_option
def cancel_run(run_id: str, **flags: Any) -> None:
    """Ask a run to stop: it starts nothing new; units that must not be cut finish on their nodes."""
    client, _ = connect(**flags)
    view = client.cancel(run_id)
    note(f"{view['id']}: {view['state']}")


def finish(view: dict[str, Any], fmt: str) -> int:
    """Print the outcome of a run and give its exit code."""
    if fmt == "table":
        click.echo(summary(view))
    else:
        emit({"schema": "kvctl.run/1", **view}, view["steps_view"], ("id", "node", "role", "state", "why"), fmt)
    return int(view["exit_code"])
