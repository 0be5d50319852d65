"""What the verbs that change tenants share: options, and showing what would be done and what stores answered."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from kvctl.cli.output import emit, note, table
from kvctl.types.errors import ExitCode

F = TypeVar("F", bound=Callable[..., Any])
STORES = ("store", "ok", "ms", "said")


def yes_option(function: F) -> F:
    return click.option("-y", "--yes", is_flag=True, envvar="KVCTL_YES", show_envvar=True, help="Do not ask.")(function)


def dry_run_option(function: F) -> F:
    return click.option(
        "--dry-run", "--check", "dry_run", is_flag=True, help="Show what would be done; change nothing."
    )(function)


def tell(document: Mapping[str, Any], form: str) -> bool:
    """Print a change's document. True when that is all there is to say: a format other than table, or a dry run."""
    if form != "table":
        emit(document, [], [], form)
        return True
    if document.get("dry_run"):
        for line in document["would"] or ["no changes"]:
            note(line if line == "no changes" else f"would {line}")
        return True
    stores = document.get("stores", [])
    if stores:
        click.echo(
            table([{**one, "ok": "ok" if one["ok"] else "NOT TOLD", "said": _said(one)} for one in stores], STORES)
        )
    if "error" in document.get("snapshot", {}):
        error = document["snapshot"]["error"]
        note(f"gateways were not told: {error['code']}: {error['what']}: {error['why']}")
    for problem in document.get("snapshot", {}).get("left_out", []):
        note(f"not in the snapshot: {problem['tenant']}/{problem['domain']}: {problem['code']}: {problem['what']}")
    return False


def _said(one: Mapping[str, Any]) -> str:
    wrong = [f"{a['verb']}: {a['error']['code']}: {a['error']['what']}" for a in one["answers"] if not a["ok"]]
    return "; ".join(wrong) or ", ".join(sorted({a["verb"] for a in one["answers"]})) or "nothing to tell"


def partial(document: Mapping[str, Any]) -> int:
    """The exit code: PARTIAL when gateways or a store were not told all; the controller's schedule tells them again."""
    told = all(one["ok"] for one in document.get("stores", [])) and "error" not in document.get("snapshot", {})
    return int(ExitCode.OK if told else ExitCode.PARTIAL)
