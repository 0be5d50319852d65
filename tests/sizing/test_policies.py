"""Every policy keeps its books under any use, forgets within bounds, and decides as its paper says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.sizing.policies import ARC, LRU, POLICIES, S3FIFO, CostAware

NAMES = sorted(POLICIES)
keys = st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), keys, st.integers(1, 9)),
        st.tuples(st.just("touch"), keys, st.just(0)),
        st.tuples(st.just("remove"), keys, st.just(0)),
        st.tuples(st.just("evict"), st.just(0), st.just(0)),
    ),
    max_size=300,
)


def remembered(policy):
    """Keys that are not resident and still known to a policy, and rows of its heap."""
    ghosts = [g for name in ("_ghosts", "_left_once", "_left_often") if (g := getattr(policy, name, None)) is not None]
    return sum(len(g) for g in ghosts), len(getattr(policy, "_heap", ()))


@pytest.mark.parametrize("name", NAMES)
@given(steps)
def test_the_books_are_right_under_any_use(name, what):
    policy, sizes, most = POLICIES[name](), {}, 0
    for step, key, size in what:
        if step == "add" and key not in sizes:
            policy.add(key, size, cost=float(size), position=key % 5)
            sizes[key] = size
        elif step == "touch":
            assert (policy.touch(key) is not None) == (key in sizes)
        elif step == "remove":
            entry = policy.remove(key)
            assert (entry and entry.size) == sizes.pop(key, None)
        elif step == "evict":
            gone = policy.evict()
            assert (gone is None) == (not sizes)
            if gone is not None:
                assert gone[1].size == sizes.pop(gone[0])
        most = max(most, len(sizes))
        assert (len(policy), policy.used) == (len(sizes), sum(sizes.values()))
        assert all((key in policy) == (key in sizes) for key in range(31))
        ghosts, rows = remembered(policy)
        assert ghosts <= 2 * most + 2
        assert rows <= 2 * most + 65


@pytest.mark.parametrize("name", NAMES)
@given(steps)
def test_evicting_empties_it_and_names_each_key_once(name, what):
    policy = POLICIES[name]()
    for step, key, size in what:
        if step == "add" and key not in policy:
            policy.add(key, size)
        elif step == "touch":
            policy.touch(key)
    resident = {key for key in range(31) if key in policy}
    gone = [policy.evict()[0] for _ in range(len(policy))]
    assert (set(gone), len(gone)) == (resident, len(resident))
    assert policy.evict() is None
    assert policy.used == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_key_comes_in_once_and_has_a_size(name):
    policy = POLICIES[name]()
    policy.add("a", 3)
    with pytest.raises(ValueError, match="resident already"):
        policy.add("a", 3)
    with pytest.raises(ValueError, match="above 0"):
        policy.add("b", 0)
    assert (len(policy), policy.used) == (1, 3)


@pytest.mark.parametrize("name", NAMES)
def test_memory_stays_bounded_however_many_keys_pass(name):
    policy = POLICIES[name]()
    for key in range(20_000):
        if len(policy) >= 100:
            policy.evict()
        policy.add(key, 1)
    ghosts, rows = remembered(policy)
    assert ghosts <= 101
    assert rows <= 265


def fill(policy, keys, capacity, **how):
    for key in keys:
        if policy.touch(key) is None:
            while policy.used >= capacity:
                policy.evict()
            policy.add(key, 1, **how)


@pytest.mark.parametrize("name", ["arc", "s3fifo", "cost-aware"])
def test_a_scan_does_not_push_out_what_is_used_again(name):
    policy = POLICIES[name]()
    for _ in range(3):
        fill(policy, range(50), 100)
    fill(policy, range(1000, 1180), 100)
    kept = sum(key in policy for key in range(50))
    lru = LRU()
    for _ in range(3):
        fill(lru, range(50), 100)
    fill(lru, range(1000, 1180), 100)
    assert sum(key in lru for key in range(50)) == 0
    assert kept >= 45


def test_arc_gives_room_back_to_recency_when_that_is_asked_for():
    policy = ARC()
    for _ in range(2):
        fill(policy, range(100), 100)
    for start in range(200, 2000, 60):  # each run of new keys is asked for twice, the second time after it left
        fill(policy, range(start, start + 60), 100)
        fill(policy, range(start, start + 60), 100)
    assert sum(key in policy for key in range(100)) < 20


def test_s3fifo_lets_a_key_that_comes_back_stay():
    policy = S3FIFO()
    fill(policy, range(20), 20)
    policy.evict()  # 0 leaves, remembered
    policy.add(0, 1)
    fill(policy, range(100, 117), 20)
    assert 0 in policy
    assert 1 not in policy


class TestCostAware:
    def test_what_is_dear_to_compute_stays_longer(self):
        policy = CostAware()
        for key in range(40):
            policy.add(("dear", key) if key % 2 else ("cheap", key), 10, cost=400.0 if key % 2 else 100.0)
        gone = [policy.evict()[0][0] for _ in range(20)]
        assert gone == ["cheap"] * 20

    def test_cost_counts_by_the_byte(self):
        policy = CostAware()
        policy.add("large", 100, cost=100.0)
        policy.add("small", 10, cost=50.0)
        assert policy.evict()[0] == "large"

    def test_a_cost_that_is_not_known_is_average_not_zero(self):
        policy = CostAware()
        for key in range(10):
            policy.add(("cheap", key), 1, cost=1.0)
            policy.add(("dear", key), 1, cost=9.0)
        policy.add("not known", 1)
        order = [policy.evict()[0] for _ in range(21)]
        assert 10 <= order.index("not known") <= 15

    def test_a_claimed_cost_cannot_keep_a_chunk_for_ever(self):
        policy = CostAware()
        policy.add("claimed", 1, cost=1e30)
        fill(policy, range(3000), 100, cost=1.0)
        assert "claimed" not in policy

    def test_tails_leave_before_heads(self):
        policy = CostAware()
        for position in range(100):
            policy.add(position, 1, position=position, cost=1.0 + position / 512)
        assert [policy.evict()[0] for _ in range(100)] == list(reversed(range(100)))

    def test_what_was_hot_long_ago_leaves(self):
        policy = CostAware()
        policy.add("hot", 1)
        for _ in range(1000):
            policy.touch("hot")
        for start in range(0, 20_000, 50):
            fill(policy, range(start, start + 50), 100)
            fill(policy, range(start, start + 50), 100)
        assert "hot" not in policy

    def test_a_key_that_comes_back_is_worth_more_than_a_new_one(self):
        policy = CostAware()
        for key in ("a", "b", "c"):
            policy.add(key, 1)
        gone = policy.evict()[0]
        policy.add("new", 1)
        policy.add(gone, 1)
        order = [policy.evict()[0] for _ in range(4)]
        assert order[-1] == gone

    def test_one_eviction_looks_at_a_bounded_number_of_keys(self):
        policy = CostAware()
        for key in range(5000):
            policy.add(key, 1)
        for key in range(5000):
            policy.touch(key)
        rows_out_of_place = sum(entry.worth > worth for worth, _, _, entry in policy._heap)
        policy.evict()
        assert rows_out_of_place - sum(entry.worth > worth for worth, _, _, entry in policy._heap) <= 256
