"""The simulator against plain caches on slices of real traces, and against published figures on the whole ones."""

import functools
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.sizing.admission import SecondTouch
from kvctl.sizing.policies import LRU, POLICIES
from kvctl.sizing.simulate import belady, ideal, simulate
from kvctl.sizing.trace import BLOCK_TOKENS, Request, Trace, read_trace
from tests.sizing.plain_caches import PLAIN, Lru, furthest_next_use, replay

ROOT = Path(__file__).resolve().parents[2]
SLICES = sorted((ROOT / "tests/data/traces").glob("*.jsonl"))
WHOLE = Path(os.environ.get("KVCTL_TRACES") or ROOT.parent / "shared/traces")
CHECKS = json.loads(Path(__file__).with_name("mooncake_figures.json").read_text())


def plain(trace):
    return [request.blocks for request in trace.requests]


def made(prompts):
    """A trace of prompts given as lists of different blocks."""
    requests = tuple(Request(i, len(p) * BLOCK_TOKENS, 1, tuple(p)) for i, p in enumerate(prompts))
    return Trace(requests, len({b for p in prompts for b in p}))


prompts = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True), min_size=1, max_size=60)


@pytest.mark.parametrize("path", SLICES, ids=lambda p: p.stem)
@pytest.mark.parametrize("capacity", [64, 512, 2048])
@pytest.mark.parametrize("name", sorted(PLAIN))
def test_a_slice_gives_what_a_plain_cache_gives(path, name, capacity):
    trace = read_trace(path)
    outcome = simulate(trace, POLICIES[name](), capacity)
    assert (outcome.hits, outcome.writes) == replay(plain(trace), PLAIN[name](capacity))


@pytest.mark.parametrize("path", SLICES, ids=lambda p: p.stem)
def test_second_touch_and_the_bound_on_a_slice(path):
    trace = read_trace(path)
    outcome = simulate(trace, LRU(), 512, SecondTouch(None))
    assert (outcome.hits, outcome.writes) == replay(plain(trace), Lru(512), second_touch=True)
    assert belady(trace, 512).hits == furthest_next_use(plain(trace), 512)


@given(prompts, st.integers(1, 45))
def test_any_trace_gives_what_plain_caches_give(lists, capacity):
    trace = made(lists)
    for name, cache in PLAIN.items():
        outcome = simulate(trace, POLICIES[name](), capacity)
        assert (outcome.hits, outcome.writes) == replay(lists, cache(capacity)), name
    assert belady(trace, capacity).hits == furthest_next_use(lists, capacity)


@given(prompts)
def test_with_room_for_everything_every_policy_reaches_the_ideal(lists):
    trace = made(lists)
    best = ideal(trace)
    assert best.writes == trace.unique
    for name, policy in POLICIES.items():
        assert simulate(trace, policy(), trace.unique) == best, name
    assert belady(trace, trace.unique).hits == best.hits


@given(prompts, st.integers(1, 20))
def test_nothing_hits_more_than_a_cache_without_limits(lists, capacity):
    trace = made(lists)
    best = ideal(trace)
    for name, policy in POLICIES.items():
        outcome = simulate(trace, policy(), capacity)
        assert outcome.hits <= best.hits, name
        assert outcome.writes >= best.writes, name
        assert sum(n * count for n, count in outcome.prefixes.items()) == outcome.hit_tokens, name


def test_the_last_block_counts_the_tokens_it_has():
    requests = tuple(Request(at, BLOCK_TOKENS + 10, 1, (1, 2)) for at in range(2))
    outcome = ideal(Trace(requests, 2))
    assert (outcome.hits, outcome.hit_tokens) == (2, BLOCK_TOKENS + 10)
    assert outcome.token_hit_rate == 0.5


def test_a_cache_without_room_is_refused():
    with pytest.raises(ValueError, match="at least one block"):
        simulate(made([[1]]), LRU(), 0)


@functools.cache
def whole(name):
    path = WHOLE / f"mooncake_{name}_trace.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not there; put Mooncake's traces into a directory and name it in KVCTL_TRACES")
    return read_trace(path)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_whole_trace_has_the_published_shape(name):
    trace = whole(name)
    best = ideal(trace)
    assert {
        "requests": len(trace.requests),
        "blocks": trace.blocks,
        "unique": trace.unique,
        "ideal_block_hit": round(best.hit_rate, 4),
        "ideal_token_hit": round(best.token_hit_rate, 4),
        "avg_in": round(trace.input_tokens / len(trace.requests)),
        "avg_out": round(trace.output_tokens / len(trace.requests)),
    } == {key: value for key, value in CHECKS[name].items() if key != "policies"}


@pytest.mark.parametrize("tokens", ["1000000", "3000000", "10000000", "30000000", "50000000"])
@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_whole_trace_gives_the_published_figures(name, tokens):
    assert figures(whole(name), int(tokens) // BLOCK_TOKENS) == CHECKS[name]["policies"][tokens]


def figures(trace, capacity):
    runs = {name: simulate(trace, POLICIES[name](), capacity) for name in ("lru", "fifo", "lfu", "sieve", "s3fifo")}
    runs["lru_2nd_touch"] = simulate(trace, LRU(), capacity, SecondTouch(None))
    found = {name: {"hit": round(run.hit_rate, 4), "writes": run.writes} for name, run in runs.items()}
    return {**found, "belady_block": {"hit": round(belady(trace, capacity).hit_rate, 4)}}
