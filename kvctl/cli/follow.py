"""Following a run: one line an event on stderr, and its summary."""

import sys
import time
from typing import Any, Self

import click

from kvctl.cli.output import note, printable, table


class Follower:
    """Prints a run's events as they come. On a terminal the last line says what is running and for how long."""

    def __init__(self) -> None:
        self.started: dict[str, tuple[str, float]] = {}
        self.live = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.erase()

    def __call__(self, event: dict[str, Any]) -> None:
        line = sentence(event)
        step = str(event.get("step", ""))
        if event["event"] == "step.started":
            self.started[step] = (line, time.monotonic())
        elif event["event"].startswith("step."):
            self.started.pop(step, None)
        self.erase()
        if line:
            note(line)
        self.draw()

    def draw(self) -> None:
        if self.live and self.started:
            busy = ", ".join(f"{step} {time.monotonic() - began:.0f} s" for step, (_, began) in self.started.items())
            click.echo(f"  running: {busy}", nl=False, err=True)

    def erase(self) -> None:
        if self.live:
            click.echo("\r\x1b[2K", nl=False, err=True)


def sentence(event: dict[str, Any]) -> str:
    """One event in words; "" for events that only the journal needs."""
    kind, node, step = event["event"], event.get("node", ""), event.get("step", "")
    what = f"{step} {node} {event.get('role', '')}".strip()
    error = event.get("error") or {}
    why = str(event.get("why", "")) or ": ".join(str(error[k]) for k in ("code", "what", "why") if error.get(k))
    words = {
        "run.started": f"run started: {len(event.get('steps', []))} steps",
        "step.started": f"{what}: started",
        "step.finished": f"{what}: done, {len(event.get('changed', []))} changed",
        "step.failed": f"{what}: FAILED: {why}",
        "step.skipped": f"{what}: skipped: {why}",
        "node.unreachable": f"{node}: did not answer: {why}",
        "node.drained": f"{node}: drained: {why}",
        "node.returned": f"{node}: in service",
        "unit.attached": f"{what}: attached to its unit on the node",
        "run.cancel-requested": "stopping: nothing new is started",
    }
    return words.get(kind, "")


def summary(view: dict[str, Any]) -> str:
    """What was done, is running and was not done."""
    rows = [
        {"step": s["id"], "node": s["node"], "role": s["role"], "state": s["state"], "detail": s.get("why", "")}
        for s in view["steps_view"]
    ]
    head = f"run {view['id']}: {view['state']}; {view['done']} of {view['steps']} steps done, {view['changed']} changed"
    parts = [table(rows, ("step", "node", "role", "state", "detail")), head]
    parts += [printable(f"{n['node']}: {n['state']}{': ' + n['why'] if n['why'] else ''}") for n in view["nodes_view"]]
    if view["state"] in ("interrupted", "cancelled", "failed", "partial"):
        parts.append(f"next: kvctl run resume {view['id']}; log: {view['log']}")
    return "\n".join(p for p in parts if p)
