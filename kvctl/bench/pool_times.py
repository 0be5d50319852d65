"""What a store that is down or hung costs the calls that it has a part in."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kvctl.bench.hosts import say
from kvctl.bench.pool_loss import PATIENCE, Prompts, fill, read
from kvctl.bench.pool_site import Site, Spread, prompt
from kvctl.connector.breaker import State
from kvctl.connector.pool import Pool
from kvctl.types.errors import KvctlError

STRIPE = 8
ORDER = ("all up", "killed", "back", "hung", "resumed")


class Timer:
    """Calls of one kind over prompts in turn, each with a deadline of `limit` seconds."""

    def __init__(self, site: Site, pool: Pool, chains: Sequence[Sequence[bytes]], size: int, limit: float) -> None:
        self._site = site
        self._pool = pool
        self._chains = chains
        self._size = size
        self._limit = limit

    def has(self, chain: Sequence[bytes]) -> list[bool]:
        return self._pool.has(self._site.lease, chain, deadline=time.monotonic() + self._limit)

    def get(self, chain: Sequence[bytes]) -> list[bool]:
        return read(self._pool, self._site.lease, chain, self._size, time.monotonic() + self._limit)

    def touch_all(self) -> None:
        """A call for every prompt, so that every store is asked."""
        for chain in self._chains:
            self.has(chain)

    def sample(self, calls: int) -> dict[str, dict[str, float]]:
        """HAS and GET of whole prompts alternate; times in seconds."""
        taken: dict[str, list[tuple[float, float]]] = {"has": [], "get": []}
        for at in range(calls):
            chain = self._chains[at % len(self._chains)]
            for name, call in (("has", self.has), ("get", self.get)):
                taken[name].append(timed(call, chain))
        return {name: figures(pairs, self._limit) for name, pairs in taken.items()}


def timed(call: Callable[[Sequence[bytes]], list[bool]], chain: Sequence[bytes]) -> tuple[float, float]:
    """(seconds, share of the chunks that were found)."""
    begun = time.monotonic()
    there = call(chain)
    return time.monotonic() - begun, there.count(True) / len(there)


def figures(pairs: Sequence[tuple[float, float]], limit: float) -> dict[str, float]:
    times = sorted(seconds for seconds, _ in pairs)
    return {
        "p50": times[len(times) // 2],
        "p99": times[min(int(len(times) * 0.99), len(times) - 1)],
        "longest": times[-1],
        "slow": sum(seconds > limit / 4 for seconds in times),  # calls that waited for the lost store
        "found": sum(found for _, found in pairs) / len(pairs),
    }


def measure_times(site: Site, prompts: Prompts, calls: int, limit: float) -> list[dict[str, Any]]:
    """A row for each number of copies, phase and kind of call. The first store is the one that is lost."""
    rows = []
    for copies in (1, 2):
        spread = Spread(copies, STRIPE)
        chains = [prompt(f"times {copies}", number, prompts.length) for number in range(prompts.count)]
        with site.pool(spread) as pool:
            fill(pool, site.lease, chains, prompts.size, copies)
            for store in site.stores.values():
                store.flush()
            timer = Timer(site, pool, chains, prompts.size, limit)
            for phase, _ in zip(ORDER, phases(site, pool, timer), strict=True):
                say(f"timing, {copies} copies: {phase}")
                rows += [
                    {"copies": copies, "phase": phase, "call": call, **found}
                    for call, found in timer.sample(calls).items()
                ]
    return rows


def phases(site: Site, pool: Pool, timer: Timer) -> Iterator[None]:
    """Bring the store from one phase of ORDER to the next; the caller measures in between."""
    name, store = next(iter(site.stores.items()))
    timer.touch_all()  # connections are there before anything is lost
    yield
    store.kill()
    yield
    store.begin()
    store.ready()
    await_closed(pool, timer, name)
    yield
    store.hang()
    yield
    store.resume()
    await_closed(pool, timer, name)
    yield


def await_closed(pool: Pool, timer: Timer, name: str) -> None:
    """Return when a probe found the store well. KV-BENCH-024 when that takes too long."""
    end, pause = time.monotonic() + PATIENCE, threading.Event()
    while pool.stat()[name]["breaker"] != State.CLOSED:
        if time.monotonic() > end:
            raise KvctlError("KV-BENCH-024", f"{name} is up, and its breaker stays open")
        timer.touch_all()
        pause.wait(0.02)
