"""What is chosen to leave: never what is read or held, debtors first, tails first, and not more than was asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.sizing.evict import Residents, Why
from kvctl.sizing.policies import LRU, POLICIES

NAMES = sorted(POLICIES)
TENANTS = "abc"


def nobody(_):
    return False


def take(residents, wanted, *, leased=nobody, held=nobody, above=None):
    return residents.take(wanted, leased=leased, held=held, above=above)


def filled(sizes, name="lru", tenant="a", positions=None):
    residents = Residents(POLICIES[name])
    for key, size in sizes.items():
        residents.add(tenant, key, size, position=(positions or {}).get(key, 0))
    return residents


def keys_of(taken):
    return [victim.key for victim in taken.victims]


def test_the_least_recently_used_leave_until_enough_is_free():
    residents = filled({"x": 10, "y": 10, "z": 10})
    residents.touch("a", ["x"])
    taken = take(residents, 15)
    assert (keys_of(taken), taken.size, taken.short) == (["y", "z"], 20, 0)
    assert {victim.why for victim in taken.victims} == {Why.LEAST_WORTH}
    assert residents.contains("a", "x")
    assert not residents.contains("a", "y")


def test_a_prompts_tail_leaves_before_its_head_however_it_was_written():
    residents = filled(dict.fromkeys(range(40), 1), positions={n: n for n in range(40)})
    assert keys_of(take(residents, 40)) == list(reversed(range(40)))


def test_a_prompts_tail_leaves_before_its_head_after_it_was_read():
    residents = filled(dict.fromkeys(range(300), 1))
    residents.touch("a", list(range(300)))
    first = keys_of(take(residents, 100))
    assert sorted(first) == list(range(200, 300))


def test_a_leased_chunk_stays_and_leaves_when_its_lease_has_ended():
    residents = filled({"x": 10, "y": 10})
    taken = take(residents, 10, leased=lambda key: key == "x")
    assert (keys_of(taken), taken.leased, taken.short) == (["y"], 1, 0)
    taken = take(residents, 10, leased=lambda key: key == "x")
    assert (taken.victims, taken.short) == ((), 10)
    assert residents.used("a") == 10
    assert keys_of(take(residents, 10)) == ["x"]


def test_a_held_tenants_chunks_stay():
    residents = filled({"x": 10}, tenant="a")
    residents.add("b", "y", 10)
    taken = take(residents, 20, held=lambda tenant: tenant == "a")
    assert (keys_of(taken), taken.short, taken.held) == (["y"], 10, 1)


def test_who_is_above_its_share_pays_first_and_only_what_it_owes():
    residents = Residents(LRU)
    for key in range(4):
        residents.add("old", ("old", key), 10)
    for key in range(4):
        residents.add("debtor", ("debtor", key), 10)
    taken = take(residents, 40, above={"debtor": 20})
    assert [(v.tenant, v.why) for v in taken.victims] == [
        ("debtor", Why.ABOVE_SHARE),
        ("debtor", Why.ABOVE_SHARE),
        ("old", Why.LEAST_WORTH),
        ("old", Why.LEAST_WORTH),
    ]


def test_within_their_shares_tenants_compete_by_last_use():
    residents = Residents(LRU)
    for turn in range(6):
        residents.add("ab"[turn % 2], turn, 10)
    residents.touch("a", [0])
    assert keys_of(take(residents, 30)) == [1, 2, 3]


def test_a_chunk_that_is_used_while_it_waits_to_leave_is_saved():
    residents = filled(dict.fromkeys(range(10), 1))
    take(residents, 1)
    residents.touch("a", [1])
    assert keys_of(take(residents, 8)) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert residents.contains("a", 1)


def test_nothing_wanted_is_nothing_taken():
    residents = filled({"x": 10})
    assert take(residents, 0, above={"a": 5}).victims == ()


def test_a_chunk_is_added_once():
    residents = filled(dict.fromkeys(range(5), 1))
    take(residents, 1)
    for key in range(1, 5):
        with pytest.raises(ValueError, match="resident already"):
            residents.add("a", key, 1)


def test_what_is_removed_or_forgotten_is_no_candidate():
    residents = filled(dict.fromkeys(range(5), 1))
    take(residents, 1)
    assert residents.remove("a", 3)
    assert not residents.remove("a", 3)
    assert not residents.remove("nobody", 3)
    assert keys_of(take(residents, 9)) == [1, 2, 4]
    residents.add("a", 7, 1)
    residents.forget("a")
    assert (len(residents), take(residents, 9).short) == (0, 9)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(TENANTS), st.integers(0, 20), st.integers(1, 9)),
        st.tuples(st.just("touch"), st.sampled_from(TENANTS), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("remove"), st.sampled_from(TENANTS), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("take"), st.sampled_from(TENANTS), st.integers(0, 20), st.integers(0, 60)),
    ),
    max_size=150,
)


@pytest.mark.parametrize("name", NAMES)
@given(steps, st.sets(st.integers(0, 20), max_size=6), st.sampled_from([*TENANTS, ""]))
def test_the_rules_hold_under_any_use(name, what, leased, held):
    residents, sizes = Residents(POLICIES[name], room=4), {}
    for step, tenant, key, size in what:
        where = (tenant, key)
        if step == "add" and where not in sizes:
            residents.add(tenant, key, size, position=key % 4)
            sizes[where] = size
        elif step == "touch":
            assert residents.touch(tenant, [key]) == (where in sizes)
        elif step == "remove":
            assert residents.remove(tenant, key) == (sizes.pop(where, None) is not None)
        elif step == "take":
            judge(
                take(residents, size, leased=leased.__contains__, held=held.__eq__, above={tenant: key}),
                size,
                sizes,
                leased,
                held,
            )
        assert len(residents) == len(sizes)
        for t in TENANTS:
            assert residents.used(t) == sum(s for (owner, _), s in sizes.items() if owner == t)
    assert all(residents.contains(*where) for where in sizes)
    left = take(residents, 10**6)
    assert sorted((v.tenant, v.key) for v in left.victims) == sorted(sizes)


def judge(taken, wanted, sizes, leased, held):
    for victim in taken.victims:
        assert victim.key not in leased
        assert victim.tenant != held
        assert sizes.pop((victim.tenant, victim.key)) == victim.size
    assert taken.size == sum(v.size for v in taken.victims)
    assert not taken.victims or taken.size - taken.victims[-1].size < wanted
    assert taken.short == max(0, wanted - taken.size)
    if taken.short:
        assert all(key in leased or tenant == held for tenant, key in sizes)


@pytest.mark.parametrize("name", NAMES)
def test_waiting_for_a_decision_needs_bounded_memory(name):
    residents = Residents(POLICIES[name], room=8)
    residents.add("a", "read for ever", 1)
    for key in range(2000):
        residents.add("a", key, 1, position=key % 7)
        if len(residents) > 40:
            take(residents, 1, leased=lambda k: k == "read for ever")
        residents.touch("a", [key - 20])
    pool = residents._pools["a"]
    assert residents.contains("a", "read for ever")
    assert len(pool._order) <= 2 * 40 + 8
