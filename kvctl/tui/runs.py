"""Runs with their progress, the steps of one, and what may be done to it: cancel it, take it up again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvctl.tui.changes import Change, Given, Proposed, each
from kvctl.tui.tables import Ask, Column, Doc, Level, Table, of, whole
from kvctl.tui.words import counted, described, moment, plain, state
from kvctl.types.errors import UsageError
from kvctl.types.requests import Listed, RunNamed

BAD = ("failed", "interrupted", "partial", "cancelled")
AT_WORK = "running"
ORDER = ("running", "failed", "partial", "interrupted", "cancelled", "skipped", "todo", "done", "finished")
BAR = 8  # characters
RESUME = "run.resume"  # done by this machine: it alone has the keys to the nodes


def runs(ask: Ask) -> Sequence[Doc]:
    return list(ask("run.ls", Listed(200))["runs"])


def progress(run: Doc) -> str:
    steps, done, failed = run["steps"], run["done"], run["failed"]
    filled = BAR * (done + failed) // steps if steps else 0
    text = f"[{'#' * filled}{'.' * (BAR - filled)}] {done}/{steps}"
    return text + (f", !! {failed} failed" if failed else " done")


def states(docs: Sequence[Doc]) -> str:
    return counted((doc["state"] for doc in docs), ORDER)


def run_level(run: Doc) -> Level:
    name = str(run["id"])

    def steps(ask: Ask) -> Sequence[Doc]:
        return list(ask("run.show", RunNamed(name))["steps_view"])

    table = Table(
        "steps", STEP, of("id"), steps, lambda s: s["state"] in ("failed", "skipped"), step_level,
        changes=changes(lambda step: name), count=states, empty="this run has no steps",
    )  # fmt: skip
    return Level(name, (table,))


def step_level(step: Doc) -> Level:
    return whole(plain(step["id"]), described(step))


def standing(view: Doc) -> list[str]:
    """What of a run is done and what is not."""
    steps = view["steps_view"]
    lines = [f"{plain(view['id'])}: {state(view['state']).strip()}, {view['done']} of {view['steps']} steps done"]
    lines += [f"  {state(s['state'])}  {plain(s['id'])} on {plain(s['node'])}, role {plain(s['role'])}" for s in steps]
    return lines


def cancel(run_of: Callable[[Doc], str]) -> Change:
    def propose(ask: Ask, docs: Sequence[Doc], given: Given) -> Proposed:
        views = [ask("run.show", RunNamed(run)) for run in sorted({run_of(doc) for doc in docs})]
        names = [str(view["id"]) for view in views if view["state"] == AT_WORK]
        if not names:
            raise UsageError("KV-TUI-005", "none of these runs is at work", fix="a run that has ended stays as it is")
        lines = [f"Cancel {len(names)} run{'s' if len(names) > 1 else ''}?", "Steps at work end, none begins.", ""]
        lines += [line for view in views if view["id"] in names for line in standing(view)]
        return Proposed("\n".join(lines), lambda ask: each(names, lambda run: asked_to_stop(ask, run)))

    return Change("x", "cancel", propose, many=True)


def asked_to_stop(ask: Ask, run: str) -> str:
    ask("run.cancel", RunNamed(run))
    return "asked to stop; its steps say what was done"


def resume(run_of: Callable[[Doc], str]) -> Change:
    def propose(ask: Ask, docs: Sequence[Doc], given: Given) -> Proposed:
        view = ask("run.show", RunNamed(run_of(docs[0])))
        name = str(view["id"])
        if view["state"] in (AT_WORK, "finished"):
            raise UsageError("KV-TUI-005", f"{name} is {view['state']}", fix="a run that was cut or failed is resumed")
        lines = [f"Resume {name}?", "Done steps are left out, the others are carried out.", "", *standing(view)]
        return Proposed("\n".join(lines), lambda ask: str(ask(RESUME, RunNamed(name))["said"]))

    return Change("R", "resume", propose)


def changes(run_of: Callable[[Doc], str]) -> tuple[Change, ...]:
    return cancel(run_of), resume(run_of)


STEP = (
    Column("step", 6, of("id")), Column("node", 16, of("node")), Column("role", 12, of("role"), rank=2),
    Column("state", 13, of("state"), state), Column("changed", 7, lambda s: len(s["changed"]), str, rank=3),
    Column("why", 0, of("why")),
)  # fmt: skip
RUNS = Table(
    "runs",
    (
        Column("run", 22, of("id")), Column("state", 14, of("state"), state), Column("progress", 0, progress),
        Column("began (UTC)", 11, of("started"), lambda at: moment(at)[5:16], rank=1),
    ),
    of("id"), runs, lambda r: r["state"] in BAD or bool(r["failed"]), run_level,
    changes=changes(lambda run: str(run["id"])), count=states, empty="no runs yet: kvctl provision begins one",
)  # fmt: skip
