import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvctl.bench.store.cells import MIB, Cell, Op
from kvctl.bench.store.figures import Sample, figures, percentile
from kvctl.bench.store.jobs import Taken

CELL = Cell(Op.GET, 2 * MIB, 4)


def taken(wall: float, *, server: float | None = 0.2, p99: float | None = 0.002) -> Taken:
    return Taken(500, 1_000_000_000, wall, 0.3, server, 0.1, 0.001, p99)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6


def test_percentiles_of_known_lists() -> None:
    hundred = [float(at) for at in range(1, 101)]
    assert (percentile(hundred, 0.5), percentile(hundred, 0.99)) == (50.0, 99.0)
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) is None


def test_figures_are_medians_of_rounds() -> None:
    samples = [Sample("redis", CELL, at, taken(wall)) for at, wall in enumerate((1.0, 4.0, 2.0), 1)]
    (found,) = figures(samples)[CELL].values()
    assert found.samples == 3
    assert found.gbps == pytest.approx(0.5)
    assert (found.client_cpu, found.server_cpu, found.seal_cpu) == pytest.approx((0.3, 0.2, 0.1))
    assert found.total_cpu == pytest.approx(0.5)


def test_what_is_not_known_in_one_round_is_not_known() -> None:
    samples = [Sample("fio", CELL, at, taken(1.0, server=None, p99=p99)) for at, p99 in enumerate((0.002, None))]
    found = figures(samples)[CELL]["fio"]
    assert found.p99 is None
    assert found.server_cpu is None
    assert found.total_cpu == pytest.approx(0.3)
