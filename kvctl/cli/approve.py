"""kvctl approve: what waits for a second pair of eyes."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kvctl.cli.governance import confirmed, connect_controller, show
from kvctl.cli.options import controller_option, inventory_option, output_option
from kvctl.cli.output import emit, note, printable_lines
from kvctl.cli.told import yes_option
from kvctl.types.errors import ExitCode, RefusedError
from kvctl.types.requests import ApprovalList, ApprovalNamed, ApprovalVote

COLUMNS = ("id", "kind", "tenant", "state", "yes", "required", "requester", "expires", "reason")
SHORT = ("id", "kind", "tenant", "state", "votes", "requester", "until", "reason")
STATES = ("pending", "approved", "rejected", "expired", "executed", "aborted")
F = TypeVar("F", bound=Callable[..., Any])


def vote_options(function: F) -> F:
    for option in (
        click.option(
            "--payload", "payload", metavar="SHA256", help="What you have looked at before; anything else is refused."
        ),
        click.option("--reason", default="", help="Goes on record."),
        yes_option, inventory_option, controller_option, output_option("table", "json", "yaml"),
    ):  # fmt: skip
        function = option(function)
    return function


@click.group("approve")
def command() -> None:
    """Requests that others decide: list them, look at one, vote.

    \b
    Examples:
      kvctl approve ls --state pending
      kvctl approve show a-20260301-1f2e3d4c
      kvctl approve yes a-20260301-1f2e3d4c --as ann
      kvctl approve no a-20260301-1f2e3d4c --as ann --reason "wrong tenant"
    """


@command.command("ls")
@click.option("--state", type=click.Choice(STATES), help="Only these.")
@click.option("--tenant", help="Only this tenant's.")
@click.option("-n", "--limit", type=click.IntRange(1), default=100, show_default=True, help="How many, newest first.")
@inventory_option
@controller_option
@output_option()
def list_requests(state: str | None, tenant: str | None, limit: int, fmt: str | None, **flags: Any) -> None:
    """Requests, newest first."""
    client, form = connect_controller(fmt=fmt, **flags)
    document = client.call("approve.ls", ApprovalList(state, tenant, limit))
    rows = document["approvals"]
    if form == "table":
        rows = [row | {"votes": f"{row['yes']}/{row['required']}", "until": row["expires"][:16]} for row in rows]
    show(document, rows, SHORT if form == "table" else COLUMNS, form, "no requests")


@command.command("show")
@click.argument("approval")
@inventory_option
@controller_option
@output_option("table", "json", "yaml")
def show_request(approval: str, fmt: str | None, **flags: Any) -> None:
    """What would be done, what it touches, and who has voted."""
    client, form = connect_controller(fmt=fmt, **flags)
    document = client.call("approve.show", ApprovalNamed(approval))
    if form == "table":
        click.echo(printable_lines(described(document)))
    else:
        emit(document, [], [], form)


def described(document: dict[str, Any]) -> str:
    lines = [f"{name:<15}{document[name]}" for name in (
        "id", "kind", "tenant", "state", "requester", "reason", "created", "expires", "execute_by", "payload_sha256",
    ) if document[name] not in (None, "")]  # fmt: skip
    lines.append(f"{'votes':<15}{document['yes']} of {document['required']}")
    lines += [f"{'vote':<15}{voted(vote)}" for vote in document["votes"]]
    for event in document["history"]:
        for why in event["data"].get("why", ()):
            lines.append(f"{'ended because':<15}{why}")
    for name in ("payload", "impact"):
        lines += [name, json.dumps(document[name], indent=2, ensure_ascii=False)]
    return "\n".join(lines)


def voted(vote: dict[str, Any]) -> str:
    text = f"{vote['voter']}: {vote['decision']} {vote['reason']}".rstrip()
    return text if vote["counts"] else f"{text} (does not count: this voter may not vote on it any more)"


@command.command("yes")
@click.argument("approval")
@vote_options
def yes(approval: str, **asked: Any) -> int:
    """Approve what is shown. The last vote that is needed carries it out."""
    return _vote(approval, "yes", **asked)


@command.command("no")
@click.argument("approval")
@vote_options
def no(approval: str, **asked: Any) -> int:
    """Refuse it. One no ends a request."""
    return _vote(approval, "no", **asked)


def _vote(
    approval: str, decision: str, *, payload: str | None, reason: str, yes: bool, fmt: str | None, **flags: Any
) -> int:
    client, form = connect_controller(fmt=fmt, **flags)
    document = client.call("approve.show", ApprovalNamed(approval))
    seen = document["payload_sha256"]
    if payload is not None and payload != seen:
        raise RefusedError(
            "KV-APP-014", "this is not what you have looked at", where=approval, why=f"its payload is {seen}",
            fix=f"kvctl approve show {approval}",
        )  # fmt: skip
    if not yes:
        note(described(document))
        confirmed(f"vote {decision} on {document['kind']} {approval}?", yes=yes)
    answer = client.call("approve.vote", ApprovalVote(approval, decision, seen, reason))
    return _tell(answer, form)


@command.command("execute")
@click.argument("approval")
@inventory_option
@controller_option
@output_option("table", "json", "yaml")
def execute(approval: str, fmt: str | None, **flags: Any) -> int:
    """Carry out what was approved and could not be done at the last vote."""
    client, form = connect_controller(fmt=fmt, **flags)
    return _tell(client.call("approve.execute", ApprovalNamed(approval)), form)


def _tell(answer: dict[str, Any], form: str) -> int:
    if form != "table":
        emit(answer, [], [], form)
    else:
        note(f"{answer['approval']}: {answer['state']}")
        for why in answer.get("why", ()):
            note(f"  {why}")
    return int(ExitCode.REFUSED if answer["state"] == "aborted" else ExitCode.OK)
