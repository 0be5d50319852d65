"""A run in words: one line an event, and the summary at its end."""

import pytest

from kvctl.cli.follow import Follower, sentence, summary


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"event": "run.started", "steps": [1, 2]}, "run started: 2 steps"),
        ({"event": "step.started", "step": "s01", "node": "a", "role": "roce"}, "s01 a roce: started"),
        ({"event": "step.finished", "step": "s01", "node": "a", "changed": [1]}, "s01 a: done, 1 changed"),
        (
            {
                "event": "step.failed",
                "step": "s01",
                "node": "a",
                "error": {"code": "KV-X-001", "what": "no", "why": ""},
            },
            "s01 a: FAILED: KV-X-001: no",
        ),
        ({"event": "step.skipped", "step": "s02", "node": "a", "why": "s01 failed"}, "s02 a: skipped: s01 failed"),
        ({"event": "node.drained", "node": "a", "why": "net.mtu"}, "a: drained: net.mtu"),
        ({"event": "node.returned", "node": "a"}, "a: in service"),
        ({"event": "unit.started", "step": "s01", "node": "a"}, ""),
    ],
)
def test_an_event_in_words(event: dict[str, object], words: str) -> None:
    assert sentence(event) == words


def test_events_go_to_stderr_a_line_each_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with Follower() as follow:
        follow({"event": "step.started", "step": "s01", "node": "a", "role": "host"})
        follow({"event": "unit.started", "step": "s01", "node": "a"})
        follow({"event": "step.failed", "step": "s01", "node": "a", "error": {"why": "it said \x1b[2J"}})
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "s01 a host: started\ns01 a: FAILED: it said ?[2J\n"


VIEW = {
    "id": "r-20260101-000000-abcd", "state": "partial", "steps": 2, "done": 1, "changed": 3, "log": "/x/steps",
    "steps_view": [
        {"id": "s01", "node": "a", "role": "host", "state": "done", "why": ""},
        {"id": "s02", "node": "b", "role": "host", "state": "failed", "why": "KV-X-001: no"},
    ],
    "nodes_view": [{"node": "a", "state": "returned", "why": ""}, {"node": "b", "state": "drained", "why": "s02"}],
}  # fmt: skip


def test_the_summary_says_what_was_and_was_not_done_and_what_to_do() -> None:
    lines = summary(VIEW).splitlines()
    assert lines[1].split() == ["s01", "a", "host", "done"]
    assert lines[2].split() == ["s02", "b", "host", "failed", "KV-X-001:", "no"]
    assert lines[3] == "run r-20260101-000000-abcd: partial; 1 of 2 steps done, 3 changed"
    assert lines[4:] == [
        "a: returned",
        "b: drained: s02",
        "next: kvctl run resume r-20260101-000000-abcd; log: /x/steps",
    ]


def test_a_finished_run_has_nothing_to_resume() -> None:
    assert "resume" not in summary(VIEW | {"state": "finished"})
