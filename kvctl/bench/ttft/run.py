"""A whole run: stores, one engine after the other, and the document."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvctl.bench.hosts import say
from kvctl.bench.ttft.between import Between, Traffic
from kvctl.bench.ttft.cells import COMPUTED, DEGRADED, HITS, Cell, Part, Plan, Way
from kvctl.bench.ttft.clock import Clock
from kvctl.bench.ttft.conditions import FEW_ROWS, ROWS
from kvctl.bench.ttft.degraded import Degraded
from kvctl.bench.ttft.engine import Engine, engine
from kvctl.bench.ttft.figures import Book
from kvctl.bench.ttft.matrix import Matrix
from kvctl.bench.ttft.restore import Restores, sockets
from kvctl.bench.ttft.site import Site
from kvctl.bench.ttft.targets import rows
from kvctl.types.errors import KvctlError

SCHEMA = "kvctl.bench.ttft/2"
OVER = "the time of --minutes was up"
INTERRUPTED = "the run was interrupted"
WEIGHTS = {"matrix": 40.0, "comparisons": 22.0, "failing": 38.0}  # of the run's time, as far as they are asked for


@dataclass(slots=True)
class Run:
    home: Path
    directory: Path
    plan: Plan
    cells: frozenset[Cell]
    parts: frozenset[Part]
    clock: Clock
    book: Book = field(init=False)
    restores: Restores | None = None
    between: Between | None = None
    degraded: Degraded | None = None
    left_out: dict[str, str] = field(default_factory=dict)  # what else was not measured -> why
    starts: list[float] = field(default_factory=list)  # seconds that each start of an engine took

    def __post_init__(self) -> None:
        self.book = Book(self.cells)

    def measure(self, site: Site) -> None:
        """Each stage on its own engines; one that fails leaves the others their turn."""
        stages = {
            "matrix": (any(cell.way not in DEGRADED for cell in self.cells), self._matrix),
            "comparisons": (bool(self.parts), self._comparisons),
            "failing": (any(cell.way in DEGRADED for cell in self.cells), self._failing),
        }
        wanted = [name for name, (asked, _) in stages.items() if asked]
        for at, name in enumerate(wanted):
            later = sum(WEIGHTS[other] for other in wanted[at + 1 :])
            try:
                stages[name][1](site, self.clock.share(WEIGHTS[name], later))
            except KeyboardInterrupt:
                self.left_out["the rest"] = INTERRUPTED
                return
            except KvctlError as error:
                say(str(error))
                self._stage_failed(name, f"{error.what}: {error.why}")

    def _stage_failed(self, name: str, why: str) -> None:
        if name == "comparisons":
            self.left_out[name] = f"failed: {why}"
            return
        failing = name == "failing"
        lost = [cell for cell in self.cells if (cell.way in DEGRADED) is failing and cell not in self.book.samples]
        self.book.fail(lost, why)

    @contextmanager
    def _engine(self, tier: Mapping[str, object], rows: int) -> Iterator[Engine]:
        with engine(self.home, self.directory, tier, rows) as made:
            self.starts.append(made.started)
            yield made

    def _matrix(self, site: Site, clock: Clock) -> None:
        with self._engine(site.main_tier(), ROWS) as made:
            matrix = Matrix(site, made, self.book, self.plan)
            if site.without:
                matrix.left_out[Way.OBJECT] = f"no object tier: {site.without}"
            matrix.run(clock)
            if Part.RESTORE in self.parts:
                self._prepare(site, made)

    def _prepare(self, site: Site, made: Engine) -> None:
        if self.restores is None:
            self.restores = Restores(self.plan.restored, site)
        self.restores.prepare(made)

    def _comparisons(self, site: Site, clock: Clock) -> None:
        if Part.RESTORE in self.parts and self.restores is None:
            with self._engine(site.main_tier(), FEW_ROWS) as made:
                self._prepare(site, made)
        starts = self.plan.starts if Part.RESTORE in self.parts else 1
        with sockets(self.directory) as raw:
            for start in range(starts):
                with self._engine(site.main_tier(), FEW_ROWS) as made:
                    if Part.RESTORE in self.parts:
                        self._restore(made, start, raw)
                    last = start == starts - 1 or clock.over
                    if Part.BETWEEN in self.parts and last:
                        self._between(site, made, clock)
                if last:
                    return

    def _restore(self, made: Engine, start: int, raw: Any) -> None:
        assert self.restores is not None
        try:
            self.restores.run(made, start, self.plan.repetitions, raw)
        except KvctlError as error:
            say(f"  failed: {error}")
            self.restores.failed = f"{error.what}: {error.why}"

    def _between(self, site: Site, made: Engine, clock: Clock) -> None:
        self.between = Between(site, made, self.plan.streamed)
        traffics = tuple(Traffic) if self.plan.between > 1 else (Traffic.BOTH,)
        try:
            self.between.run(self.plan.between, traffics, clock)
        except KvctlError as error:
            say(f"  failed: {error}")
            self.between.failed = f"{error.what}: {error.why}"

    def _failing(self, site: Site, clock: Clock) -> None:
        with self._engine(site.pair_tier(), ROWS) as made:
            self.degraded = Degraded(site, made, self.book, self.plan)
            self.degraded.run(clock)

    def document(self, conditions: Mapping[str, Any], without: str) -> dict[str, Any]:
        """Everything, with every sample; seconds, bytes and shares from 0 to 1."""
        order = [cell for cell in self.plan.cells() if cell in self.cells]
        why = {Way.OBJECT: f"no object tier: {without}"} if without else {}
        judged = rows(self.restores, self.between, self.degraded)
        for name, why_failed in (("restore", self.restores), ("between", self.between)):
            if why_failed is not None and why_failed.failed:
                self.left_out[name] = f"failed: {why_failed.failed}"
        return {
            "schema": SCHEMA,
            "conditions": {**conditions, "engine starts, s": ", ".join(f"{one:.0f}" for one in self.starts)},
            "rows": [asdict(row) for row in judged],
            "cells": [self.book.row(cell, why.get(cell.way, self.left_out.get("the rest", OVER))) for cell in order],
            "failing": failing(self.degraded),
            "left_out": dict(self.left_out),
            "samples": {
                "cells": {cell.name: [asdict(one) for one in self.book.samples.get(cell, ())] for cell in order},
                "restores": [asdict(one) for one in self.restores.timed] if self.restores else [],
                "raw bytes a second": self.restores.raw if self.restores else [],
                "between": [asdict(one) for one in self.between.phases] if self.between else [],
                "failing": [asdict(one) for one in self.degraded.pairs] if self.degraded else [],
            },
        }


def failing(found: Degraded | None) -> list[dict[str, Any]]:
    """How long it took until contexts were restored again, by way."""
    if found is None:
        return []
    well = [
        {"way": str(one.way), "seconds": one.seconds, "requests": one.requests,
         "said": f"restored again after {one.seconds:.1f} s, at request {one.requests}"}
        for one in found.healed
    ]  # fmt: skip
    ill = [
        {"way": str(way), "seconds": None, "said": f"NOT restored again: {why}"}
        for way, why in found.not_healed.items()
    ]
    return [*well, *ill]


def ways(cells: Sequence[Cell]) -> str:
    """For people: how many cells of which kind."""
    kinds = {"computed": COMPUTED, "restored": HITS, "failing": DEGRADED}
    return ", ".join(f"{sum(cell.way in kind for cell in cells)} {name}" for name, kind in kinds.items())
