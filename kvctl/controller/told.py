"""Acts that a command tells the controller: which kinds there are, and what of them the controller can see for itself.

A command that works on this very state leaves files: a locked one while it is at it, the plan, the run's journal. What
they contradict is refused. Of what was done over another state directory nothing can be seen, and the event says so.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl.controller.acts import FOLDER, of_run
from kvctl.state import fleet
from kvctl.state.database import Database
from kvctl.state.governance import rows
from kvctl.types.codec import from_builtins
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.plans import Plan
from kvctl.types.requests import EventRecord

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

ACTS = ("run", "deploy", "bootstrap", "upkeep")  # nouns that are begun and ended
BEGUN = ("started", "resumed", "nodes")
KINDS = frozenset({f"{noun}.{how}" for noun in ACTS for how in ("started", "nodes", "ended")}) | {
    "controller.master-key-copied", "deploy.enrolled", "deploy.forgotten", "fleet.checked", "fleet.settled",
    "node.trusted", "plan.made", "run.cancelled", "run.resumed",
}  # fmt: skip
OUTCOMES = ("ok", "refused", "failed")
SEEN, UNSEEN = "seen", "unseen"
SAME = ("state", "exit_code", "journal_sha256")  # of a run's end and of its journal


def check_form(p: EventRecord) -> None:
    """UsageError KV-AUD-005 for what no command of kvctl tells."""
    wrong = ""
    if p.kind not in KINDS:
        wrong = f"{p.kind[:80]} is not for others to record"
    elif p.tenant is not None:
        wrong = "an act of the fleet is of no tenant"
    elif p.outcome not in OUTCOMES:
        wrong = f"{p.outcome[:40]!r} is no outcome of an act"
    if wrong:
        raise UsageError("KV-AUD-005", wrong, fix=f"one of {', '.join(sorted(KINDS))}")


def seen(ctl: Controller, p: EventRecord) -> str:
    """`seen` when this state's own files show it, `unseen` when there are none of it.

    RefusedError KV-CTL-075 when they say something else, or when an act ends that was never begun.
    """
    noun, _, how = p.kind.partition(".")
    if p.kind == "plan.made":
        return _plan(ctl.directory, p.data)
    if noun not in ACTS or how not in (*BEGUN, "ended"):
        return UNSEEN
    ident = str(p.data.get(noun, ""))
    if how == "ended":
        _check_begun(ctl, noun, ident)
        if noun == "run" and _journal(ctl.directory, ident, p):
            return SEEN
    return SEEN if under_way(ctl.directory, noun, ident) else UNSEEN


def _check_begun(ctl: Controller, noun: str, ident: str) -> None:
    kinds = [f"{noun}.{how}" for how in BEGUN]
    with ctl.books.state.reading() as db:
        found = rows(
            db,
            """SELECT idx FROM events WHERE list_contains($kinds, kind) AND json_extract_string(data, $path) = $id
               LIMIT 1""",
            {"kinds": kinds, "path": f"$.{noun}", "id": ident},
        )  # fmt: skip
    if not found:
        raise _other(f"{noun} {ident[:40]} was never begun", "no entry of the log has its beginning")


def _journal(directory: Path, run: str, p: EventRecord) -> bool:
    """Whether the run's journal is here and says the same."""
    folder = directory / "runs" / run
    if "/" in run or not folder.is_dir():
        return False
    nothing: tuple[dict[str, Any], str] = ({}, "")
    told = of_run(directory, run, otherwise=nothing)
    if told == nothing:
        return False
    if told is None:
        raise _other(f"run {run} has not ended", "its supervisor is at work")
    how, outcome = told
    if outcome != p.outcome or any(how.get(name) != p.data.get(name) for name in SAME):
        raise _other(f"run {run} did not end so", "its journal says something else")
    return True


def _plan(directory: Path, data: dict[str, Any]) -> str:
    with Database(directory).reading() as db:
        text = fleet.plan_document(db, str(data.get("plan", ""))) if db else None
    if text is None:
        return UNSEEN
    kept = from_builtins(json.loads(text), Plan)
    if kept.hash != data.get("hash"):
        raise _other(f"plan {kept.id} is another one", "the plan that is kept here has another hash")
    return SEEN


def under_way(directory: Path, noun: str, ident: str) -> bool:
    """Whether a command of this machine is at it now: it holds its file."""
    if not ident or "/" in ident:
        return False
    try:
        fd = os.open(directory / FOLDER / f"{noun}-{ident}.json", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _other(what: str, why: str) -> KvctlError:
    return RefusedError("KV-CTL-075", what, why=why, fix="kvctl run show tells how a run ended")
