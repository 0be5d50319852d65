from hypothesis import given
from hypothesis import strategies as st

from kvctl.connector.breaker import Breaker, Policy, State

POLICY = Policy(failures=3, first=1.0, longest=8.0, jitter=0.5, probe=10.0)


def opened(at: float = 0.0, chance: float = 0.0) -> Breaker:
    breaker = Breaker(POLICY)
    for _ in range(3):
        breaker = breaker.failure(at, chance)
    return breaker


def test_it_opens_at_the_third_failure_in_a_row() -> None:
    twice = Breaker(POLICY).failure(0, 0).failure(0, 0)
    assert twice.ask(0) == (twice, True)
    assert twice.failure(0, 0).ask(0.5)[1] is False
    assert twice.success().failure(0, 0).failure(0, 0).ask(0.5)[1] is True


def test_one_probe_goes_and_the_others_wait_for_its_word() -> None:
    breaker, first = opened().ask(1.0)
    assert (breaker.state, first) == (State.HALF_OPEN, True)
    assert breaker.ask(1.1)[1] is False
    assert breaker.success().ask(1.1)[1] is True
    assert breaker.success().state is State.CLOSED


def test_each_failed_probe_doubles_the_wait_up_to_the_longest() -> None:
    breaker, now, waits = opened(), 0.0, []
    for _ in range(6):
        waits.append(breaker.until - now)
        now = breaker.until
        breaker = breaker.ask(now)[0].failure(now, 0.0)
    assert waits == [1, 2, 4, 8, 8, 8]


def test_jitter_lengthens_the_wait() -> None:
    assert opened(chance=0.5).until == 1.25


def test_a_probe_without_a_word_makes_room_for_another() -> None:
    breaker = opened().ask(1.0)[0]
    assert breaker.ask(10.9)[1] is False
    assert breaker.ask(11.0)[1] is True
    assert breaker.abandon(1.5).ask(1.5)[1] is True


def test_late_failures_do_not_keep_it_open_longer() -> None:
    breaker = opened()
    assert breaker.failure(0.9, 0.0).until == breaker.until


def unread(breaker: Breaker, at: float = 0.0) -> Breaker:
    """A question is answered, and the chunks that are read then are no good."""
    return breaker.success().failure(at, 0.0, read=True)


def test_answers_between_them_do_not_hide_that_reading_fails() -> None:
    breaker = Breaker(POLICY)
    for state in (State.CLOSED, State.CLOSED, State.OPEN):
        breaker = unread(breaker)
        assert breaker.state is state
    assert breaker.success() == breaker  # of a question from before
    assert unread(unread(Breaker(POLICY))).success(read=True) == Breaker(POLICY)


def test_an_answer_lets_one_read_be_tried_and_its_failure_opens_for_longer() -> None:
    breaker = Breaker(POLICY)
    for _ in range(3):
        breaker = unread(breaker)
    waits, now = [], 0.0
    for _ in range(4):
        waits.append(breaker.until - now)
        now = breaker.until
        breaker = breaker.ask(now)[0].success()
        assert breaker.state is State.CLOSED
        breaker = breaker.failure(now, 0.0, read=True)
        assert breaker.state is State.OPEN
    assert waits == [1, 2, 4, 8]
    assert breaker.ask(breaker.until)[0].success().success(read=True) == Breaker(POLICY)


def test_success_forgets_the_doubling() -> None:
    breaker = opened().ask(1.0)[0].failure(1.0, 0.0).ask(3.0)[0].success()
    assert breaker == Breaker(POLICY)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "success", "failure", "abandon"]),
            st.booleans(),
            st.floats(0, 40),
            st.floats(0, 1, exclude_max=True),
        )
    )
)
def test_whatever_happens_it_lets_a_request_through_again(
    steps: list[tuple[str, bool, float, float]],
) -> None:
    breaker, now = Breaker(POLICY), 0.0
    for step, read, later, chance in steps:
        now += later
        asks = breaker.would(now)
        match step:
            case "ask":
                breaker, allowed = breaker.ask(now)
                assert allowed is asks
            case "success":
                breaker = breaker.success(read=read)
            case "failure":
                breaker = breaker.failure(now, chance, read=read)
            case "abandon":
                breaker = breaker.abandon(now)
        assert breaker.until - now <= POLICY.longest * (1 + POLICY.jitter) + POLICY.probe
    now += POLICY.longest * (1 + POLICY.jitter) + POLICY.probe
    assert breaker.ask(now)[1] is True
