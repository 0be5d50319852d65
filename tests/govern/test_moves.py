"""What stores are asked for, and what their answers come to."""

import pytest

from kvctl.govern.moves import Selection, impact, outcome, steps

OF = Selection("acme", "flash", "disk", None, "0f" * 16, "private")


def ran(state="done", skipped=None, failed=None, why=""):
    return {"state": state, "skipped": skipped or {}, "failed": failed or {}, "why": why}


@pytest.mark.parametrize(
    ("planned", "said", "state", "words"),
    [
        (["a", "b"], {"a": ran(), "b": ran()}, "done", ""),
        (["a", "b"], {"a": ran()}, "stopped", "b: not begun"),
        (["a"], {"a": ran("stopped")}, "stopped", "a: stopped"),
        (["a"], {"a": ran("failed", why="target full")}, "failed", "a: target full"),
        (["a"], {"a": ran(failed={"copy differs": 2})}, "failed", "2 chunks failed"),
        (["a"], {"a": ran(skipped={"leased": 3})}, "stopped", "3 chunks stayed: leased"),
        (["a"], {"a": ran(skipped={"held": 3})}, "done", "3 chunks stayed: held"),
        (["a"], {"a": ran("interrupted", why="the store ended meanwhile")}, "stopped", "a: the store ended meanwhile"),
    ],
)
def test_the_end_of_a_move(planned, said, state, words):
    assert outcome(planned, said, back=False) == (state, words)


def test_the_way_back_ends_rolled_back():
    assert outcome(["a"], {"a": ran()}, back=True)[0] == "rolled-back"


def test_each_store_is_asked_for_the_selection_and_on_the_way_back_for_what_it_moved():
    (there,) = steps("m1", OF, ["a"])
    assert there == {
        "store": "a",
        "request": {
            "id": "m1", "source": "flash", "target": "disk", "tenant": "acme", "model": "0f" * 16, "kind": "private",
        },
    }  # fmt: skip
    (back,) = steps("m1", OF, ["a"], back=True)
    assert back["request"] == {
        "id": "m1.back", "source": "disk", "target": "flash", "tenant": "acme", "undo": "m1",
    }  # fmt: skip


def test_the_impact_adds_up_and_says_what_is_not_known():
    found = impact([{"store": "a", "chunks": 1, "bytes": 10}, {"store": "b", "chunks": 2, "bytes": 20}], [])
    assert (found["chunks"], found["bytes"], found["tenants"], found["holds"]) == (3, 30, 1, [])
    assert found["hit_rate_change"] is None
    assert found["hit_rate_why"]
