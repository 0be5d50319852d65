"""Requests a minute and tokens a day, on a clock that the test holds."""

import pytest

from kvctl.gateway.answers import Refused
from kvctl.gateway.rates import DAY, Rates
from tests.gateway.site import ACME, change

NOON = 20_000 * DAY + DAY / 2


def test_a_minutes_requests_come_back_evenly():
    rates, limited = Rates(), change(ACME, requests_per_minute=6)
    for _ in range(6):
        rates.enter(limited, NOON)
    with pytest.raises(Refused) as refused:
        rates.enter(limited, NOON + 1)
    assert (refused.value.status, refused.value.code) == (429, "KV-GATE-030")
    assert 8 <= refused.value.retry_after <= 10
    rates.enter(limited, NOON + 10.1)
    with pytest.raises(Refused):
        rates.enter(limited, NOON + 10.2)
    for _ in range(6):
        rates.enter(limited, NOON + 1000)
    with pytest.raises(Refused):
        rates.enter(limited, NOON + 1000)


def test_a_days_tokens_end_at_midnight_utc():
    rates, limited = Rates(), change(ACME, tokens_per_day=100)
    rates.enter(limited, NOON)
    rates.spent("acme", 99, NOON)
    rates.enter(limited, NOON)
    rates.spent("acme", 1, NOON)
    with pytest.raises(Refused) as refused:
        rates.enter(limited, NOON)
    assert (refused.value.code, refused.value.retry_after) == ("KV-GATE-031", DAY // 2 + 1)
    rates.enter(change(limited, name="other"), NOON)
    rates.enter(limited, NOON + DAY / 2)
    rates.spent("acme", 100, NOON)
    rates.enter(limited, NOON + DAY / 2)  # tokens of yesterday do not count


def test_a_clock_that_steps_back_gives_nothing_away():
    rates, limited = Rates(), change(ACME, requests_per_minute=1, tokens_per_day=10)
    rates.enter(limited, NOON)
    rates.spent("acme", 10, NOON)
    for now in (NOON - 3600, NOON - DAY):
        with pytest.raises(Refused):
            rates.enter(limited, now)


@pytest.mark.parametrize("days", [1, 30])
def test_a_clock_that_was_ahead_for_a_moment_gives_nothing_away(days: int):
    rates, limited = Rates(), change(ACME, tokens_per_day=100)
    rates.spent("acme", 60, NOON)
    rates.enter(limited, NOON + days * DAY)
    rates.spent("acme", 1, NOON + days * DAY)
    rates.enter(limited, NOON + 1)
    rates.spent("acme", 39, NOON + 1)
    with pytest.raises(Refused):
        rates.enter(limited, NOON + 2)
    rates.enter(limited, NOON + DAY)
