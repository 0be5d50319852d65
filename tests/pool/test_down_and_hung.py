"""A node that is down or hung costs its own chunks, and calls no more than their deadlines."""

import threading
import time
from random import Random

import pytest

from kvctl.connector.breaker import Policy
from kvctl.connector.pool import Pool
from kvctl.connector.receipt import GetResult
from kvctl.types.chunks import Meta
from tests.pool.site import PATIENT, SIZE, STRICT, Load, Site, owned, owners, plain, prompt, until_true

LOST = "storage2"
LIMIT = 0.6  # seconds: a deadline
LATE = 1.0  # and how much later a call may end on a machine that does other things, too


def within(begun: float, limit: float = LIMIT) -> bool:
    return time.monotonic() - begun < limit + LATE


def stored(site: Site, pool: Pool, name: str, length: int) -> list[bytes]:
    chain = prompt(name, length)
    assert all(result.there == pool.map.copies.private for result in site.put(pool, chain))
    assert owned(pool.map, chain, LOST)
    return chain


def test_a_get_of_200_chunks_ends_at_its_deadline_when_a_node_hangs(site: Site) -> None:
    with site.pool(site.map(), policy=PATIENT) as pool:
        chain = stored(site, pool, "hung", 200)
        with site.hung(LOST):
            for _ in range(3):
                begun = time.monotonic()
                there = [result.hit for result in site.get(pool, chain, LIMIT)]
                assert within(begun)
                assert there == [owners(pool.map, chain, at) != [LOST] for at in range(200)]
                begun = time.monotonic()
                assert site.has(pool, chain, LIMIT) == there
                assert within(begun)
        assert all(result.hit for result in site.get(pool, chain))


def test_two_copies_give_all_200_chunks_within_the_deadline(site: Site) -> None:
    with site.pool(site.map(copies=2), policy=PATIENT) as pool:
        chain = stored(site, pool, "hung, two copies", 200)
        with site.hung(LOST):
            begun = time.monotonic()
            assert all(result.hit for result in site.get(pool, chain, 2 * LIMIT))
            assert within(begun, 2 * LIMIT)


def test_new_connections_to_a_hung_node_are_bounded_too(site: Site) -> None:
    with site.pool(site.map()) as first:
        chain = stored(site, first, "hung, no connection yet", 40)
    with site.hung(LOST), site.pool(site.map(), policy=PATIENT, connect_timeout=0.2) as pool:
        begun = time.monotonic()
        there = [result.hit for result in site.get(pool, chain)]
        assert within(begun, 0.2)
        assert there == [owners(pool.map, chain, at) != [LOST] for at in range(40)]


def test_a_put_to_a_hung_node_ends_at_its_deadline_and_the_others_store(site: Site) -> None:
    chain = prompt("hung put", 40)
    with site.pool(site.map(), policy=PATIENT) as pool, site.hung(LOST):
        begun = time.monotonic()
        items = [(at, plain(key), Meta()) for at, key in enumerate(chain)]
        results = pool.put(site.lease, chain, items, deadline=begun + LIMIT)
        assert within(begun)
        assert [bool(result.there) for result in results] == [owners(pool.map, chain, at) != [LOST] for at in range(40)]


def test_large_chunks_to_a_hung_node_end_at_the_deadline(site: Site) -> None:
    """Sent until its socket takes no more."""
    size, chain = 4 << 20, prompt("large", 8)
    with site.pool(site.map([LOST]), policy=PATIENT) as pool, site.hung(LOST):
        begun = time.monotonic()
        items = [(at, plain(key, size), Meta()) for at, key in enumerate(chain)]
        assert not any(result.there for result in pool.put(site.lease, chain, items, deadline=begun + LIMIT))
        assert within(begun)


def test_a_breaker_keeps_calls_from_waiting_and_closes_again(site: Site) -> None:
    with site.pool(site.map(), policy=Policy(failures=2, first=0.05, longest=0.2)) as pool:
        chain = stored(site, pool, "a breaker", 60)
        with site.hung(LOST):
            until_true(lambda: bool(site.has(pool, chain, 0.1)) and pool.stat()[LOST]["breaker"] == "open")
        until_true(lambda: all(site.has(pool, chain, 2.0)))
        assert pool.stat()[LOST]["breaker"] == "closed"


