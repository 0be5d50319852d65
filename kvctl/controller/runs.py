"""Runs as every face sees them: from their journals, without a database."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvctl.fleet.remote import journal
from kvctl.fleet.remote.journal import RunState, RunView, StepState
from kvctl.types.errors import ExitCode, UsageError

DEAD = "unreachable"


def newest(directory: Path, limit: int) -> tuple[dict[str, Any], ...]:
    """The newest runs of the site, newest first."""
    found = list(reversed(journal.run_directories(directory)))[:limit]
    return tuple(row(journal.load(path)) for path in found)


def show(directory: Path, run_id: str) -> dict[str, Any]:
    """One run, whole. Raises UsageError when there is none with that id; "latest" is the newest."""
    return document(journal.load(find(directory, run_id)))


def cancel(directory: Path, run_id: str) -> dict[str, Any]:
    """Leave the request where the run's supervisor looks for it."""
    from kvctl.fleet.remote.handle import request_cancel

    path = find(directory, run_id)
    request_cancel(path)
    return document(journal.load(path))


def cancelled(view: Mapping[str, Any]) -> dict[str, Any]:
    """What the control log keeps of that: the run, and what it was when it was asked to stop."""
    return {"run": view["id"], "plan": view["plan"], "state": view["state"]}


def find(directory: Path, run_id: str) -> Path:
    runs = journal.run_directories(directory)
    if run_id == "latest" and runs:
        return runs[-1]
    for path in runs:
        if path.name == run_id:
            return path
    raise UsageError("KV-RUN-001", f"no run {run_id}", fix="kvctl run ls lists the runs of this site")


def row(view: RunView) -> dict[str, Any]:
    """The line of a run in a list."""
    done = view.in_state(StepState.DONE)
    failed = view.in_state(StepState.FAILED)
    return {
        "id": view.run,
        "state": str(view.state),
        "started": view.started,
        "ended": view.ended,
        "plan": view.plan,
        "steps": len(view.steps),
        "done": len(done),
        "failed": len(failed),
        "not_done": len(view.steps) - len(done) - len(failed),
        "changed": sum(len(s.changed) for s in view.steps.values()),
    }


def document(view: RunView) -> dict[str, Any]:
    """All of a run: `steps_view` in plan order, `nodes_view` by name, `exit_code` of the run as a command."""
    return row(view) | {
        "steps_view": [
            {
                "id": s.id,
                "node": s.node,
                "role": s.role,
                "state": str(s.state),
                "started": s.started,
                "ended": s.ended,
                "unit": s.unit,
                "changed": s.changed,
                "why": reason(s.error) or s.why,
                "error": s.error,
            }
            for s in view.steps.values()
        ],
        "nodes_view": [{"node": n.name, "state": n.state, "why": n.why} for n in view.nodes.values()],
        "holder": view.holder,
        "log": str(view.directory / "steps"),
        "journal": str(view.directory / journal.FILE),
        "exit_code": int(exit_code(view)),
    }


def reason(error: dict[str, Any]) -> str:
    parts = [str(error.get(key, "")) for key in ("code", "what", "why")]
    return ": ".join(p for p in parts if p)


def exit_code(view: RunView) -> ExitCode:
    """What `kvctl provision` exits with for this run."""
    if view.state is RunState.FINISHED:
        dead = any(n.state == DEAD for n in view.nodes.values())
        drained = any(n.state == "drained" for n in view.nodes.values())
        return ExitCode.PARTIAL if dead or drained else ExitCode.OK
    if view.state in (RunState.CANCELLED, RunState.INTERRUPTED):
        return ExitCode.INTERRUPTED
    if view.state is RunState.FAILED and not view.in_state(StepState.DONE):
        return ExitCode.FAILED
    return ExitCode.PARTIAL
