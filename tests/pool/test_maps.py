"""Nodes come and go while prompts are read and written: what any owner has is found."""

import math
import threading
from collections import Counter
from random import Random

import pytest

from kvctl.connector.keys import Identity
from kvctl.connector.placement import sign_map, verified_map
from kvctl.connector.receipt import Got
from kvctl.types.errors import RefusedError
from tests.pool.site import NAMES, PATIENT, Load, Site, owned, owners, prompt

FOUR = NAMES[:4]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("added", FOUR, NAMES), ("removed", NAMES, FOUR), ("replaced", NAMES[1:], FOUR)],
)
def test_nothing_is_lost_while_nodes_change_under_load(
    site: Site, name: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    chains = [prompt(f"{name} {number}", 24) for number in range(8)]
    old, new = site.map(before), site.map(after, version=2)
    fresh: list[list[bytes]] = []
    with site.pool(old, policy=PATIENT) as pool:
        for chain in chains:
            site.put(pool, chain)

        def read(chance: Random) -> None:
            assert all(result.hit for result in site.get(pool, chance.choice(chains)))

        def look(chance: Random) -> None:
            assert all(site.has(pool, chance.choice(chains)))

        def write(chance: Random) -> None:
            chain = prompt(f"{name} fresh {len(fresh)}", 12)
            assert [result.there for result in site.put(pool, chain)] == [1] * 12
            assert all(site.has(pool, chain))
            fresh.append(chain)

        with Load(read, look, write) as load:
            load.further()
            pool.reload(new)
            load.further(10)
            moved = [[at for at in range(24) if owners(old, chain, at) != owners(new, chain, at)] for chain in chains]
            for chain, positions in zip(chains, moved, strict=True):
                assert [result.there for result in site.put(pool, chain, positions)] == [1] * len(positions)
            # What was written by the old map before the new one was there has to move as well.
            written = len(fresh)
            for chain in fresh[:written]:
                site.put(pool, chain)
            load.further()
            pool.settle()
            load.further(10)
        assert any(moved)
        for chain in [*chains, *fresh]:
            assert [result.status for result in site.get(pool, chain)] == [Got.HIT] * len(chain)
        assert set(pool.stat()) == set(after)


def test_after_settling_what_was_not_stored_again_is_a_miss(site: Site) -> None:
    chain = prompt("left behind", 64)
    old, new = site.map(FOUR), site.map(NAMES, version=2)
    with site.pool(old) as pool:
        site.put(pool, chain)
        pool.reload(new)
        pool.settle()
        gone = set(owned(new, chain, NAMES[4]))
        assert gone
        assert {at for at, there in enumerate(site.has(pool, chain)) if not there} == gone
        assert all(result.there for result in site.put(pool, chain, sorted(gone)))
        assert all(site.has(pool, chain))


def test_both_owners_are_asked_with_two_copies_and_two_maps(site: Site) -> None:
    """A chunk that only the old second owner has is found, too."""
    chain = prompt("old second owner", 40)
    old, new = site.map(FOUR, copies=2), site.map(NAMES, version=2, copies=2)
    with site.pool(old) as pool:
        for position in range(len(chain)):
            second = owners(old, chain, position, 2)[1]
            with site.pool(site.map([second])) as alone:
                site.put(alone, chain, [position])
        pool.reload(new)
        assert all(result.hit for result in site.get(pool, chain))


def stored(site: Site) -> dict[str, float]:
    site.flush()
    return {name: daemon.metric('kvstored_tier_chunks{tier="flash"}') for name, daemon in site.daemons.items()}


def test_nodes_get_chunks_by_their_weights(site: Site) -> None:
    weights = dict(zip(NAMES, (1, 2, 3, 4, 0), strict=True))
    pool_map = site.map(weights=weights, stripe=1)
    before = stored(site)
    chains = [prompt(f"weights {number}", 50) for number in range(20)]
    with site.pool(pool_map) as pool:
        for chain in chains:
            assert all(result.there == 1 for result in site.put(pool, chain))
    after = stored(site)
    by_map = Counter(owners(pool_map, chain, at)[0] for chain in chains for at in range(50))
    for name, weight in weights.items():
        got = after[name] - before[name]
        share = weight / sum(weights.values())
        assert got == by_map[name]
        assert abs(got - 1000 * share) <= 4 * math.sqrt(1000 * share * (1 - share))


def test_reloads_while_many_requests_are_under_way(site: Site) -> None:
    chains = [prompt(f"reloads {number}", 24) for number in range(4)]
    versions = [site.map(NAMES if number % 2 else FOUR, version=number, copies=2) for number in range(2, 40)]
    with site.pool(site.map(FOUR, copies=2), policy=PATIENT) as pool:
        for chain in chains:  # where either map looks for it
            site.put(pool, chain)
            with site.pool(site.map(NAMES, copies=2)) as other:
                site.put(other, chain)

        def read(chance: Random) -> None:
            assert all(result.hit for result in site.get(pool, chance.choice(chains)))

        def write(chance: Random) -> None:
            assert all(result.there for result in site.put(pool, prompt(f"reloads {chance.random()}", 8)))

        with Load(read, read, write) as load:
            for number, pool_map in enumerate(versions):
                pool.reload(pool_map)
                load.further(1)
                if number % 3 == 0:
                    pool.settle()
        assert pool.map.version == 39


def test_two_reloads_at_once_leave_the_newer_map(site: Site) -> None:
    with site.pool(site.map(FOUR)) as pool:
        gate = threading.Barrier(8)
        refused = []

        def reload(version: int) -> None:
            gate.wait()
            try:
                pool.reload(site.map(NAMES, version=version))
            except ValueError:
                refused.append(version)

        threads = [threading.Thread(target=reload, args=(version,)) for version in range(2, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pool.map.version == 9
        assert 9 not in refused


class TestRefused:
    def test_a_stale_map(self, site: Site) -> None:
        with site.pool(site.map(version=5)) as pool:
            for version in (4, 5):
                with pytest.raises(ValueError, match="not newer than 5"):
                    pool.reload(site.map(FOUR, version=version))
            assert pool.settled
            assert set(pool.stat()) == set(NAMES)

    def test_a_map_that_nobody_trusted_signed(self, site: Site) -> None:
        controller, stranger = Identity.generate(), Identity.generate()
        signed = sign_map(site.map(version=2), controller)
        assert verified_map(signed, {controller.public}) == site.map(version=2)
        for data, trusted in (
            (signed, {stranger.public}),
            (signed.replace(b'"version": 2', b'"version": 3'), {controller.public}),
            (signed.replace(NAMES[0].encode(), b"storage9"), {controller.public}),
            (signed.replace(controller.public.hex().encode(), stranger.public.hex().encode()), {stranger.public}),
        ):
            with pytest.raises(RefusedError, match="KV-CONN-031"):
                verified_map(data, trusted)
