"""The cells of an engine whose stores are well: computed, and restored from each tier; round by round, interleaved."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from kvctl.bench.hosts import say
from kvctl.bench.ttft.cells import COMPUTED, Cell, Group, Plan, Way
from kvctl.bench.ttft.clock import Clock
from kvctl.bench.ttft.engine import Engine
from kvctl.bench.ttft.figures import Book, Sample
from kvctl.bench.ttft.site import Site
from kvctl.fleet.lab.serving_demo import Answer, prompt
from kvctl.types.errors import KvctlError

DOMAIN = "contexts"
WARM = 512  # tokens of a first prompt, whose time counts for nothing: less than a chunk


@dataclass(slots=True)
class Matrix:
    """One engine, one store with every tier."""

    site: Site
    engine: Engine
    book: Book
    plan: Plan
    left_out: dict[Way, str] = field(default_factory=dict)

    def run(self, clock: Clock) -> None:
        """Rounds over all groups, so that one that the time ends leaves every cell with as many samples."""
        self.engine.complete(prompt(WARM, secrets.token_hex(8)), self.site.body(DOMAIN))
        for turn in range(self.plan.rounds):
            for group in self.plan.groups:
                ways = [way for way in self.plan.ways if Cell(way, group) in self.book.cells]
                if clock.over or not ways:
                    continue
                say(f"round {turn + 1} of {self.plan.rounds}: {group}")
                cells = [Cell(way, group) for way in ways]
                if not self.engine.alive:
                    self.book.fail([cell for cell in cells if cell not in self.book.samples], "the engine has ended")
                    continue
                with caught(self.book, cells):
                    self._group(group, ways, turn)

    def _group(self, group: Group, ways: Sequence[Way], turn: int) -> None:
        """Every way to the same contexts; from tier to tier, since what was moved is not in the store's memory."""
        site = self.site
        begun = site.chunks((site.main,))
        prompts = contexts(group)
        computed = self._take(Cell(Way.MISS, group), turn, prompts)
        stored = begun + group.chunks
        site.await_chunks((site.main,), stored)
        for way, before in (
            (Way.HOST, self._nothing),
            (Way.MEMORY, self.engine.forget),
            (Way.DISK, lambda: self._moved(group, "flash", "disk")),
            (Way.FLASH, lambda: self._moved(group, "disk", "flash")),
            (Way.FLASH_WRITING, lambda: self._moved(group, "flash", "disk", "flash")),
            (Way.OBJECT, lambda: self._moved(group, "flash", "object")),
        ):
            self._way(Cell(way, group), turn, prompts, computed, before)
        site.erase(DOMAIN, site.main)
        if Way.MISS_WRITING in ways:
            with caught(self.book, [Cell(Way.MISS_WRITING, group)]):
                self._miss_writing(Cell(Way.MISS_WRITING, group), turn)

    def _way(
        self,
        cell: Cell,
        turn: int,
        prompts: Sequence[list[int]],
        computed: Sequence[Answer],
        before: Callable[[], None],
    ) -> None:
        """One way; others go on when it fails. A tier is passed through also when its cell is not asked for."""
        if cell.way in self.left_out:
            return
        with caught(self.book, [cell]):
            before()
            if cell in self.book.cells:
                self._take(cell, turn, prompts, computed)

    def _nothing(self) -> None:
        """The host tier has it from the request before."""

    def _moved(self, group: Group, *tiers: str) -> None:
        for source, target in pairwise(tiers):
            self.site.move(DOMAIN, source, target, group.chunks)
        self.engine.forget()

    def _take(
        self, cell: Cell, turn: int, prompts: Sequence[list[int]], computed: Sequence[Answer] | None = None
    ) -> tuple[Answer, ...]:
        """A sample of a cell, with what the store and the large write did meanwhile."""
        hits, misses = self.site.memory()
        before = self.engine.reasons()
        if cell.way is Way.FLASH_WRITING:
            with self.site.writing() as written:
                answers = self._ask(prompts)
                reads = self.site.memory()
            rate = written["rate"]
        else:
            answers, rate = self._ask(prompts), None
            reads = self.site.memory()
        asked = reads[0] - hits + reads[1] - misses
        memory = (reads[0] - hits) / asked if asked and cell.way not in COMPUTED else None
        sample = Sample(turn, answers, memory, rate, self._reasons(cell, answers, before))
        self.book.add(cell, sample, answers if computed is None else computed)
        return answers

    def _reasons(self, cell: Cell, answers: Sequence[Answer], before: Counter[str]) -> dict[str, int]:
        """Why contexts that a store has were computed all the same, or part of them."""
        whole = all(answer.cached == cell.group.tokens for answer in answers)
        return {} if whole or cell.way in COMPUTED else dict(self.engine.reasons() - before)

    def _ask(self, prompts: Sequence[list[int]]) -> tuple[Answer, ...]:
        return self.engine.at_once(prompts, self.site.body(DOMAIN))

    def _miss_writing(self, cell: Cell, turn: int) -> None:
        with self.site.writing() as written:
            answers = self._ask(contexts(cell.group))
        self.book.add(cell, Sample(turn, answers, None, written["rate"]), answers)
        self.engine.forget()  # ends the stores of what was computed
        self.site.erase(DOMAIN, self.site.main)


def contexts(group: Group) -> list[list[int]]:
    """New ones, which nobody has had."""
    return [prompt(group.tokens, secrets.token_hex(8)) for _ in range(group.sessions)]


@contextmanager
def caught(book: Book, cells: Sequence[Cell]) -> Iterator[None]:
    """What fails is a failed cell, and the run goes on."""
    try:
        yield
    except KvctlError as error:
        say(f"  failed: {error}")
        book.fail(cells, f"{error.what}: {error.why}" if error.why else error.what)
