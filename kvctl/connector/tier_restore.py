"""One request's dealings with the stores: what was asked, what was found, and the answer to each look-up.

The scheduler's thread looks up; threads of the tier bring what they found. Neither waits for the other: a value is put
in place whole, and read once.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from mmap import mmap
from threading import Event

from kvctl.connector.naming import chunk_key
from kvctl.connector.tier_grants import Bearer, Grant, Miss
from kvctl.connector.tier_learning import Learning

AGAIN = 0.02  # seconds, at first, until chunks that are awaited are asked for again; doubles up to
SELDOM = 0.2


class Answer(Enum):
    HIT = "hit"
    MISS = "miss"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Shape:
    """How the engine cuts its cache: `row` bytes a chunk, and of each group, by its number, tokens of a chunk."""

    fingerprint: bytes
    row: int
    tokens: dict[int, int]
    hashes: dict[int, int]  # group -> engine hashes of a chunk


@dataclass(frozen=True, slots=True)
class Spot:
    """A chunk's place in a request: its group, and its ordinal in that group's chain."""

    group: int
    position: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a job: what the engine calls it, where it is in its request, and its row in the host tier."""

    key: bytes
    spot: Spot
    row: memoryview


@dataclass(frozen=True, slots=True)
class Limits:
    deadline: float  # seconds for one question
    learning: Learning


