"""The history file: bounded, whole after a kill, owned by one process."""

import pytest

from kvctl.fleet.node.store import History, StoreBusyError


def test_events_come_back_in_order(tmp_path):
    history = History(tmp_path / "flaps.jsonl")
    history.add("flap", interface="eth1")
    history.add("up", interface="eth1")
    assert [(event["kind"], event["interface"]) for event in history.read()] == [("flap", "eth1"), ("up", "eth1")]


def test_it_never_grows_beyond_its_bound_and_keeps_the_newest(tmp_path):
    history = History(tmp_path / "flaps.jsonl", max_lines=20)
    for number in range(205):
        history.add("flap", number=number)
        assert len(history.read()) <= 20
    assert history.read()[-1]["number"] == 204


def test_a_line_that_a_kill_cut_short_costs_only_itself(tmp_path):
    path = tmp_path / "flaps.jsonl"
    path.write_text('{"kind": "flap", "at": "x"}\n{"kind": "fl')
    history = History(path)
    history.add("up")
    assert [event["kind"] for event in history.read()] == ["flap", "up"]


def test_two_writers_are_refused(tmp_path):
    first = History(tmp_path / "flaps.jsonl")
    with pytest.raises(StoreBusyError):
        History(tmp_path / "flaps.jsonl")
    first.close()
    History(tmp_path / "flaps.jsonl")
