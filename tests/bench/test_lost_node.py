import hashlib
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvctl.bench.lost_node import (
    Loss,
    by_map,
    expected,
    left_of,
    prefix,
    prefixes_of,
    run_loss,
    seen,
    standard_errors,
)
from kvctl.connector.placement import Node, PoolMap

EQUAL = dict.fromkeys("abcde", 1.0)


def chain(prompt: int, length: int) -> list[bytes]:
    return [hashlib.sha256(f"{prompt} {position}".encode()).digest() for position in range(length)]


def pool_map(stripe: int, weights: dict[str, float] = EQUAL) -> PoolMap:
    nodes = tuple(Node(name, (f"tcp:{name}:1",), "ab" * 32, int(weight)) for name, weight in weights.items())
    return PoolMap(1, nodes, stripe)


class TestRunLoss:
    def test_one_of_five_equal_nodes(self) -> None:
        assert run_loss(EQUAL, {"c"}, 1) == pytest.approx(0.2)
        assert run_loss(EQUAL, {"c"}, 2) == 0

    def test_two_of_five_equal_nodes_take_one_pair_of_ten(self) -> None:
        assert run_loss(EQUAL, {"a", "b"}, 2) == pytest.approx(0.1)

    def test_a_heavy_node_costs_its_share(self) -> None:
        assert run_loss({"a": 1, "b": 1, "c": 2}, {"c"}, 1) == pytest.approx(0.5)

    def test_unequal_pairs_by_hand(self) -> None:
        weights = {"a": 1.0, "b": 2.0, "c": 3.0}
        assert run_loss(weights, {"b", "c"}, 2) == pytest.approx(2 / 6 * 3 / 4 + 3 / 6 * 2 / 3)

    def test_a_node_without_weight_owns_nothing(self) -> None:
        assert run_loss({"a": 0.0, "b": 1.0}, {"a"}, 1) == 0

    def test_nothing_lost_and_everything_lost(self) -> None:
        assert run_loss(EQUAL, set(), 1) == 0
        assert run_loss(EQUAL, set(EQUAL), 2) == pytest.approx(1)

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(1, 7))
    def test_placement_agrees(self, given_weights: list[int], copies: int) -> None:
        weights = {f"n{at}": float(weight) for at, weight in enumerate(given_weights)}
        lost = set(list(weights)[: len(weights) // 2 + 1])
        some = pool_map(1, weights)
        runs = 1500
        gone = sum({node.name for node in some.owners(run, copies)} <= lost for run in chain(0, runs))
        share = run_loss(weights, lost, copies)
        assert abs(gone / runs - share) <= 5 * math.sqrt(share * (1 - share) / runs) + 1e-9


class TestExpected:
    def test_by_hand(self) -> None:
        found = expected(4, 2, 0.2)
        assert found.chunks == 0.2
        assert found.broken == pytest.approx(1 - 0.8**2)
        assert found.usable == pytest.approx(0 * 0.2 + 2 * 0.8 * 0.2 + 4 * 0.64)

    def test_a_whole_prompt_on_one_node_is_all_or_nothing(self) -> None:
        assert expected(32, 4096, 0.2) == Loss(0.2, pytest.approx(0.2), pytest.approx(32 * 0.8))

    @given(st.integers(1, 40), st.integers(1, 50), st.floats(0, 1))
    def test_chances_add_up_and_longer_runs_break_fewer_prompts(self, length: int, stripe: int, share: float) -> None:
        assert sum(chance for _, chance in prefixes_of(length, stripe, share)) == pytest.approx(1)
        one, longer = expected(length, stripe, share), expected(length, stripe * 2, share)
        assert longer.broken <= one.broken + 1e-9
        assert longer.usable >= one.usable - 1e-9

    @given(st.integers(1, 6), st.integers(1, 4), st.floats(0.05, 0.95))
    def test_every_outcome_counted(self, runs: int, stripe: int, share: float) -> None:
        """Mean and variance over all 2^runs outcomes."""
        length = max(runs * stripe - stripe // 2, 1)
        runs = -(-length // stripe)
        sums = [0.0] * 3
        squares = [0.0] * 3
        for outcome in itertools.product((True, False), repeat=runs):
            chance = math.prod(1 - share if there else share for there in outcome)
            found = seen([[outcome[at // stripe] for at in range(length)]])
            for at, value in enumerate((found.chunks, found.broken, found.usable)):
                sums[at] += chance * value
                squares[at] += chance * value**2
        mean, error = expected(length, stripe, share), standard_errors(length, stripe, share, 1)
        assert (mean.chunks, mean.broken, mean.usable) == pytest.approx(tuple(sums))
        spread = [math.sqrt(max(square - total**2, 0)) for total, square in zip(sums, squares, strict=True)]
        assert (error.chunks, error.broken, error.usable) == pytest.approx(tuple(spread), abs=1e-6)


class TestByMap:
    @pytest.mark.parametrize(("stripe", "copies"), [(1, 1), (4, 1), (16, 1), (4096, 1), (4, 2)])
    def test_near_the_model(self, stripe: int, copies: int) -> None:
        prompts, length = 400, 32
        found = by_map(pool_map(stripe), [chain(prompt, length) for prompt in range(prompts)], {"c"}, copies)
        share = run_loss(EQUAL, {"c"}, copies)
        mean, error = expected(length, stripe, share), standard_errors(length, stripe, share, prompts)
        assert abs(found.chunks - mean.chunks) <= 4 * error.chunks
        assert abs(found.broken - mean.broken) <= 4 * error.broken
        assert abs(found.usable - mean.usable) <= 4 * error.usable

    def test_two_lost_nodes_take_what_both_copies_were_on(self) -> None:
        some, prompt = pool_map(4), chain(7, 400)
        there = left_of(some, prompt, {"a", "b"}, 2)
        for position, found in enumerate(there):
            owners = {node.name for node in some.owners(some.run(prompt, position), 2)}
            assert found == (owners != {"a", "b"})
        assert not all(there)


class TestSeen:
    def test_by_hand(self) -> None:
        assert seen([[True, True], [True, False], [False, True]]) == Loss(2 / 6, 2 / 3, pytest.approx((2 + 1 + 0) / 3))

    def test_no_prompt_has_no_mean(self) -> None:
        with pytest.raises(ValueError, match="needs a prompt"):
            seen([])

    def test_prefix(self) -> None:
        assert [prefix(there) for there in ([], [True], [False, True], [True, True, False])] == [0, 1, 0, 2]