@dataclass(eq=False)
class Restore:
    """`hashes` are the engine's, one a block of hashing; the engine appends to them while the request grows."""

    name: str
    tokens: int  # of the prompt
    hashes: Sequence[bytes]
    bearer: Bearer
    shape: Shape
    limits: Limits
    begun: float = field(default_factory=time.monotonic)  # when the request came in
    grant: Grant | None = None
    found: dict[int, list[bool]] | None = None  # group -> which of its chunks some store has
    missed: set[Miss] = field(default_factory=set)  # reasons counted for this request
    reachable: bool = True  # whether any store is asked at all
    absence: Miss = Miss.ABSENT  # what it means that a chunk was not found
    over: Event = field(default_factory=Event)  # the engine is done with the request
    prefetched: dict[Spot, mmap] = field(default_factory=dict)
    waiting_since: float | None = None  # since when the engine waits for a store
    spent: float = 0.0  # seconds of its patience that earlier waits used up
    lost: float = 0.0  # seconds waited for an answer that brought nothing
    matched: int = 0  # tokens that the engine has, or has in its host tier, and does not compute
    restored: int = 0  # tokens loaded
    scheduled: float | None = None
    _first: float | None = None  # first look-up
    _answered: float | None = None  # when the question was, until the engine looks again
    _failed: set[Spot] = field(default_factory=set)
    _closed: Miss | None = None
    _load: bool | None = None
    _names: dict[int, list[bytes]] = field(default_factory=dict)
    _asked_at: float = 0.0
    _pause: float = AGAIN

    @property
    def polled(self) -> bool:
        """Whether the scheduler has come to this request; before, it waits in the queue."""
        return self._first is not None

    @property
    def closed(self) -> Miss | None:
        return self._closed

    def close(self, why: Miss) -> None:
        """Nothing is loaded for this request from now on."""
        self._answered = time.monotonic()
        self._closed = self._closed or why

    def fail(self, spots: Sequence[Spot]) -> None:
        """These answer MISS for the rest of the request."""
        self._failed |= set(spots)  # a new set in the old one's place: the other thread sees either

    def put_found(self, found: dict[int, list[bool]]) -> None:
        self._answered = time.monotonic()
        self.found = found

    def engine_hash(self, spot: Spot) -> bytes:
        """What the engine calls a chunk, without its group."""
        return self.hashes[(spot.position + 1) * self.shape.hashes[spot.group] - 1]

    def chain(self, group: int, length: int | None = None) -> list[bytes]:
        """Chunk keys of a group from the prompt's start, `length` of them or all there are; needs the grant."""
        assert self.grant is not None
        step = self.shape.hashes[group]
        there = len(self.hashes) // step
        count = there if length is None else min(length, there)
        names = list(self._names.get(group, ()))
        if len(names) < count:
            key = self.grant.lease.key.name_key
            names += [
                chunk_key(key, self.shape.fingerprint, self.hashes[(at + 1) * step - 1], group)
                for at in range(len(names), count)
            ]
            self._names[group] = names
        return names[:count]

    def answer(self, spot: Spot, ask: Callable[[], None]) -> Answer:
        """What the engine is told about a chunk. `ask` puts the question to the stores again, and does not block."""
        now = time.monotonic()
        if self._first is None:
            self._first = now
        if self.found is not None or self._closed is not None:
            self._resume(now)
        if self._closed is not None or spot in self._failed:
            return self._miss(now)
        if self.found is None:
            return self._unanswered(now)
        if self._awaits(now, ask):
            return Answer.RETRY
        if not self._there(spot):
            self.missed.add(self.absence)
            return Answer.MISS if self._load else self._miss(now)
        return Answer.HIT if self._decide(spot) else self._miss(now)

    def waited(self, now: float) -> float:
        """Seconds that the engine has waited for a store until now; it waits no more."""
        since, self.waiting_since = self.waiting_since, None
        return 0.0 if since is None else max(now - since, 0.0)

    def due(self) -> float:
        """When waiting ends if nothing comes."""
        begun = time.monotonic() if self.waiting_since is None else self.waiting_since
        return begun + max(self.limits.learning.patience(self.tokens) - self.spent, 0.0)

    def _resume(self, now: float) -> None:
        """Until it looked again the engine computed others, and may have had no place for this request: no wait."""
        answered, self._answered = self._answered, None
        if answered is not None and self.waiting_since is not None and self._load is None:
            self.waiting_since += max(now - max(answered, self.waiting_since), 0.0)

    def _miss(self, now: float) -> Answer:
        waited = self.waited(now)
        self.lost += waited
        self.spent += waited
        return Answer.MISS

    def _unanswered(self, now: float) -> Answer:
        assert self._first is not None
        if self._may_await():
            return Answer.RETRY
        if self.waiting_since is None:
            self.waiting_since = now
        until = self._first + min(self.limits.deadline, self.limits.learning.patience(self.tokens))
        if now < until:
            return Answer.RETRY
        self.close(Miss.LATE)
        return self._miss(until)

    def _awaits(self, now: float, ask: Callable[[], None]) -> bool:
        """Whether chunks are awaited that another engine is about to store."""
        if self._load is not None or not self._may_await() or self._whole():
            return False
        self.waiting_since = None  # for the other engine, not for a store
        if now - self._asked_at >= self._pause:
            self._asked_at, self._pause = now, min(self._pause * 2, SELDOM)
            ask()
        return True

    def _may_await(self) -> bool:
        return self.reachable and self.grant is not None and time.time() < self.grant.await_until

    def _whole(self) -> bool:
        """Whether all chunks of the prompt are there."""
        assert self.found is not None
        return all(len(there) >= self._chunks(group) and all(there) for group, there in self.found.items())

    def _chunks(self, group: int) -> int:
        """Chunks of the prompt that the engine has a name for: the last may want a token more than the chunk has."""
        return min(self.tokens // self.shape.tokens[group], len(self.hashes) // self.shape.hashes[group])

    def _there(self, spot: Spot) -> bool:
        there = (self.found or {}).get(spot.group, [])
        return spot.position < len(there) and there[spot.position]

    def _decide(self, spot: Spot) -> bool:
        # Also where it was decided before, to fetch ahead: from now on the engine waits for what is not here yet.
        if self.waiting_since is None:
            self.waiting_since = time.monotonic()
        if not self.decide(spot):
            self.close(Miss.SLOWER)
        return self._load is True

    def decide(self, spot: Spot) -> bool:
        """Load or compute: once a request, for the run of chunks from the first that is asked for or fetched ahead."""
        if self._load is None:
            self._load = self._worth(spot)
        return self._load

    def _worth(self, spot: Spot) -> bool:
        there = (self.found or {}).get(spot.group, [])[spot.position :]
        run = there.index(False) if False in there else len(there)
        tokens = self.shape.tokens[spot.group]
        size = run * self.shape.row * len(self.shape.tokens)
        first, last = spot.position * tokens, (spot.position + run) * tokens
        return self.limits.learning.decide(size, first, last).load
