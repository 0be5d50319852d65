"""The threads of the tier: a job ends once, in time, whatever becomes of its thread."""

import time
from threading import Event

from kvctl.connector.tier_jobs import Done, Jobs


def test_a_job_that_is_overdue_never_begins_and_one_that_has_begun_ends_by_itself():
    jobs = Jobs(1, "test", lambda: None)
    going, begun = Event(), Event()
    ended: list[int] = []
    undone: list[int] = []

    def first() -> Done:
        begun.set()
        going.wait()
        return Done(1, True)

    def end(number: int) -> Done:
        ended.append(number)
        return Done(number, True)

    jobs.start(1, first, 0.0, lambda: undone.append(1))
    begun.wait()
    for number, until in ((2, 0.0), (3, time.monotonic() + 3600)):
        jobs.start(number, lambda number=number: end(number), until, lambda number=number: undone.append(number))
    assert [(done.number, done.success) for done in jobs.finished()] == [(2, False)]
    assert undone == [2]
    going.set()
    jobs.drain()
    assert [(done.number, done.success) for done in jobs.finished()] == [(1, True), (3, True)]
    assert (ended, undone) == ([3], [2])
    jobs.close()


def test_a_job_that_a_defect_ends_is_undone():
    jobs = Jobs(1, "test", lambda: None)
    undone: list[int] = []
    jobs.start(1, lambda: Done(1, 1 / 0 > 0), undone=lambda: undone.append(1))
    jobs.drain()
    assert [(done.number, done.success) for done in jobs.finished()] == [(1, False)]
    jobs.close()
    jobs.start(2, lambda: Done(2, True), undone=lambda: undone.append(2))
    assert [(done.number, done.success) for done in jobs.finished()] == [(2, False)]
    assert undone == [1, 2]
