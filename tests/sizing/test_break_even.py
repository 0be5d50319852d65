"""When reading beats computing, and what estimators make of what was seen."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvctl.sizing.break_even import (
    Gate,
    LoadEstimator,
    Prefill,
    Reader,
    RecomputeEstimator,
    break_even,
    total_saved,
    worth_storing,
)

MEASURED = Prefill.measured([(1000, 0.1), (10_000, 2.0), (100_000, 60.0)])


def test_prefill_between_and_beyond_its_points():
    assert MEASURED.seconds(0) == 0
    assert MEASURED.seconds(500) == pytest.approx(0.05)
    assert MEASURED.seconds(10_000) == pytest.approx(2.0)
    assert MEASURED.seconds(55_000) == pytest.approx(31.0)
    assert MEASURED.seconds(200_000) == pytest.approx(60 + 58 / 90_000 * 100_000)
    assert Prefill.rate(189e-6).seconds(14_000) == pytest.approx(2.646)


@pytest.mark.parametrize("points", [[], [(0, 1.0)], [(10, 0.0)], [(10, 1.0), (10, 2.0)], [(10, 1.0), (20, 1.0)]])
def test_prefill_points_that_cannot_be(points):
    with pytest.raises(ValueError, match="prefill"):
        Prefill.measured(points)


def test_a_27b_model_over_a_network_and_a_spindle():
    """14,000 tokens are 1.7 GB and take 2.65 s: the tie is at 0.64 GB/s."""
    prefill, each = Prefill.rate(2.65 / 14_000), 1.7e9 / 14_000
    assert break_even(prefill, Reader(each, 0.65e9, 0.0)) == 0
    assert break_even(prefill, Reader(each, 0.63e9, 0.0)) is None
    assert break_even(prefill, Reader(each, 0.2e9, 0.0)) is None
    assert Reader(each, 10e9, 0.0).seconds(14_000) == pytest.approx(0.17)
    tokens = break_even(prefill, Reader(each, 10e9, 0.1))
    assert tokens == math.ceil(0.1 / (2.65 / 14_000 - each / 10e9))


def test_a_slow_tier_wins_once_attention_has_grown():
    reader = Reader(100e3, 0.3e9, 0.05)
    tokens = break_even(MEASURED, reader)
    assert 10_000 < tokens < 100_000
    assert reader.seconds(tokens) < MEASURED.seconds(tokens)
    assert reader.seconds(tokens - 2) > MEASURED.seconds(tokens - 2)


def test_a_smaller_alpha_asks_for_longer_prefixes():
    reader = Reader(100e3, 2e9, 0.05)
    assert break_even(MEASURED, reader, 0.5) > break_even(MEASURED, reader, 1.0)


@given(
    st.lists(st.tuples(st.integers(1, 10**5), st.floats(1e-4, 1e3)), min_size=1, max_size=5),
    st.floats(1, 1e6),
    st.floats(1e6, 1e11),
    st.floats(0, 10),
    st.floats(0.1, 2),
)
def test_from_the_break_even_on_reading_always_wins(points, each, bandwidth, latency, alpha):
    lengths = sorted({n for n, _ in points})
    times = sorted({s for _, s in points})
    assume(len(lengths) == len(times))
    prefill, reader = Prefill.measured(list(zip(lengths, times, strict=True))), Reader(each, bandwidth, latency)
    tokens = break_even(prefill, reader, alpha)
    if tokens is None:
        grows = prefill.seconds(2e9) - prefill.seconds(1e9), reader.seconds(2e9) - reader.seconds(1e9)
        assert alpha * grows[0] <= grows[1] * (1 + 1e-6)
        return
    for length in [tokens, tokens + 1, *(n for n in (*lengths, 10**7, 10**9) if n > tokens)]:
        assert alpha * prefill.seconds(length) >= reader.seconds(length) * (1 - 1e-9) - 1e-9
    if tokens > 1:
        assert alpha * prefill.seconds(tokens - 1) <= reader.seconds(tokens - 1) * (1 + 1e-9) + 1e-9


def test_savings_count_only_loads_that_pass_the_gate():
    prefill, reader = Prefill.rate(0.001), Reader(1000, 10e6, 0.5)
    saved = total_saved([(100, 7), (10_000, 2)], prefill, 1.0, reader)
    assert saved.loads == 2
    assert saved.computing == pytest.approx(20.0)
    assert saved.waiting == pytest.approx(2 * (10 - 1.5))


def test_a_chunk_earns_its_write_or_not():
    assert worth_storing(reuse=0.5, recompute=2.0, load=0.2, write=0.1)
    assert not worth_storing(reuse=0.01, recompute=2.0, load=0.2, write=0.1)


class TestRecompute:
    def test_nothing_seen_is_not_known(self):
        assert RecomputeEstimator().predict(1000) is None

    def test_each_length_has_its_own_speed(self):
        seen = RecomputeEstimator()
        seen.observe(1000, 0.1)
        seen.observe(100_000, 50.0)
        assert seen.predict(1000) == pytest.approx(0.1)
        assert seen.predict(100_000) == pytest.approx(50.0)
        assert 1e-4 < seen.predict(10_000) / 10_000 < 5e-4
        assert seen.predict(200_000) == pytest.approx(100.0, rel=0.1)

    def test_it_follows_a_change(self):
        seen = RecomputeEstimator()
        for _ in range(50):
            seen.observe(1000, 0.1)
        for _ in range(50):
            seen.observe(1000, 0.4)
        assert seen.predict(1000) == pytest.approx(0.4, rel=0.02)

    @pytest.mark.parametrize("wrong", [(0, 1.0), (10, 0.0), (10, -1.0), (10, math.nan), (10, math.inf)])
    def test_values_that_cannot_be_change_nothing(self, wrong):
        seen = RecomputeEstimator()
        seen.observe(*wrong)
        assert seen.predict(10) is None


class TestLoad:
    def test_a_few_loads_are_needed(self):
        seen = LoadEstimator()
        seen.observe(10**6, 0.1)
        assert seen.predict(10**6) is None

    def test_latency_and_bandwidth_are_told_apart(self):
        seen = LoadEstimator()
        for size in (10**6, 10**7, 10**8, 5 * 10**7):
            seen.observe(size, 0.02 + size / 1e9)
        assert seen.predict(2 * 10**8) == pytest.approx(0.22, rel=1e-6)
        assert seen.predict(1) == pytest.approx(0.02, rel=1e-3)

    def test_loads_of_one_size_follow_bytes(self):
        seen = LoadEstimator()
        for _ in range(5):
            seen.observe(10**7, 0.05)
        assert seen.predict(2 * 10**7) == pytest.approx(0.1)

    def test_it_follows_a_store_that_became_slow(self):
        seen = LoadEstimator()
        for _ in range(200):
            seen.observe(10**7, 0.01)
        for _ in range(100):
            seen.observe(10**7, 1.0)
        assert seen.predict(10**7) > 0.9

    @given(st.lists(st.tuples(st.integers(-5, 10**9), st.floats(allow_nan=True, allow_infinity=True)), max_size=50))
    def test_no_history_gives_a_negative_time(self, history):
        seen = LoadEstimator()
        for size, seconds in history:
            seen.observe(size, seconds)
        predicted = seen.predict(10**6)
        assert predicted is None or predicted >= 0


class TestGate:
    def test_it_loads_what_is_faster(self):
        gate = Gate(alpha=0.5)
        assert gate.decide(0.4, 1.0).load
        assert not gate.decide(0.6, 1.0).load

    def test_what_is_not_measured_is_loaded_to_measure_it(self):
        assert Gate().decide(None, 1.0).load
        assert Gate().decide(1.0, None).why == "not measured yet"

    def test_a_slow_store_is_tried_again_now_and_then(self):
        gate = Gate(probe=4)
        assert [gate.decide(2.0, 1.0).load for _ in range(8)] == [False, False, False, True] * 2
