"""Runs with their progress, and the steps of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvctl.tui.tables import Ask, Column, Doc, Level, Table, of, whole
from kvctl.tui.words import described, moment, plain, state
from kvctl.types.requests import Listed, RunNamed

BAD = ("failed", "interrupted", "partial")
BAR = 8  # characters


def runs(ask: Ask) -> Sequence[Doc]:
    return list(ask("run.ls", Listed(200))["runs"])


def progress(run: Doc) -> str:
    steps, done, failed = run["steps"], run["done"], run["failed"]
    filled = BAR * (done + failed) // steps if steps else 0
    text = f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{steps}"
    return text + (f", !! {failed} failed" if failed else "")


def run_level(run: Doc) -> Level:
    name = run["id"]

    def steps(ask: Ask) -> Sequence[Doc]:
        return list(ask("run.show", RunNamed(name))["steps_view"])

    table = Table(
        f"steps of {name}", STEP, of("id"), steps, lambda s: s["state"] == "failed", step_level, lambda s: str(name)
    )
    return Level(str(name), (table,))


def step_level(step: Doc) -> Level:
    return whole(plain(step["id"]), described(step))


def cancelling(run: str) -> Callable[[Ask], object]:
    """The question that asks a run to stop."""
    return lambda ask: ask("run.cancel", RunNamed(run))


STEP = (
    Column("step", 6, of("id")), Column("node", 16, of("node")), Column("role", 12, of("role")),
    Column("state", 13, of("state"), state), Column("changed", 7, lambda s: len(s["changed"]), str),
    Column("why", 0, of("why")),
)  # fmt: skip
RUNS = Table(
    "runs",
    (
        Column("run", 22, of("id")), Column("state", 14, of("state"), state), Column("progress", 0, progress),
        Column("began", 16, of("started"), lambda at: moment(at)[:16]),
    ),
    of("id"), runs, lambda r: r["state"] in BAD or bool(r["failed"]), run_level, lambda r: str(r["id"]),
)  # fmt: skip
