"""What an operator reads: figures add up, and what was not given is named instead of computed."""

from dataclasses import replace

import pytest

from kvctl.sizing.break_even import Prefill
from kvctl.sizing.plan import cases, run
from kvctl.sizing.simulate import ideal
from kvctl.sizing.size import Question, agentic, answer
from kvctl.sizing.tiers import parse_tier
from kvctl.sizing.trace import BLOCK_TOKENS, DAY_MS, Request, Trace

# Half a day: one prompt of two blocks is asked for four times, and two others once.
PROMPTS = [(1, 2), (3, 4), (1, 2), (1, 2), (5, 6), (1, 2)]
TRACE = Trace(
    tuple(Request(at * DAY_MS // 10, 2 * BLOCK_TOKENS, 7, blocks) for at, blocks in enumerate(PROMPTS)), unique=6
)
FLASH = parse_tier("flash:bandwidth=1GB/s,latency=1ms,drives=1,drive=1GB,dwpd=1,warranty=5,rewrite=1,model=X")
FULL = Question(TRACE, bytes_per_token=1000, prefill=Prefill.rate(0.001), gpus=2, tiers=(FLASH,))


def ask(question, policies=("lru", "belady"), capacities=(10_000,)):
    chosen = cases(policies, capacities)
    return answer(question, ideal(question.trace), {case: run(question.trace, case) for case in chosen})


def test_everything_is_computed_from_a_full_question():
    found = ask(FULL)
    lru, bound = found.hits
    assert (lru.hit_rate, lru.of_ideal, lru.written_blocks, lru.capacity_bytes) == (0.5, 1.0, 6, 10_000_000)
    assert lru.written_bytes_a_day == 2 * 6 * BLOCK_TOKENS * 1000
    assert (bound.hit_rate, bound.written_blocks, bound.written_bytes_a_day) == (0.5, None, None)
    (life,) = found.endurance  # a bound writes nothing that could wear a drive
    assert (life.tier, life.drive) == ("flash", "X")
    assert life.drive_writes_a_day == pytest.approx(2 * 6 * BLOCK_TOKENS * 1000 / 1e9)
    assert life.years == pytest.approx(5 / life.drive_writes_a_day)
    saving = found.savings[0]
    assert saving.loads_a_day == 6
    assert saving.gpu_hours_a_day == pytest.approx(6 * 1.024 * 2 / 3600)
    assert saving.waiting_seconds_a_day == pytest.approx(6 * (1.024 - 0.001 - 1024 * 1000 / 1e9))
    (even,) = found.break_even
    assert (even.tokens, even.extrapolated) == (2, False)
    assert (even.recompute_seconds, even.read_seconds) == pytest.approx((1.024, 0.002024))
    assert found.missing == ()


@pytest.mark.parametrize(
    ("change", "absent", "says"),
    [
        ({"bytes_per_token": None}, ("endurance", "break_even", "savings"), "--bytes-per-token or --model"),
        ({"prefill": None}, ("break_even", "savings"), "--prefill"),
        ({"tiers": ()}, ("endurance", "break_even", "savings"), "--tier"),
        ({"tiers": (replace(FLASH, warranty=None),)}, ("endurance",), "dwpd and warranty"),
        ({"tiers": (replace(FLASH, latency=None),)}, ("break_even", "savings"), "bandwidth and latency"),
        ({"trace": Trace((TRACE.requests[0],), 2)}, ("endurance", "savings"), "one timestamp"),
    ],
)
def test_what_was_not_given_is_named_and_not_computed(change, absent, says):
    found = ask(replace(FULL, **change))
    for name in ("hits", "endurance", "break_even", "savings"):
        assert (getattr(found, name) == ()) == (name in absent), name
    assert any(says in text for text in found.missing)


def test_gpu_hours_need_gpus_and_lives_say_what_they_leave_out():
    found = ask(replace(FULL, gpus=None, tiers=(replace(FLASH, rewrite=None),)))
    assert {row.gpu_hours_a_day for row in found.savings} == {None}
    assert len(found.missing) == 2
    assert any("--gpus" in text for text in found.missing)
    assert any("give rewrite" in text for text in found.missing)


def test_a_trace_without_any_reuse_has_no_share_of_the_ideal():
    trace = Trace(tuple(Request(at, BLOCK_TOKENS, 1, (at,)) for at in range(3)), 3)
    assert {row.of_ideal for row in ask(replace(FULL, trace=trace)).hits} == {None}


def test_reading_that_never_wins_is_said_and_saves_nothing():
    found = ask(replace(FULL, tiers=(replace(FLASH, bandwidth=1e5),)))
    assert found.break_even[0].tokens is None
    assert {row.loads_a_day for row in found.savings} == {0}


def test_a_break_even_beyond_the_measured_lengths_is_marked():
    slow = replace(FLASH, bandwidth=1.1e6, latency=5.0)
    found = ask(replace(FULL, tiers=(slow,), prefill=Prefill.measured([(1000, 1.0), (2000, 2.0)])))
    assert found.break_even[0].tokens == pytest.approx(5 / (0.001 - 1 / 1100), abs=1)
    assert found.break_even[0].extrapolated


def test_agents_on_one_capacity():
    three, ten = agentic([3_000_000, 10_000_000])
    assert (three.sessions_kept, ten.sessions_kept) == (40, 133)
    assert three.sessions_collapse == 151
