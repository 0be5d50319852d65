"""Which scopes a store is not asked for, and until when."""

from kvctl.connector.unserved import AHEAD, FIRST, LONGEST, Unserved
from kvctl.types.chunks import Scope

SCOPE, OTHER = Scope("acme", "users", bytes(16)), Scope("globex", "users", bytes(16))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_refused_scope_is_left_out_for_a_while_and_no_other_is():
    clock = Clock()
    unserved = Unserved(clock)
    unserved.refused(SCOPE)
    assert SCOPE in unserved
    assert OTHER not in unserved
    assert len(unserved) == 1
    clock.now += FIRST
    assert SCOPE not in unserved
    unserved.served(SCOPE)
    assert len(unserved) == 0


def test_asking_again_is_due_before_requests_would_ask():
    clock = Clock()
    unserved = Unserved(clock)
    assert not unserved.due(SCOPE)
    unserved.refused(SCOPE)
    assert not unserved.due(SCOPE)
    clock.now += FIRST - AHEAD
    assert unserved.due(SCOPE)
    assert SCOPE in unserved


def test_each_refusal_in_a_row_doubles_the_time_and_many_at_once_count_once():
    clock = Clock()
    unserved = Unserved(clock)
    for _ in range(40):
        unserved.refused(SCOPE)
    wait = FIRST
    for _ in range(12):
        clock.now += wait - AHEAD
        assert unserved.due(SCOPE)
        unserved.refused(SCOPE)
        wait = min(wait * 2, LONGEST)
        clock.now += wait - AHEAD - 0.1
        assert not unserved.due(SCOPE)
        clock.now -= wait - AHEAD - 0.1
    assert wait == LONGEST
