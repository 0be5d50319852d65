"""What a running controller does by itself."""

import random
import threading
from pathlib import Path

from kvctl.controller.core import opened
from kvctl.controller.schedule import WORK, Job, Schedule, follow_commits, found, jobs_of
from kvctl.controller.settings import ControllerSettings
from kvctl.types.errors import UnreachableError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM


class Counted:
    """Work that says when it was done so many times."""

    def __init__(self, error: Exception | None = None) -> None:
        self.times = 0
        self._error = error
        self._done = threading.Condition()

    def __call__(self) -> None:
        with self._done:
            self.times += 1
            self._done.notify_all()
        if self._error:
            raise self._error

    def wait(self, times: int) -> None:
        with self._done:
            assert self._done.wait_for(lambda: self.times >= times, 30)


def test_a_job_that_fails_is_shown_and_does_not_stop_the_others():
    good, known, unknown = Counted(), Counted(UnreachableError("KV-X-001", "gone")), Counted(ZeroDivisionError("x"))
    schedule = Schedule.of([Job("known", 0.01, known), Job("unknown", 0.01, unknown), Job("good", 0.01, good)])
    schedule.start()
    for work in (good, known, unknown):
        work.wait(3)
    assert schedule.stop(30)
    rows = {row["job"]: row for row in schedule.rows()}
    assert (rows["good"]["outcome"], rows["good"]["error"]) == ("ok", None)
    assert (rows["known"]["outcome"], rows["known"]["error"]["code"]) == ("failed", "KV-X-001")
    assert rows["known"]["failures_in_a_row"] == rows["known"]["runs"] >= 3
    assert "ZeroDivisionError" in rows["unknown"]["error"]["why"]


def test_an_error_is_forgotten_when_it_works_again():
    schedule = Schedule.of([])
    job = Job("one", 1.0, Counted(ZeroDivisionError()))
    schedule.do(job)
    job.work = Counted()
    schedule.do(job)
    row = job.row(0)
    assert (row["outcome"], row["error"], row["failures_in_a_row"], row["failed"]) == ("ok", None, 0, 1)


def test_a_job_that_is_poked_is_done_at_once():
    work = Counted()
    schedule = Schedule.of([Job("one", 1e6, work)])
    schedule.start()
    work.wait(1)
    schedule.poke("one")
    work.wait(2)
    schedule.poke("no such job")
    assert schedule.stop(30)
    assert work.times == 2


def test_jobs_are_spread_by_chance_within_a_tenth():
    job = Job("one", 100.0, Counted())
    schedule = Schedule.of([job], clock=lambda: 0.0, chance=random.Random(5))
    seen = set()
    for _ in range(20):
        job.due = 0.0
        assert schedule._next() is job
        seen.add(job.due)
        assert 90 <= job.due <= 110
    assert len(seen) > 10


def test_what_this_version_does_not_have_is_shown_as_such():
    row = Job("one", 1.0, None).row(0)
    assert (row["outcome"], row["next_in_seconds"]) == ("not available", None)
    assert found(None, "kvctl.controller.no_such_module:f") is None  # type: ignore[arg-type]


def test_every_job_has_its_pace(tmp_path: Path):
    with opened(ControllerSettings("par1", "", "", tmp_path / "par1")) as ctl:
        jobs = {job.name: job for job in jobs_of(ctl)}
        assert set(jobs) == {"checkpoint", "refusals", *WORK}
        assert jobs["sync"].every == ctl.settings.sync_seconds
        work = jobs["checkpoint"].work
        assert work is not None
        ctl.books.commit(SYSTEM, [Event("test.happened")])
        work()
        assert (tmp_path / "par1" / "ledger" / "control" / "checkpoint").read_text().splitlines()[1] == "1"


def test_a_commit_that_concerns_gateways_makes_a_snapshot_due(tmp_path: Path):
    work = Counted()
    with opened(ControllerSettings("par1", "", "", tmp_path / "par1")) as ctl:
        schedule = Schedule.of([Job("snapshot", 1e6, work)])
        follow_commits(ctl, schedule)
        schedule.start()
        work.wait(1)
        ctl.books.commit(SYSTEM, [Event("session.opened")])
        ctl.books.commit(SYSTEM, [Event("policy.noted", {}, "acme")])
        work.wait(2)
        assert schedule.stop(30)
    assert work.times == 2
