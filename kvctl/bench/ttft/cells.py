"""What is measured: ways to come by a context's KV, lengths of contexts, sessions at once. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from kvctl.types.errors import UsageError

CHUNK = 1024  # tokens of a chunk
SESSION_TOKENS = 1024  # of every session, where several are measured at once


class Way(StrEnum):
    """How the engine comes by a context's KV."""

    MISS = "miss"  # nobody has had it: computed, and stored
    MISS_WRITING = "miss+write"  # the same, while a large write runs at the store
    HOST = "host"  # the engine's own host tier has it
    MEMORY = "memory"  # a store has it, in memory
    FLASH = "flash"
    FLASH_WRITING = "flash+write"
    DISK = "disk"
    OBJECT = "object"
    GONE = "gone"  # of the two stores that hold it, one was killed
    STOPPED = "stopped"  # both stores hang
    SLOW = "slow"  # both stores together give 1 MB/s


COMPUTED = (Way.MISS, Way.MISS_WRITING)
DEGRADED = (Way.GONE, Way.STOPPED, Way.SLOW)  # in the order in which they are measured
HITS = tuple(way for way in Way if way not in (*COMPUTED, *DEGRADED))
TEXTS = {
    Way.MISS: "computed (miss)",
    Way.MISS_WRITING: "computed, large write running",
    Way.HOST: "engine's host tier",
    Way.MEMORY: "store, memory",
    Way.FLASH: "store, flash",
    Way.FLASH_WRITING: "store, flash, large write running",
    Way.DISK: "store, disk",
    Way.OBJECT: "store, object (S3)",
    Way.GONE: "one of two stores gone",
    Way.STOPPED: "stores stopped",
    Way.SLOW: "stores at 1 MB/s",
}


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """Sessions at once, each with a context of its own."""

    tokens: int
    sessions: int

    @property
    def chunks(self) -> int:
        return self.sessions * (self.tokens // CHUNK)

    def __str__(self) -> str:
        return f"{self.tokens}x{self.sessions}"


@dataclass(frozen=True, slots=True)
class Cell:
    way: Way
    group: Group

    @property
    def name(self) -> str:
        return f"{self.way}/{self.group}"


class Part(StrEnum):
    """Comparisons that are not of the matrix."""

    RESTORE = "restore"  # against recompute, and against a plain socket pair
    BETWEEN = "between"  # inter-token latency with saves and restores against without


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    groups: tuple[Group, ...]
    ways: tuple[Way, ...]
    rounds: int
    degraded_rounds: int
    starts: int  # of an engine, for the first restore after it
    repetitions: int  # of a restore after each start
    between: int  # windows with the tier, of each kind of traffic, of the inter-token comparison
    restored: int  # tokens of the restore comparison
    streamed: int  # tokens of a stream whose inter-token latency is compared
    minutes: float

    def cells(self) -> Iterator[Cell]:
        for group in self.groups:
            for way in self.ways:
                yield Cell(way, group)


def groups(contexts: Sequence[int], sessions: Sequence[int]) -> tuple[Group, ...]:
    """Every context with one session, and every number of sessions with the shortest context; each once."""
    found = [*(Group(tokens, 1) for tokens in contexts), *(Group(SESSION_TOKENS, count) for count in sessions)]
    return tuple(dict.fromkeys(found))


FULL = Plan(groups((1024, 2048, 4096, 8192, 14336), (1, 4, 16, 64)), tuple(Way), 3, 2, 3, 3, 9, 8192, 100, 45)
QUICK = Plan(groups((1024, 4096), (4,)), tuple(Way), 1, 1, 1, 1, 1, 8192, 100, 6)


def chosen(plan: Plan, only: str | None) -> tuple[frozenset[Cell], frozenset[Part]]:
    """The cells and parts of a run. `only`: names with `*` and `?`, and commas between. UsageError KV-BENCH-030."""
    cells = list(plan.cells())
    if only is None:
        return frozenset(cells), frozenset(Part)
    words = [word.strip() for word in only.split(",")]
    for word in words:
        if not any(fnmatchcase(name, word) for name in (*(cell.name for cell in cells), *Part)):
            raise UsageError(
                "KV-BENCH-030", f"no cell is called {word!r}", where="--only", fix="--cells prints the names of all"
            )

    def named(name: str) -> bool:
        return any(fnmatchcase(name, word) for word in words)

    return frozenset(cell for cell in cells if named(cell.name)), frozenset(part for part in Part if named(part))
