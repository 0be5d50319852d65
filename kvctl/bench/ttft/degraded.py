"""An engine whose stores fail: one of two gone, both stopped, both slow; beside the same prompts recomputed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kvctl.bench.hosts import say
from kvctl.bench.ttft.cells import DEGRADED, Cell, Group, Plan, Way
from kvctl.bench.ttft.clock import Clock
from kvctl.bench.ttft.engine import Engine
from kvctl.bench.ttft.figures import Book, Sample
from kvctl.bench.ttft.matrix import caught, contexts
from kvctl.bench.ttft.site import SLOW_RATE, Site, await_that
from kvctl.fleet.lab.serving_demo import Answer
from kvctl.types.errors import KvctlError

DOMAIN = "pair"


@dataclass(frozen=True, slots=True)
class Stored:
    """Contexts of a round that both stores hold, and what the engine answered when it computed them."""

    round: int
    group: Group
    prompts: tuple[list[int], ...]
    computed: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt with a failing store, and without any: seconds to the first token."""

    way: Way
    tokens: int
    degraded: float
    recompute: float


@dataclass(frozen=True, slots=True)
class Healed:
    """From a store's return until a context is restored again."""

    way: Way
    seconds: float
    requests: int


@dataclass(slots=True)
class Degraded:
    site: Site
    engine: Engine
    book: Book
    plan: Plan
    pairs: list[Pair] = field(default_factory=list)
    healed: list[Healed] = field(default_factory=list)
    not_healed: dict[Way, str] = field(default_factory=dict)
    _hurt: list[Stored] = field(default_factory=list)  # contexts that were not restored whole, of this way

    def run(self, clock: Clock) -> None:
        """The longest contexts first: by the time of the others the engine has learned to leave the store alone."""
        wanted = [way for way in DEGRADED if any(cell.way is way for cell in self.book.cells)]
        stored = list(self._fill(wanted, clock.share(1, 3)))
        for at, way in enumerate(wanted):
            with caught(self.book, [cell for cell in self.book.cells if cell.way is way]):
                self._degrade(way, stored, clock.share(1, len(wanted) - at - 1))

    def _fill(self, wanted: Sequence[Way], clock: Clock) -> Iterator[Stored]:
        order = sorted(self.plan.groups, key=lambda group: (group.sessions, -group.tokens))
        for turn in range(self.plan.degraded_rounds):
            for group in order:
                cells = [Cell(way, group) for way in wanted if Cell(way, group) in self.book.cells]
                if not cells or (clock.over and turn):
                    continue
                say(f"store for the stores to fail: {group}")
                with caught(self.book, cells):
                    prompts = contexts(group)
                    chunks = self.site.chunks(self.site.pair) + group.chunks
                    computed = self.engine.at_once(prompts, self.site.body(DOMAIN))
                    self.site.await_chunks(self.site.pair, chunks)
                    yield Stored(turn, group, tuple(prompts), computed)

    def _degrade(self, way: Way, stored: Sequence[Stored], clock: Clock) -> None:
        if not stored:
            return
        self._hurt = []
        with self._failing(way):
            for one in stored:
                cell = Cell(way, one.group)
                if cell in self.book.cells and not clock.over:
                    say(f"{way}: {one.group}")
                    with caught(self.book, [cell]):
                        self._take(cell, one)
        self._heal(way, stored)

    @contextmanager
    def _failing(self, way: Way) -> Iterator[None]:
        """The stores are so while the block runs."""
        lost = self.site.pair[-1]
        for store in self.site.pair:
            store.flush()  # what a killed store has taken is there when it comes back
        match way:
            case Way.GONE:
                lost.kill()
            case Way.STOPPED:
                for store in self.site.pair:
                    store.hang()
            case _:
                self.site.slow(SLOW_RATE)
        try:
            yield
        finally:
            match way:
                case Way.GONE:
                    lost.begin()
                    lost.ready()
                case Way.STOPPED:
                    for store in self.site.pair:
                        store.resume()
                case _:
                    self.site.slow(0)

    def _take(self, cell: Cell, one: Stored) -> None:
        self.engine.forget()
        answers = self.engine.at_once(one.prompts, self.site.body(DOMAIN))
        self.book.add(cell, Sample(one.round, answers), one.computed)
        if one.group.sessions == 1:
            self.engine.forget()
            if answers[0].cached < one.group.tokens:
                self._hurt.append(one)
            plain = self.engine.complete(one.prompts[0], {})
            self.pairs.append(Pair(cell.way, one.group.tokens, answers[0].first, plain.first))

    def _heal(self, way: Way, stored: Sequence[Stored]) -> None:
        """Ask for a context that could not be restored until it is. Not within the time: it is said so."""
        one = min(self._hurt or stored, key=lambda stored: stored.group)
        begun, requests = time.monotonic(), 0

        def restored() -> bool:
            nonlocal requests
            requests += 1
            self.engine.forget()
            return self.engine.complete(one.prompts[0], self.site.body(DOMAIN), 1).cached == one.group.tokens

        try:
            await_that("a context restored again", restored)
        except KvctlError as error:
            self.not_healed[way] = f"{requests} requests, none was restored whole: {error.why}"
            say(f"  not well again: {self.not_healed[way]}")
            return
        self.healed.append(Healed(way, time.monotonic() - begun, requests))
        say(f"  well again after {self.healed[-1].seconds:.1f} s, {requests} requests")
