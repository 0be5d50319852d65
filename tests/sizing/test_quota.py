"""Shares hold under any order of writes; a tenant that is not known is neither served nor emptied."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.sizing.quota import UNKNOWN, Ledger, Verdict


def test_a_tenant_gets_its_limit_and_at_most_a_twentieth_more():
    ledger = Ledger({"a": 100})
    assert ledger.reserve("a", 100) is Verdict.GRANTED
    assert ledger.reserve("a", 5) is Verdict.OVER
    assert ledger.reserve("a", 1) is Verdict.FULL
    ledger.commit("a", 100)
    ledger.commit("a", 5)
    assert (ledger.used("a"), ledger.excess("a"), ledger.above()) == (105, 5, {"a": 5})


def test_an_aborted_write_gives_its_room_back():
    ledger = Ledger({"a": 100})
    ledger.reserve("a", 100)
    ledger.release("a", 100)
    assert ledger.reserve("a", 100) is Verdict.GRANTED


def test_after_a_restart_a_tenant_is_held_until_its_limit_is_known():
    ledger = Ledger()
    ledger.found("a", 500)
    assert ledger.held("a")
    assert ledger.reserve("a", 1) is Verdict.HELD
    assert ledger.above() == {}  # nothing of it is to be evicted
    assert ledger.learn({"a": 400}) == ["a"]
    assert ledger.above() == {"a": 100}
    assert ledger.reserve("a", 1) is Verdict.FULL


def test_no_limit_is_not_the_same_as_no_known_limit():
    assert Ledger(default=None).reserve("a", 1 << 60) is Verdict.GRANTED
    assert Ledger(default=UNKNOWN).reserve("a", 1) is Verdict.HELD
    assert Ledger({"a": 0}).reserve("a", 1) is Verdict.FULL
    named = Ledger({"a": None}, default=10)
    assert (named.reserve("a", 11), named.reserve("b", 11)) == (Verdict.GRANTED, Verdict.FULL)


def test_an_empty_table_of_limits_empties_nobody():
    ledger = Ledger({"a": 100})
    ledger.found("a", 100)
    ledger.learn({})
    assert ledger.held("a")
    assert ledger.above() == {}


def test_a_lower_limit_makes_a_tenant_pay_and_a_higher_one_lets_it_write():
    ledger = Ledger({"a": 100})
    ledger.found("a", 100)
    ledger.learn({"a": 60})
    assert ledger.above() == {"a": 40}
    ledger.freed("a", 40)
    assert ledger.above() == {}
    ledger.learn({"a": 200})
    assert ledger.reserve("a", 100) is Verdict.GRANTED


@pytest.mark.parametrize("wrong", ["release", "freed", "commit"])
def test_giving_back_what_was_never_taken_is_an_error(wrong):
    ledger = Ledger(default=None)
    ledger.reserve("a", 5)
    with pytest.raises(ValueError, match="a: 6 bytes"):
        getattr(ledger, wrong)("a", 6)


def test_wrong_numbers_are_refused():
    for bad in ({"a": -1}, {}):
        with pytest.raises(ValueError, match="below 0"):
            Ledger(bad, default=-1)
    with pytest.raises(ValueError, match="overshoot"):
        Ledger(overshoot=0.2)
    with pytest.raises(ValueError, match="0 or more"):
        Ledger(default=None).reserve("a", -1)


steps = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "commit", "release", "freed", "learn"]), st.sampled_from("abc"), st.integers(0, 40)
    ),
    max_size=200,
)


@given(steps)
def test_no_order_of_writes_passes_the_overshoot(what):
    limits = {"a": 100, "b": 37}
    ledger, reserved, used = Ledger(limits, default=UNKNOWN), {t: [] for t in "abc"}, dict.fromkeys("abc", 0)
    for step, tenant, size in what:
        if step == "reserve" and ledger.reserve(tenant, size) in (Verdict.GRANTED, Verdict.OVER):
            reserved[tenant].append(size)
        elif step in ("commit", "release") and reserved[tenant]:
            written = reserved[tenant].pop()
            getattr(ledger, step)(tenant, written)
            used[tenant] += written if step == "commit" else 0
        elif step == "freed":
            ledger.freed(tenant, min(size, used[tenant]))
            used[tenant] -= min(size, used[tenant])
        elif step == "learn":
            ledger.learn(limits, default=UNKNOWN)
        for name, limit in limits.items():
            assert ledger.used(name) == used[name]
            assert used[name] + sum(reserved[name]) <= limit * 1.05
            assert ledger.excess(name) == max(0, used[name] - limit)
        assert used["c"] == 0
