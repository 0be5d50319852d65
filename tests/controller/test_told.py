"""Acts that commands tell: under whose name, what the controller sees of them, and what it does not take."""

import json
from pathlib import Path

import pytest

from kvctl.controller.acts import acting, new_id
from kvctl.controller.record import OwnLedger
from kvctl.fleet.remote import journal
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import EventRecord
from tests.controller import people

EVE = Principal("local:eve", frozenset({Role.OPERATOR}), fresh=True)


@pytest.fixture
def ctl(tmp_path: Path):
    with people.controller(tmp_path) as made:
        yield made


def tell(ctl, kind, data, who=people.OPERATOR, **more):
    return ctl.call("event.record", who, EventRecord(kind, data, **more))


def newest(ctl):
    return next(iter(ctl.books.recorded(ctl.books.log.size - 1)))


class Told:
    """The control log as a command reaches it."""

    def __init__(self, ctl):
        self.ctl, self.directory, self.ledger, self.answers = ctl, ctl.directory, self, []

    def record(self, kind, data, outcome="ok"):
        self.answers.append((kind, tell(self.ctl, kind, dict(data), outcome=outcome)["told"]))

    def note(self, kind, data, outcome="ok"):
        self.record(kind, data, outcome)
        return True


def test_what_is_told_bears_the_callers_name_and_says_that_nothing_here_shows_it(ctl):
    tell(ctl, "run.started", {"run": "r-1", "told": "seen"}, EVE)
    assert (newest(ctl).actor, newest(ctl).data["told"]) == ("local:eve", "unseen")


def test_a_command_that_is_at_it_over_this_state_is_seen(ctl):
    scene = Told(ctl)
    with acting(scene, "deploy", new_id(), {"what": "kvstored", "nodes": ["a"]}):
        pass
    assert scene.answers == [("deploy.started", "seen"), ("deploy.ended", "seen")]


@pytest.mark.parametrize("noun", ["run", "deploy", "bootstrap", "upkeep"])
def test_an_end_of_what_was_never_begun_is_refused_and_that_is_on_record(ctl, noun):
    with pytest.raises(RefusedError) as refused:
        tell(ctl, f"{noun}.ended", {noun: "x-1"}, EVE)
    denied = newest(ctl)
    assert (refused.value.code, denied.kind, denied.actor) == ("KV-CTL-075", "access.denied", "local:eve")
    assert denied.data["kind"] == f"{noun}.ended"


def ended(ctl, run: str) -> dict[str, object]:
    """A run whose journal is here, finished; what its end is told as."""
    folder = ctl.directory / "runs" / run
    folder.mkdir(parents=True)
    events = [{"event": "started", "plan": "p-1", "nodes": []}, {"event": "ended", "state": "finished"}]
    (folder / journal.FILE).write_text("".join(json.dumps({"n": n, **e}) + "\n" for n, e in enumerate(events, 1)))
    OwnLedger(ctl).record("run.started", {"run": run})
    from kvctl.controller.acts import of_run

    found = of_run(ctl.directory, run, otherwise=None)
    assert found is not None
    return {"outcome": found[1], "data": {"run": run, **found[0]}}


def test_a_runs_end_is_what_its_journal_says(ctl):
    told = ended(ctl, "20260301-000000-aa")
    assert tell(ctl, "run.ended", told["data"], outcome=told["outcome"])["told"] == "seen"
    for wrong in ({"journal_sha256": "00" * 32}, {"why": "KV-X-001", "state": "other", "exit_code": 77}):
        with pytest.raises(RefusedError) as refused:
            tell(ctl, "run.ended", {**told["data"], **wrong}, outcome=told["outcome"])
        assert refused.value.code == "KV-CTL-075"


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("store.destroyed", {}), ("run.other", {}), ("controller.started", {}), ("fleet.checked", {"tenant": "acme"}),
        ("fleet.checked", {"outcome": "great"}), ("approval.executed", {}),
    ],
)  # fmt: skip
def test_only_what_commands_tell_is_taken(ctl, kind, more):
    before = ctl.books.log.size
    with pytest.raises(UsageError) as refused:
        tell(ctl, kind, {}, **more)
    assert (refused.value.code, ctl.books.log.size) == ("KV-AUD-005", before)


def test_every_kind_that_a_command_records_is_taken():
    import re

    from kvctl.controller.told import KINDS

    source = Path(__file__).resolve().parents[2] / "kvctl"
    texts = [path.read_text() for folder in ("client", "controller", "cli") for path in (source / folder).rglob("*.py")]
    said = {
        kind for text in texts for kind in re.findall(r'(?:ledger, |ledger\.note\(|EventRecord\()"([a-z.-]+)"', text)
    }
    assert said
    assert said - KINDS == set()


def test_what_keeps_it_from_being_recorded_is_told(ctl, monkeypatch):
    def full(*_):
        raise KvctlError("KV-CTL-002", "the disk is full")

    monkeypatch.setattr(ctl.books, "commit", full)
    with pytest.raises(KvctlError):
        tell(ctl, "fleet.checked", {})
