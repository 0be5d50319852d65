"""The tier's parts that need no store: what it learns, which leases it finds, how its jobs end."""

import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvctl.connector.keys import KeyLease, RootKey, write_lease
from kvctl.connector.tier_counts import METRICS, Counts
from kvctl.connector.tier_jobs import Done, Jobs
from kvctl.connector.tier_learning import PROBE, Learning
from kvctl.connector.tier_leases import Leases
from kvctl.connector.tier_options import Options
from kvctl.types.chunks import Scope

SCOPE = Scope("acme", "users", bytes(16))
PAGE = (Path(__file__).parents[2] / "docs" / "vllm.md").read_text()


def lease(scope: Scope = SCOPE, capability: bytes = b"one") -> KeyLease:
    return KeyLease(RootKey(scope, bytes(32)), capability, int(time.time()) + 60)


def test_until_a_prefill_was_measured_its_speed_is_assumed():
    learning = Learning(1.0, 0.25, 1000)
    assert learning.patience(4000) == pytest.approx(1.0)
    assert learning.decide(1 << 30, 0, 4000).load  # to be measured
    learning.prefilled(4000, 2.0)
    assert learning.patience(4000) == pytest.approx(0.5)
    assert learning.rate == 2000


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def slow_store(clock: Clock) -> Learning:
    """One whose loads take ten times as long as computing."""
    learning = Learning(1.0, 0.25, 1000, clock)
    learning.prefilled(4000, 1.0)
    for _ in range(5):
        learning.loaded(1 << 20, 10.0)
    assert not learning.decide(1 << 20, 0, 4000).load
    return learning


def test_a_store_that_looks_too_slow_is_tried_again_after_a_while():
    clock = Clock()
    learning = slow_store(clock)
    clock.now += PROBE
    assert learning.decide(1 << 20, 0, 4000).load
    assert not learning.decide(1 << 20, 0, 4000).load  # one request in that time
    clock.now += PROBE
    assert learning.decide(1 << 20, 0, 4000).load


def test_a_store_that_was_slow_and_is_fast_again_is_used_at_once():
    learning = slow_store(Clock())
    learning.loaded(1 << 20, 0.1)
    for _ in range(4):
        assert learning.decide(1 << 20, 0, 4000).load
        learning.loaded(1 << 20, 0.1)


@given(st.floats(1e-4, 1e3), st.floats(1e-4, 1e3))
def test_a_load_is_begun_when_it_takes_less_than_the_recompute(recompute: float, load: float):
    assume(abs(load - recompute) > 1e-6 * recompute)  # the estimators compute in floating point
    learning = Learning(1.0, 0.25, 1000)
    learning.prefilled(4000, recompute)
    for _ in range(3):
        learning.loaded(1 << 20, load)
    assert learning.decide(1 << 20, 0, 4000).load is (load < recompute)


@given(st.lists(st.tuples(st.integers(1, 100_000), st.floats(1e-3, 100)), max_size=20), st.integers(0, 100_000))
def test_what_may_be_lost_is_never_more_than_the_share(seen: list[tuple[int, float]], tokens: int):
    learning = Learning(1.0, 0.25, 1000)
    for length, seconds in seen:
        learning.prefilled(length, seconds)
    assert learning.patience(tokens) <= 0.25 * learning.recompute(tokens)
    assert learning.between(tokens, tokens // 2) >= 0


def test_leases_come_change_and_go_with_their_files(tmp_path: Path):
    leases = Leases(tmp_path)
    assert leases.find(SCOPE) is None
    write_lease(tmp_path / "acme.json", lease())
    leases.refresh()
    found = leases.find(SCOPE)
    assert found is not None
    assert found.capability == b"one"
    write_lease(tmp_path / "acme.json", lease(capability=b"renewed"))
    leases.refresh()
    renewed = leases.find(SCOPE)
    assert renewed is not None
    assert renewed.capability == b"renewed"
    (tmp_path / "acme.json").unlink()
    leases.refresh()
    assert leases.find(SCOPE) is None


def test_a_file_that_holds_no_lease_is_named_and_the_others_count(tmp_path: Path):
    write_lease(tmp_path / "acme.json", lease())
    (tmp_path / "open.json").write_text("{}")
    (tmp_path / "open.json").chmod(0o644)
    leases = Leases(tmp_path)
    assert leases.find(SCOPE) is not None
    ((path, why),) = leases.problems.items()
    assert path.endswith("open.json")
    assert "KV-CONN-011" in why


def test_no_directory_is_no_lease(tmp_path: Path):
    assert Leases(tmp_path / "none").find(SCOPE) is None


def test_a_job_ends_even_when_its_threads_are_gone():
    jobs = Jobs(1, "test", lambda: None)
    jobs.start(1, lambda: Done(1, True))
    jobs.drain()
    jobs.close()
    jobs.start(2, lambda: Done(2, True))
    assert [(done.number, done.success) for done in jobs.finished()] == [(1, True), (2, False)]


def test_counters_are_taken_once_and_unknown_names_are_defects():
    counts = Counts()
    counts.add("kvctl_tier_misses", 2, "late")
    assert dict(counts.take()) == {("kvctl_tier_misses", ("late",)): 2}
    assert not counts.take()
    with pytest.raises(KeyError):
        counts.add("kvctl_tier_other")


def test_a_counter_never_goes_down():
    counts = Counts()
    with pytest.raises(ValueError, match="goes down"):
        counts.add("kvctl_tier_wait_seconds", -1e-7)
    assert not counts.take()


@pytest.mark.parametrize("name", Options.__struct_fields__)
def test_the_page_tells_every_option(name: str):
    assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("name", METRICS)
def test_the_page_tells_every_metric(name: str):
    assert f"| `{name}{'' if METRICS[name].gauge else '_total'}` |" in PAGE
