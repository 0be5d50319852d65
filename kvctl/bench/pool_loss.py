"""Kill each store of a pool once, while prompts are read, and see what is left of them."""

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kvctl.bench.hosts import say
from kvctl.bench.lost_node import Loss, by_map, expected, run_loss, seen, standard_errors
from kvctl.bench.pool_site import Site, Spread, plain, prompt
from kvctl.connector.keys import KeyLease
from kvctl.connector.pool import Pool
from kvctl.types.chunks import Meta
from kvctl.types.errors import KvctlError

READERS = 2
PATIENCE = 60.0  # seconds until a store that was started again must have everything


@dataclass(frozen=True, slots=True)
class Prompts:
    """How many are stored for each spread, of how many chunks of how many bytes."""

    count: int
    length: int
    size: int

    def chains(self, spread: Spread) -> list[list[bytes]]:
        label = f"{spread.copies} copies, stripe {spread.stripe}"
        return [prompt(label, number, self.length) for number in range(self.count)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one killed store cost the prompts of one spread."""

    spread: Spread
    lost: str
    measured: Loss
    by_map: Loss  # what placement says about these very chunks


@dataclass
class Read:
    """What readers got. `wrong`: chunks that were said to be hits and were not what had been stored."""

    chunks: int = 0
    hits: int = 0
    wrong: int = 0
    raised: list[str] = field(default_factory=list)


def read(pool: Pool, lease: KeyLease, chain: Sequence[bytes], size: int, deadline: float | None = None) -> list[bool]:
    """Fetch a whole prompt; which chunks came. ValueError for a hit that is not what was stored."""
    wants = [(position, memoryview(bytearray(size))) for position in range(len(chain))]
    results = pool.get_into(lease, chain, wants, deadline)
    there = [result.hit for result in results]
    for (position, target), hit in zip(wants, there, strict=True):
        if hit and target != plain(chain[position], size):
            raise ValueError(f"chunk {position} holds other bytes than were stored")
    return there


class Readers:
    """Threads that read prompts drawn at random until they are told to stop."""

    def __init__(self, work: Sequence[tuple[Pool, Sequence[Sequence[bytes]]]], lease: KeyLease, size: int) -> None:
        self._work = work
        self._lease = lease
        self._size = size
        self._stop = threading.Event()
        self.seen = [Read() for _ in range(READERS)]
        self._threads = [threading.Thread(target=self._run, args=(at,)) for at in range(READERS)]

    def _run(self, number: int) -> None:
        mine, chance = self.seen[number], random.Random(number)
        while not self._stop.is_set():
            pool, chains = chance.choice(self._work)
            try:
                there = read(pool, self._lease, chance.choice(chains), self._size)
            except ValueError:
                mine.wrong += 1
            except Exception as error:  # noqa: BLE001  a pool raises nothing about its stores: this is a finding
                mine.raised.append(repr(error))
            else:
                mine.chunks += len(there)
                mine.hits += there.count(True)

    def __enter__(self) -> "Readers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def total(self) -> Read:
        return Read(
            sum(one.chunks for one in self.seen),
            sum(one.hits for one in self.seen),
            sum(one.wrong for one in self.seen),
            [text for one in self.seen for text in one.raised],
        )


@contextmanager
def pools(site: Site, spreads: Sequence[Spread]) -> Iterator[dict[Spread, Pool]]:
    made = {spread: site.pool(spread) for spread in spreads}
    try:
        yield made
    finally:
        for pool in made.values():
            pool.close()


def fill(pool: Pool, lease: KeyLease, chains: Sequence[Sequence[bytes]], size: int, copies: int) -> None:
    """Store every chunk of every prompt. KV-BENCH-019 when a copy was not taken."""
    for chain in chains:
        items = [(at, plain(key, size), Meta(position=at)) for at, key in enumerate(chain)]
        for result in pool.put(lease, chain, items):
            if result.there != copies:
                raise KvctlError("KV-BENCH-019", "a store did not take a chunk", why=str(result.copies))


def measure_loss(site: Site, spreads: Sequence[Spread], prompts: Prompts) -> tuple[list[Outcome], Read]:
    """Store prompts in every spread, then lose one store after the other; what is left, and what readers saw."""
    chains = {spread: prompts.chains(spread) for spread in spreads}
    with pools(site, spreads) as opened:
        for spread, pool in opened.items():
            say(f"storing {prompts.count} prompts: {spread.copies} copies, stripe {spread.label}")
            fill(pool, site.lease, chains[spread], prompts.size, spread.copies)
        for store in site.stores.values():
            store.flush()
    outcomes: list[Outcome] = []
    reads = Read()
    for name in site.stores:
        say(f"killing {name} while {READERS} threads read")
        found, seen_there = lose(site, name, chains, prompts.size)
        outcomes += found
        reads = merged(reads, seen_there)
    return outcomes, reads


def merged(one: Read, other: Read) -> Read:
    return Read(one.chunks + other.chunks, one.hits + other.hits, one.wrong + other.wrong, one.raised + other.raised)


def lose(
    site: Site, name: str, chains: Mapping[Spread, Sequence[Sequence[bytes]]], size: int
) -> tuple[list[Outcome], Read]:
    """Kill a store, look for every prompt, and bring the store back with what it had."""
    store = site.stores[name]
    with pools(site, list(chains)) as opened:
        work = [(opened[spread], chains[spread]) for spread in chains]
        with Readers(work, site.lease, size) as readers:
            begin = readers.total.chunks
            await_progress(readers, begin)
            store.kill()
            await_progress(readers, readers.total.chunks)
        outcomes = [look(site, spread, opened[spread], chains[spread], name, size) for spread in chains]
    store.begin()
    store.ready()
    with pools(site, list(chains)) as opened:
        for spread, pool in opened.items():
            for chain in chains[spread]:
                if not all(pool.has(site.lease, chain)):
                    raise KvctlError("KV-BENCH-020", f"{name} came back without chunks that it had made durable")
    return outcomes, readers.total


def await_progress(readers: Readers, since: int, chunks: int = 500) -> None:
    """Return when so many more chunks were read. KV-BENCH-021 when readers stand still."""
    end, pause = time.monotonic() + PATIENCE, threading.Event()
    while readers.total.chunks < since + chunks:
        if time.monotonic() > end:
            raise KvctlError("KV-BENCH-021", "readers got nowhere", why="; ".join(readers.total.raised[:3]))
        pause.wait(0.02)


def look(site: Site, spread: Spread, pool: Pool, chains: Sequence[Sequence[bytes]], lost: str, size: int) -> Outcome:
    """Every prompt: what the stores say they have must be what they give."""
    found = []
    for chain in chains:
        there = pool.has(site.lease, chain)
        if read(pool, site.lease, chain, size) != there:
            raise KvctlError("KV-BENCH-022", "a chunk was said to be there and did not come, or the other way round")
        found.append(there)
    return Outcome(spread, lost, seen(found), by_map(pool.map, chains, {lost}, spread.copies))


def summary(outcomes: Sequence[Outcome], prompts: Prompts, nodes: int) -> list[dict[str, Any]]:
    """A row a spread: means over the stores that were lost, beside the model and its standard error."""
    rows = []
    for spread in dict.fromkeys(outcome.spread for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.spread == spread]
        # Of one prompt, what the rounds lose excludes each other: their mean varies less than this.
        share = lost_share(spread, nodes)
        error = standard_errors(prompts.length, spread.stripe, share, prompts.count * len(mine))
        rows.append(
            {
                "copies": spread.copies,
                "stripe": spread.label,
                "lost": [outcome.lost for outcome in mine],
                "measured": fields(mean([outcome.measured for outcome in mine])),
                "model": fields(model(spread, prompts.length, nodes)),
                "standard_error": fields(error),
                "as_the_map_says": all(outcome.measured == outcome.by_map for outcome in mine),
            }
        )
    return rows


def lost_share(spread: Spread, nodes: int) -> float:
    """The probability that a run is lost with one of so many equal nodes."""
    return run_loss({str(at): 1.0 for at in range(nodes)}, {"0"}, spread.copies)


def model(spread: Spread, length: int, nodes: int) -> Loss:
    return expected(length, spread.stripe, lost_share(spread, nodes))


def mean(losses: Sequence[Loss]) -> Loss:
    count = len(losses)
    return Loss(
        sum(loss.chunks for loss in losses) / count,
        sum(loss.broken for loss in losses) / count,
        sum(loss.usable for loss in losses) / count,
    )


def fields(loss: Loss) -> dict[str, float]:
    return {"chunks": loss.chunks, "broken": loss.broken, "usable": loss.usable}