def test_while_the_breaker_is_open_nobody_waits_for_the_hung_node(site: Site) -> None:
    with site.pool(site.map(), policy=STRICT) as pool:
        chain = stored(site, pool, "open", 60)
        with site.hung(LOST):
            site.has(pool, chain, LIMIT)
            assert pool.stat()[LOST]["breaker"] == "open"
            begun = time.monotonic()
            for _ in range(5):
                assert site.has(pool, chain, 20.0) == [owners(pool.map, chain, at) != [LOST] for at in range(60)]
            assert within(begun)


def test_many_callers_and_a_hung_node(site: Site) -> None:
    """More callers than a node has connections and threads: each ends at its own deadline."""
    with site.pool(site.map(), policy=PATIENT) as pool:
        chain = stored(site, pool, "many callers", 60)
        expected = [owners(pool.map, chain, at) != [LOST] for at in range(60)]
        wrong: list[str] = []

        def call() -> None:
            begun = time.monotonic()
            there = [result.hit for result in site.get(pool, chain, LIMIT)]
            if not within(begun):
                wrong.append(f"{time.monotonic() - begun} s")
            if there != expected:
                wrong.append(f"{there.count(True)} of {expected.count(True)} chunks")

        with site.hung(LOST):
            threads = [threading.Thread(target=call) for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert wrong == []


@pytest.mark.parametrize("copies", [1, 2])
def test_a_node_that_is_down_and_comes_back(site: Site, copies: int) -> None:
    with site.pool(site.map(copies=copies), policy=Policy(first=0.05, longest=0.2)) as pool:
        chain = stored(site, pool, f"down, {copies}", 60)
        site.flush()
        remains = [copies == 2 or owners(pool.map, chain, at) != [LOST] for at in range(60)]

        def read(_: Random) -> None:
            site.get(pool, chain)

        with Load(read) as load:
            load.further(2)
            site.kill(LOST)
            try:
                until_true(lambda: pool.stat()[LOST]["breaker"] == "open")
                begun = time.monotonic()
                assert site.has(pool, chain) == remains
                assert [result.hit for result in site.get(pool, chain)] == remains
                assert within(begun)
            finally:
                site.again(LOST)
            until_true(lambda: all(site.has(pool, chain)) and pool.stat()[LOST]["breaker"] == "closed")
        assert all(result.hit and result.length == SIZE for result in site.get(pool, chain))


def test_a_node_killed_in_the_middle_of_large_chunks_gives_no_wrong_byte(site: Site) -> None:
    size, chain = 2 << 20, prompt("killed in the middle", 16)
    with site.pool(site.map([LOST]), policy=Policy(first=0.01, longest=0.05)) as pool:
        items = [(at, plain(key, size), Meta()) for at, key in enumerate(chain)]
        assert all(result.there for result in pool.put(site.lease, chain, items))
        site.flush()
        until_true(lambda: cut(site, pool, chain, size))


def cut(site: Site, pool: Pool, chain: list[bytes], size: int) -> bool:
    """Kill the node once the first chunk is there; whether some chunks came and some did not. No hit may be wrong."""
    targets = [memoryview(bytearray(size)) for _ in chain]
    results: list[GetResult] = []
    fetching = threading.Thread(
        target=lambda: results.extend(pool.get_into(site.lease, chain, list(enumerate(targets))))
    )
    fetching.start()
    try:
        until_true(lambda: targets[0][-32:] == chain[0] or not fetching.is_alive())
        site.kill(LOST)
        fetching.join()
    finally:
        site.again(LOST)
    hits = [result.hit for result in results]
    assert len(hits) == len(chain)
    for key, target, hit in zip(chain, targets, hits, strict=True):
        assert target == (plain(key, size) if hit else bytes(size))
    return True in hits and False in hits
