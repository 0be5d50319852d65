"""One long context: restored against recomputed, interleaved, after several starts of an engine."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import median

from kvctl.bench.hosts import say
from kvctl.bench.store import cells as store_cells
from kvctl.bench.store.contestants import ALL
from kvctl.bench.store.stage import Stage
from kvctl.bench.ttft.cells import CHUNK
from kvctl.bench.ttft.engine import ROW, Engine
from kvctl.bench.ttft.site import Site
from kvctl.fleet.lab.serving_demo import Answer, prompt
from kvctl.types.errors import KvctlError

DOMAIN = "kept"
CONNECTIONS = 4  # as many as the tier has to a store
RAW_SECONDS = 0.5
SHORT = 16  # tokens, of less than a chunk


class Kind(StrEnum):
    RECOMPUTE = "recompute"  # without a handle: no store is asked, nothing is stored
    HOST = "host"
    MEMORY = "memory"
    FLASH = "flash"
    FIRST = "first"  # from the store's memory, the first after an engine's start: of the tier nothing was used yet


@dataclass(frozen=True, slots=True)
class Timed:
    kind: Kind
    start: int  # of which start of the engine
    seconds: float  # to the first token


@dataclass(slots=True)
class Restores:
    """`raw`: bytes a second of plain sockets, one value a repetition."""

    tokens: int
    site: Site
    timed: list[Timed] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    failed: str = ""
    _ids: list[int] = field(default_factory=list)
    _computed: Answer | None = None

    def prepare(self, engine: Engine) -> None:
        """Compute and store the context, so that the next engine's first request restores it."""
        if self._computed is not None:
            return
        self._ids = prompt(self.tokens, secrets.token_hex(8))
        begun = self.site.chunks((self.site.main,))
        self._computed = engine.complete(self._ids, self.site.body(DOMAIN))
        wanted = begun + self.chunks
        self.site.await_chunks((self.site.main,), wanted)

    def run(self, engine: Engine, start: int, repetitions: int, raw: Callable[[int], float]) -> None:
        """One start of an engine: its first restore, then every kind in turn.

        The engine has generated one token before, as `kvctl deploy serving` has it do: what vLLM's own front end is
        slower by the first time is in no hit of the host tier that the restore is compared with.
        """
        engine.complete(prompt(SHORT, secrets.token_hex(8)), {}, 1)
        self._take(Kind.FIRST, engine, start)
        for turn in range(repetitions):
            engine.forget()
            self._take(Kind.RECOMPUTE, engine, start)
            engine.forget()
            self._take(Kind.MEMORY, engine, start)
            self._take(Kind.HOST, engine, start)
            for source, target in (("flash", "disk"), ("disk", "flash")):
                self.site.move(DOMAIN, source, target, self.chunks)
            engine.forget()
            self._take(Kind.FLASH, engine, start)
            self.raw.append(raw(start * repetitions + turn))

    def _take(self, kind: Kind, engine: Engine, start: int) -> None:
        hits, misses = self.site.memory()
        answer = engine.complete(self._ids, {} if kind is Kind.RECOMPUTE else self.site.body(DOMAIN))
        reads = self.site.memory()
        say(f"  {kind}: {1000 * answer.first:.0f} ms, {answer.cached} of {self.tokens} tokens not computed")
        if self._computed is None or answer.output != self._computed.output:
            raise unsound(f"{kind}: another output than computed")
        if answer.cached != (0 if kind is Kind.RECOMPUTE else self.tokens):
            raise unsound(f"{kind}: {answer.cached} of {self.tokens} tokens were not computed")
        if (reads[0] - hits, reads[1] - misses) != self._reads(kind):
            raise unsound(f"{kind}: {reads[0] - hits} chunks came from the store's memory, {reads[1] - misses} did not")
        self.timed.append(Timed(kind, start, answer.first))

    def _reads(self, kind: Kind) -> tuple[int, int]:
        """How many chunks the store must have given, from its memory and not from it."""
        stored = {Kind.MEMORY: (self.chunks, 0), Kind.FIRST: (self.chunks, 0), Kind.FLASH: (0, self.chunks)}
        return stored.get(kind, (0, 0))

    @property
    def chunks(self) -> int:
        return self.tokens // CHUNK

    @property
    def size(self) -> int:
        """Bytes of the context's KV."""
        return self.chunks * ROW

    def median(self, kind: Kind) -> float | None:
        """None when there is no sample, or when one failed."""
        found = [one.seconds for one in self.timed if one.kind is kind]
        return median(found) if found and not self.failed else None


def unsound(why: str) -> KvctlError:
    return KvctlError("KV-BENCH-033", "a restore gave something else than the context", why=why)


@contextmanager
def sockets(directory: Path) -> Iterator[Callable[[int], float]]:
    """Measure a plain TCP socket pair: bytes a second, with chunks and connections as the tier's."""
    settings = store_cells.Settings((ROW,), (CONNECTIONS,), 1, directory, seconds=RAW_SECONDS)
    raw = next(one for one in ALL if one.name == "raw-tcp")
    cell = store_cells.Cell(store_cells.Op.GET, ROW, CONNECTIONS)
    with Stage(settings) as stage:
        entered = stage.client(raw)

        def take(turn: int) -> float:
            taken = entered.take(cell, turn)
            return taken.bytes / taken.wall

        yield take
