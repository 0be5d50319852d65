"""A check finds every damage, names the place, and invents none."""

import random
import threading
import time

import pytest

from kvctl.ledger import Log
from kvctl.ledger.verify import verify
from tests.ledger import damage
from tests.ledger.site import ORIGIN, Key, copy, events, write

SIZES = (1, 255, 256, 257, 1000, 3000)
ROUNDS = 200


@pytest.fixture(scope="module")
def key():
    return Key()


@pytest.fixture(scope="module")
def logs(key, tmp_path_factory):
    """Closed logs of several sizes, by size."""
    made = {}
    for size in SIZES:
        made[size] = tmp_path_factory.mktemp(f"log{size}") / "log"
        write(made[size], key, events(size), step=90)
    return made


@pytest.mark.parametrize("size", SIZES)
def test_clean_logs_have_no_problem(logs, key, size):
    report = verify(logs[size], ORIGIN, key.public)
    assert report.problems == []
    assert (report.size, report.beyond) == (size, 0)
    assert sum(report.sources.values()) == size


def test_the_empty_log_is_clean(key, tmp_path):
    write(tmp_path, key, [])
    assert verify(tmp_path, ORIGIN, key.public).problems == []


def test_every_damage_is_found_and_its_file_named(logs, key, tmp_path):
    rnd = random.Random(20)
    missed = []
    for number in range(ROUNDS):
        place = copy(logs[rnd.choice(SIZES)], tmp_path / "log")
        kind = damage.KINDS[number % len(damage.KINDS)]
        if kind is damage.swap:
            place = copy(logs[3000], tmp_path / "log")
        done, path = kind(place, rnd)
        report = verify(place, ORIGIN, key.public)
        named = {problem.place for problem in report.problems}
        if not ({str(path.relative_to(place)), str(path.relative_to(place).parent)} & named):
            missed.append((done, report.problems))
    assert missed == []


def test_a_rewritten_log_is_found_by_an_earlier_checkpoint_alone(key, tmp_path):
    """What a rewriter with the key can hide from the log itself, and not from who kept a checkpoint."""
    plain = [b"entry %d" % i for i in range(700)]
    plain[3] = b"entry of block.read"
    write(tmp_path / "log", key, plain)
    note = (tmp_path / "log" / "checkpoint").read_text()
    changed = [*plain[:3], b"entry of block.gone", *plain[4:], b"one more"]
    write(tmp_path / "again", key, changed)
    again = tmp_path / "again"
    assert verify(again, ORIGIN, key.public, counters=False).sound
    (problem,) = verify(again, ORIGIN, key.public, note, counters=False).problems
    assert "rewritten" in problem.what
    assert problem.place == "entries 0 to 699"


def test_two_earlier_checkpoints_narrow_the_place(key, tmp_path):
    notes = []
    entries = [b"entry %d" % i for i in range(900)]
    with Log.open(tmp_path / "log", ORIGIN, key, publish_seconds=None) as log:
        for at in range(0, 900, 300):
            log.append(entries[at : at + 300])
            notes.append(log.checkpoint())
    entries[450] = b"another"
    write(tmp_path / "again", key, entries)
    report = verify(tmp_path / "again", ORIGIN, key.public, notes, counters=False)
    assert [problem.place for problem in report.problems] == ["entries 300 to 599", "entries 300 to 899"]


def test_what_a_rewriter_does_to_numbered_events_is_named(key, tmp_path):
    rnd = random.Random(7)
    entries = events(800)
    write(tmp_path / "log", key, entries)
    note = (tmp_path / "log" / "checkpoint").read_text()
    for number in range(20):
        again = tmp_path / f"again{number}"
        done, at = damage.rewrite(entries, rnd, again, key)
        report = verify(again, ORIGIN, key.public, note)
        assert report.problems, done
        if done.startswith("remove") and at < 797:
            assert any(problem.index is not None and at <= problem.index <= at + 3 for problem in report.problems), done
        assert verify(again, ORIGIN, key.public, since=None).size == report.size


def test_a_cut_log_names_the_entries_that_are_gone(key, tmp_path):
    write(tmp_path / "log", key, events(600))
    note = (tmp_path / "log" / "checkpoint").read_text()
    write(tmp_path / "again", key, events(500))
    problems = verify(tmp_path / "again", ORIGIN, key.public, note).problems
    assert [problem.place for problem in problems] == ["entries 500 to 599"]


def test_another_logs_checkpoint_is_no_earlier_one(logs, key):
    other = Key()
    note = (logs[256] / "checkpoint").read_text()
    assert verify(logs[256], ORIGIN, other.public).problems[0].place == "checkpoint"
    assert verify(logs[256], ORIGIN + "/x", key.public).problems[0].place == "checkpoint"
    assert verify(logs[256], ORIGIN, key.public, note).problems == []
    assert verify(logs[256], ORIGIN, key.public, note.replace("256", "255")).problems


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((1, 2, 4), "1 missing"),
        ((1, 2, 2), "doubled"),
        ((2, 3, 4), "1 missing"),
        ((1, 3, 2), "doubled or out of order"),
    ],
)
def test_counters_of_a_source(key, tmp_path, numbers, said):
    write(tmp_path, key, [b'{"source":"a","seq":%d}' % number for number in numbers])
    problems = verify(tmp_path, ORIGIN, key.public).problems
    assert any(said in problem.what and problem.place.startswith("tile/entries/000") for problem in problems)


def test_an_entry_without_a_number_is_a_problem_unless_none_has_one(key, tmp_path):
    write(tmp_path, key, [b"plain"])
    assert [problem.index for problem in verify(tmp_path, ORIGIN, key.public).problems] == [0]
    assert verify(tmp_path, ORIGIN, key.public, counters=False).sound


def test_an_unknown_file_is_named(key, tmp_path):
    write(tmp_path, key, events(3))
    (tmp_path / "tile" / "0" / "notes.txt").write_text("hello")
    assert [problem.place for problem in verify(tmp_path, ORIGIN, key.public).problems] == ["tile/0/notes.txt"]


def test_a_growing_log_is_checked_without_a_false_alarm(key, tmp_path):
    stop = threading.Event()
    with Log.open(tmp_path, ORIGIN, key, publish_seconds=0.001) as log:

        def grow():
            first = 0
            while not stop.wait(0.001):  # a pace at which checking keeps up
                log.append(events(37, first))
                first += 37

        writer = threading.Thread(target=grow)
        writer.start()
        try:
            reports = [verify(tmp_path, ORIGIN, key.public) for _ in range(30)]
            until = time.monotonic() + 60
            while reports[-1].size == reports[0].size and time.monotonic() < until:
                reports.append(verify(tmp_path, ORIGIN, key.public))
        finally:
            stop.set()
            writer.join()
    assert [report.problems for report in reports] == [[]] * len(reports)
    assert reports[-1].size > reports[0].size
