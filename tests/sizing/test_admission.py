import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.sizing.admission import Always, Duel, SecondTouch, UnderPressure
from kvctl.sizing.policies import LRU


def test_always_admits():
    assert Always().admits("a", fill=1.0)


def test_second_touch_admits_what_is_asked_for_again():
    door = SecondTouch(100)
    assert [door.admits(key, fill=1.0) for key in "abab"] == [False, False, True, True]


def test_a_common_prompt_comes_in_at_once():
    assert SecondTouch(100).admits("a", fill=1.0, common=True)
    assert UnderPressure(0.5, SecondTouch(100)).admits("a", fill=1.0, common=True)


def test_with_room_everything_comes_in_and_is_remembered():
    door = UnderPressure(0.9, SecondTouch(100))
    assert door.admits("a", fill=0.89)
    assert not door.admits("b", fill=0.9)
    assert door.admits("a", fill=1.0)  # it was stored, left, and came back
    assert door.admits("b", fill=1.0)


@given(st.lists(st.integers(0, 500), max_size=1000), st.integers(2, 40))
def test_memory_is_bounded_and_covers_the_last_half(asked, remember):
    door = SecondTouch(remember)
    for at, key in enumerate(asked):
        known = door.admits(key, fill=1.0)
        recent = set(asked[max(0, at - remember // 2) : at])
        if key in recent:
            assert known
        assert len(door) <= remember


def test_wrong_bounds_are_refused():
    with pytest.raises(ValueError, match="0 to 1"):
        UnderPressure(1.5, SecondTouch(10))
    with pytest.raises(ValueError, match="at least 2"):
        SecondTouch(1)


def lives(door, prompts, keys):
    """Hits and writes of a queue of `keys` behind a door."""
    cache, hits, writes = LRU(), 0, 0
    for key in prompts:
        door.asked(key)
        if cache.touch(key) is not None:
            hits += 1
        elif door.admits(key, fill=cache.used / keys):
            if cache.used >= keys:
                cache.evict()
            cache.add(key, 1)
            writes += 1
    return hits, writes


def duel(keys):
    return Duel(0.9, keys, SecondTouch(2 * keys))


class AlwaysAsked(Always):
    def asked(self, key):
        pass


def test_the_duel_admits_everything_where_each_key_returns_once_and_there_is_room():
    prompts = [key for start in range(0, 20_000, 200) for _ in range(2) for key in range(start, start + 200)]
    hits, _ = lives(duel(400), prompts, 400)
    assert hits > 0.9 * lives(AlwaysAsked(), prompts, 400)[0]


def test_the_duel_asks_for_a_second_touch_where_most_keys_never_return():
    once = iter(range(10**6, 10**7))
    prompts = [key for _ in range(60) for hot in range(300) for key in (hot, next(once), next(once))]
    hits, writes = lives(duel(400), prompts, 400)
    everything = lives(AlwaysAsked(), prompts, 400)
    assert hits > 10 * max(1, everything[0])
    assert writes < everything[1] / 10


def test_the_duel_lets_everything_in_while_there_is_room():
    door = duel(400)
    assert door.admits("a", fill=0.5)
    assert not door.admits("b", fill=0.95)
    assert door.admits("c", fill=0.95, common=True)


@given(st.lists(st.integers(), max_size=2000), st.integers(2, 300))
def test_the_shadows_are_bounded(asked, keys):
    door = duel(keys)
    for key in asked:
        door.asked(key)
    assert len(door) <= 2 * max(2, keys)
