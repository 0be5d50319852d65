"""One of five stores killed while prompts are read: what is lost is what placement says, and near what chance says."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from kvctl.bench.lost_node import Loss, by_map, expected, run_loss, seen, standard_errors
from kvctl.connector.placement import PoolMap
from tests.pool.site import NAMES, WHOLE, Load, Site, prompt

PROMPTS, LENGTH = 12, 32
LOST = "storage3"
SPREADS = [(copies, stripe) for copies in (1, 2) for stripe in (1, 4, 16, WHOLE)]


@dataclass
class Found:
    pool_map: PoolMap
    chains: list[list[bytes]]
    measured: Loss
    fetched: Loss


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[int, int], Found]]:
    """Prompts of every spread, a kill under load, and then a look for each of them."""
    site = Site(tmp_path_factory.mktemp("five"))
    try:
        yield lose(site)
    finally:
        site.close()


def lose(site: Site) -> dict[tuple[int, int], Found]:
    maps = {(copies, stripe): site.map(stripe=stripe, copies=copies) for copies, stripe in SPREADS}
    chains = {spread: [prompt(f"{spread} {number}", LENGTH) for number in range(PROMPTS)] for spread in SPREADS}
    for spread, pool_map in maps.items():
        with site.pool(pool_map) as pool:
            for chain in chains[spread]:
                assert {result.there for result in site.put(pool, chain)} == {spread[0]}
    with site.pool(maps[1, 4]) as single, site.pool(maps[2, 4]) as double:

        def one_copy(chance: Random) -> None:
            site.get(single, chance.choice(chains[1, 4]))

        def two_copies(chance: Random) -> None:
            assert all(result.hit for result in site.get(double, chance.choice(chains[2, 4])))

        with Load(one_copy, two_copies) as load:
            load.further()
            site.kill(LOST)
            load.further(PROMPTS)
    return {spread: look(site, maps[spread], chains[spread]) for spread in SPREADS}


def look(site: Site, pool_map: PoolMap, chains: list[list[bytes]]) -> Found:
    with site.pool(pool_map) as pool:
        there = seen([site.has(pool, chain) for chain in chains])
        fetched = seen([[result.hit for result in site.get(pool, chain)] for chain in chains])
    return Found(pool_map, chains, there, fetched)


@pytest.mark.parametrize(("copies", "stripe"), SPREADS)
class TestLoss:
    def test_the_very_chunks_that_the_map_names_are_lost(
        self, found: dict[tuple[int, int], Found], copies: int, stripe: int
    ) -> None:
        mine = found[copies, stripe]
        assert mine.measured == mine.fetched == by_map(mine.pool_map, mine.chains, {LOST}, copies)

    def test_about_as_much_as_the_model_says(
        self, found: dict[tuple[int, int], Found], copies: int, stripe: int
    ) -> None:
        share = run_loss(dict.fromkeys(NAMES, 1.0), {LOST}, copies)
        model, error = expected(LENGTH, stripe, share), standard_errors(LENGTH, stripe, share, PROMPTS)
        measured = found[copies, stripe].measured
        for name in ("chunks", "broken", "usable"):
            value, mean, sigma = getattr(measured, name), getattr(model, name), getattr(error, name)
            assert math.isclose(value, mean, abs_tol=4 * sigma + 1e-9), name


@pytest.mark.parametrize("stripe", [1, 4, 16, WHOLE])
def test_two_copies_lose_nothing(found: dict[tuple[int, int], Found], stripe: int) -> None:
    assert found[2, stripe].fetched == Loss(0, 0, LENGTH)
