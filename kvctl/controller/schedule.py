"""What a running controller does by itself, and how it last went: one thread, named jobs.

A job that fails is logged, counted and shown; it never stops the others, and it is tried again when it is due.
"""

from __future__ import annotations

import importlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from kvctl.types.errors import KvctlError

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

log = logging.getLogger(__name__)
CODES = {"KV-CTL-015": "A job of the schedule failed in a way nobody foresaw; the log has its trace."}
JITTER = 0.1  # of a job's interval
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(slots=True)
class Job:
    """`work` is called every `every` seconds, and soon after `poke`. None: this version does not have it."""

    name: str
    every: float
    work: Callable[[], Any] | None
    due: float = 0.0  # of the schedule's clock
    running: bool = False
    runs: int = 0
    failures: int = 0  # in a row
    failed: int = 0  # in all
    last: str | None = None  # RFC 3339
    took: float | None = None  # seconds
    outcome: str = "never ran"
    error: dict[str, Any] | None = None

    def row(self, now: float) -> dict[str, Any]:
        """How it stands, for controller.status."""
        return {
            "job": self.name, "every_seconds": self.every, "outcome": self.outcome if self.work else "not available",
            "last": self.last, "took_seconds": self.took, "runs": self.runs, "failed": self.failed,
            "failures_in_a_row": self.failures, "running": self.running, "error": self.error,
            "next_in_seconds": max(0.0, round(self.due - now, 1)) if self.work else None,
        }  # fmt: skip


@dataclass(slots=True)
class Schedule:
    """Jobs in one thread, from `start` to `stop`. `poke` and `rows` are for any thread."""

    jobs: dict[str, Job]
    clock: Callable[[], float] = time.monotonic
    chance: random.Random = field(default_factory=random.Random)
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _stopping: bool = False
    _thread: threading.Thread | None = None

    @classmethod
    def of(cls, jobs: Iterable[Job], **more: Any) -> Schedule:
        return cls({job.name: job for job in jobs}, **more)

    def start(self) -> None:
        now = self.clock()
        for job in self.jobs.values():
            job.due = now + self.chance.uniform(0, min(job.every, MINUTE) * JITTER)
        self._thread = threading.Thread(target=self.run, name="schedule", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Start no more jobs; whether the one under way has ended within so long."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def poke(self, name: str) -> None:
        """Do a job as soon as possible; once, however often it was asked for meanwhile."""
        with self._wake:
            job = self.jobs.get(name)
            if job is not None:
                job.due = self.clock()
                self._wake.notify_all()

    def rows(self) -> list[dict[str, Any]]:
        with self._wake:
            now = self.clock()
            return [job.row(now) for job in self.jobs.values()]

    def run(self) -> None:
        while (job := self._next()) is not None:
            self.do(job)

    def _next(self) -> Job | None:
        with self._wake:
            while not self._stopping:
                waiting = [job for job in self.jobs.values() if job.work]
                job = min(waiting, key=lambda one: one.due, default=None)
                if job is not None and job.due <= self.clock():
                    job.due = self.clock() + job.every * (1 + self.chance.uniform(-JITTER, JITTER))
                    job.running = True
                    return job
                self._wake.wait(None if job is None else max(0.0, job.due - self.clock()))
            return None

    def do(self, job: Job) -> None:
        """Run one job now, in this thread, and keep how it went."""
        assert job.work is not None
        began, error = self.clock(), None
        try:
            job.work()
        except KvctlError as known:
            error = known.as_dict()
            log.warning("job %s: %s", job.name, f"{known.code} {known.what}: {known.why}")
        except Exception as unknown:
            error = {"code": "KV-CTL-015", "what": "the job failed", "why": f"{type(unknown).__name__}: {unknown}"}
            log.exception("job %s", job.name)
        with self._wake:
            job.running, job.error, job.runs = False, error, job.runs + 1
            job.last = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            job.took = round(self.clock() - began, 3)
            job.outcome = "failed" if error else "ok"
            job.failures = job.failures + 1 if error else 0
            job.failed += error is not None


# Job -> the function that does it, given the Controller.
WORK = {
    "keys": "kvctl.controller.tenants:complete",  # destroy what a process that died was to destroy
    "snapshot": "kvctl.controller.snapshots:publish",  # what gateways must know
    "push": "kvctl.controller.push:push",  # tenants, revocations and holds to stores
    "holds": "kvctl.controller.holds:push_holds",  # to every store, again when one was away
    "erasures": "kvctl.controller.erasure:resume_erasures",  # those left open, or under a hold that is over
    "acts": "kvctl.controller.record:take_up_acts",  # ends of changes whose command died
    "sync": "kvctl.controller.catalogue:sync_all",  # what stores say they hold
    "retention": "kvctl.controller.retention:apply_due",  # what stores do not remove by themselves: what is idle
    "approvals": "kvctl.controller.approvals:expire",
    "moves": "kvctl.controller.moves:take_up",  # go on with what was cut off
    "usage": "kvctl.controller.usage:collect",
    "compare": "kvctl.controller.catalogue:compare_all",  # declared places with observed ones
}


def jobs_of(ctl: Controller) -> list[Job]:
    """Every job of this controller."""
    every = {
        "keys": HOUR, "snapshot": ctl.settings.snapshot_seconds / 4, "push": 30.0,
        "holds": 30.0, "erasures": 5 * MINUTE, "retention": HOUR, "sync": ctl.settings.sync_seconds,
        "approvals": MINUTE, "acts": MINUTE, "moves": MINUTE, "usage": MINUTE, "compare": DAY,
    }  # fmt: skip
    own = [Job("checkpoint", MINUTE, partial(checkpoint, ctl)), Job("refusals", MINUTE, ctl.refusals.settle)]
    return own + [Job(name, every[name], found(ctl, place)) for name, place in WORK.items()]


def found(ctl: Controller, place: str) -> Callable[[], Any] | None:
    """The job's function, or None when this version does not have it."""
    module, _, name = place.partition(":")
    try:
        work = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            return None
        return partial(unloadable, place, str(error))  # one broken part must not keep the controller down
    return None if work is None else partial(work, ctl)


def unloadable(place: str, why: str) -> None:
    raise KvctlError(
        "KV-CTL-017", "a part of kvctl cannot be loaded", where=place, why=why, fix="install kvctl again, whole"
    )


def checkpoint(ctl: Controller) -> None:
    """The control log's signed checkpoint, and DuckDB's, so that opening again is quick."""
    ctl.books.log.checkpoint()
    with ctl.books.state.reading() as db:
        db.execute("CHECKPOINT")


# Kinds of events after which gateways and stores must hear at once.
URGENT = ("tenant.", "key.", "policy.", "epoch.", "capability.revoked", "hold.")


def follow_commits(ctl: Controller, schedule: Schedule) -> None:
    """Publish a snapshot, and tell the stores, after every commit that concerns them."""

    def told(events: Any) -> None:
        if any(event.kind.startswith(URGENT) for event in events):
            schedule.poke("snapshot")
            schedule.poke("push")
            schedule.poke("holds")
        if any(event.kind == "store.destroyed" for event in events):
            schedule.poke("erasures")  # one may wait for it

    ctl.books.on_commit.append(told)
