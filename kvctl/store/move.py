"""Move chunks from one tier to another: copy, read back, and only then remove.

At no moment is a chunk in neither tier, and a run that was cut short anywhere is finished by the next one with the same
journal. A chunk that was removed from the source meanwhile (evicted, erased) does not live on in the target; an erasure
that goes through the tiers while a move runs must go through them twice, so that it meets what is between them.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from xxhash import xxh3_128, xxh3_128_digest

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Buffer, ReadError, Record, Removal, Tier, Why
from kvctl.store.buffers import BufferPool
from kvctl.store.journal import Begun, Journal
from kvctl.types.chunks import NEVER, Scope

ROOM_SECONDS = 10.0  # how long a chunk waits for memory
ANSWER_SECONDS = 300.0  # how long a write may take; then the target is taken for broken
BUSY_SECONDS = 0.1
BUSY_TRIES = 100
FAILURES = 5  # in a row; more of the same would not help
SLICE_SECONDS = 0.2  # how late a stop may be noticed

MayRemove = Callable[[Scope, bytes], bool]
Told = Callable[[Scope, Record], None]


def nobody(scope: Scope, record: Record) -> None:
    """Hears what a run tells, when nobody else does."""


@dataclass(slots=True)
class Tally:
    """A run so far, for whoever looks on: only the run's own thread changes it."""

    moved: int = 0
    bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a run did. `skipped` and `failed`: reason -> chunks; those are still in the source. `ended`: why early."""

    moved: int = 0
    bytes: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    ended: str = ""  # "", "stopped", "target full" or "failures"


def finished(tally: Tally) -> Moved:
    return Moved(tally.moved, tally.bytes, dict(tally.skipped), dict(tally.failed), tally.ended)


class SkippedError(Exception):
    """This chunk is not to be moved; the text says why."""


class FailedError(Exception):
    """This chunk could not be moved; the text says why. It is taken up again by the next run."""


def move(
    source: Tier,
    target: Tier,
    chunks: Iterable[tuple[Scope, bytes]],
    *,
    journal: Path,
    stop: Callable[[], bool],
    pool: BufferPool,
    may_remove: MayRemove = lambda scope, key: True,
    is_held: Callable[[Scope, Record], bool] = lambda scope, record: False,
    release: bool = False,
    on_copy: Told = nobody,
    on_no_copy: Told = nobody,
    on_settled: Callable[[Scope, bytes], object] = lambda scope, key: None,
    tally: Tally | None = None,
    pace_bytes_per_second: float | None = None,
    clock: Callable[[], float] = time.time,
    wait: Callable[[float], None] = time.sleep,
) -> Moved:
    """Move `chunks`, after what an earlier run with this journal left undone.

    `may_remove` says whether no lease protects a chunk. Held chunks stay, unless they are to be moved as well
    (`release`). `on_copy` is told of a copy before the target has it, `on_no_copy` when the target did not take it,
    `on_settled` of every chunk that was taken up, when the run is done with it: each tier says whether it has it.
    `clock` gives Unix seconds. Raises what `Journal` raises, and OSError when the journal cannot be written.
    """
    with closing(Journal(journal, source.name, target.name)) as book:
        run = _Run(
            source, target, book, stop, pool, may_remove, is_held, release, on_copy, on_no_copy, on_settled,
            clock, wait, pace_bytes_per_second, tally or Tally(),
        )  # fmt: skip
        return run.all(chunks)


@dataclass(slots=True)
class _Run:
    _source: Tier
    _target: Tier
    _book: Journal
    _stop: Callable[[], bool]
    _pool: BufferPool
    _may_remove: MayRemove
    _is_held: Callable[[Scope, Record], bool]
    _release: bool
    _on_copy: Told
    _on_no_copy: Told
    _on_settled: Callable[[Scope, bytes], object]
    _clock: Callable[[], float]
    _wait: Callable[[float], None]
    _pace: float | None
    _tally: Tally
    _in_a_row: int = 0  # failures

    def all(self, chunks: Iterable[tuple[Scope, bytes]]) -> Moved:
        for begun in list(self._book.open.values()):
            if self._is_over():
                break
            self._one(begun.scope, begun.key, begun)
        if not self._is_over():
            self._fresh(chunks)
        return finished(self._tally)

    def _fresh(self, chunks: Iterable[tuple[Scope, bytes]]) -> None:
        seen = {(begun.scope, begun.key) for begun in self._book.open.values()}  # these were tried just now
        for scope, key in chunks:
            if self._is_over():
                break
            if (scope, key) not in seen:
                self._one(scope, key, None)

    def _is_over(self) -> bool:
        if not self._tally.ended and self._stop():
            self._tally.ended = "stopped"
        return bool(self._tally.ended)

    def _one(self, scope: Scope, key: bytes, begun: Begun | None) -> None:
        started = time.monotonic()
        try:
            length = self._carry(scope, key, begun)
        except SkippedError as skipped:
            self._tally.skipped[str(skipped)] += 1
        except FailedError as failed:
            self._count_failure(str(failed))
        else:
            self._in_a_row = 0
            self._keep_pace(started, length)

    def _carry(self, scope: Scope, key: bytes, begun: Begun | None) -> int:
        """Move one chunk; its bytes."""
        try:
            record = self._judge(scope, key, begun)
            begun = begun or self._book.begin(scope, key)
            self._copy(begun, record)
            self._take_away(begun, record)
        finally:
            if begun is not None:
                self._on_settled(scope, key)
        return record.length

    def _count_failure(self, why: str) -> None:
        self._tally.failed[why] += 1
        self._in_a_row += 1
        if why == "target full":
            self._tally.ended = why
        elif self._in_a_row >= FAILURES:
            self._tally.ended = "failures"

    def _judge(self, scope: Scope, key: bytes, begun: Begun | None) -> Record:
        """What is to be moved. Raises SkippedError; a chunk of an earlier run that needs no more is done with."""
        record = self._source.record(scope, key)
        if record is None:
            self._settle_absent(scope, key, begun)
            raise SkippedError("not in the source")
        if record.meta.expires_at != NEVER and record.meta.expires_at <= self._clock():
            self._drop_copy(begun, "expired")
            raise SkippedError("expired")
        if not self._release and self._is_held(scope, record):
            raise SkippedError("held")
        if not self._may_remove(scope, key):
            raise SkippedError("leased")
        return record

    def _settle_absent(self, scope: Scope, key: bytes, begun: Begun | None) -> None:
        there = self._target.record(scope, key)
        if begun is not None and begun.copied and there is not None:
            # The run before this one ended between the removal and its line in the journal.
            self._book.removed(begun)
            raise SkippedError("moved before")
        self._drop_copy(begun, "not in the source")
        if begun is None and there is not None:
            raise SkippedError("moved before")

    def _drop_copy(self, begun: Begun | None, why: str) -> None:
        """Somebody took the chunk from the source: the copy of it goes as well, unless a hold has come."""
        if begun is None:
            return
        self._target.remove(begun.scope, [begun.key], Removal(Why.REMOVED))
        self._book.skipped(begun, why)

    def _copy(self, begun: Begun, record: Record) -> None:
        """Have the chunk in the target, durable and read back."""
        there = self._target.record(begun.scope, begun.key)
        if there is None:
            buffer = self._read_source(begun, record)
            try:
                self._write(begun.scope, record, buffer)
            finally:
                buffer.release()
        self._verify(begun)
        self._book.copied(begun)

    def _read_source(self, begun: Begun, record: Record) -> Buffer:
        buffer = self._pool.take(record.length, ROOM_SECONDS)
        if buffer is None:
            raise FailedError("no memory")
        try:
            if not self._fill(begun, record, buffer.body):
                raise FailedError("source unreadable")
        except BaseException:
            buffer.release()
            raise
        return buffer

    def _fill(self, begun: Begun, record: Record, body: memoryview) -> bool:
        at = 0
        try:
            reading = self._source.read(begun.scope, begun.key)
            if reading is None or reading.length != record.length:
                return False
            with closing(reading):
                for piece in reading.pieces():
                    body[at : at + len(piece)] = piece
                    at += len(piece)
        except (ReadError, OSError):
            return False
        return at == record.length and xxh3_128_digest(body) == record.checksum

    def _write(self, scope: Scope, record: Record, buffer: Buffer) -> None:
        self._on_copy(scope, record)
        try:
            self._until_taken(scope, record, buffer)
        except BaseException:
            if self._target.record(scope, record.key) is None:
                self._on_no_copy(scope, record)
            raise

    def _until_taken(self, scope: Scope, record: Record, buffer: Buffer) -> None:
        for _ in range(BUSY_TRIES):
            answer: SimpleQueue[PutStatus] = SimpleQueue()
            self._target.write(scope, record, buffer, durable=True, done=answer.put)
            try:
                status = answer.get(timeout=ANSWER_SECONDS)
            except Empty:
                raise FailedError("target does not answer") from None
            if status in (PutStatus.STORED, PutStatus.EXISTS):
                return
            if status is not PutStatus.BUSY or self._stop():
                raise FailedError(f"target {status.name.lower()}")
            self._wait(BUSY_SECONDS)
        raise FailedError("target busy")

    def _verify(self, begun: Begun) -> None:
        """Read the target's copy and compare it with what the target says that it has."""
        record = self._target.record(begun.scope, begun.key)
        digest = xxh3_128()
        try:
            reading = self._target.read(begun.scope, begun.key) if record is not None else None
            if record is None or reading is None:
                raise FailedError("copy not found")
            with closing(reading):
                for piece in reading.pieces():
                    digest.update(piece)
        except (ReadError, OSError):
            raise FailedError("copy unreadable") from None
        if digest.digest() != record.checksum:
            raise FailedError("copy differs")

    def _take_away(self, begun: Begun, record: Record) -> None:
        """Let the source go, if it still has what was copied and nobody has a lease on it."""
        now = self._source.record(begun.scope, begun.key)
        if now != record:
            why = "removed meanwhile" if now is None else "changed meanwhile"
            self._drop_copy(begun, why)
            raise SkippedError(why)
        if not self._may_remove(begun.scope, begun.key):
            raise SkippedError("leased")
        removal = Removal(Why.MOVED, release=self._release)
        self._source.remove(begun.scope, [begun.key], removal)
        if removal.held:
            raise SkippedError("held")
        self._book.removed(begun)
        self._tally.moved += 1
        self._tally.bytes += record.length

    def _keep_pace(self, started: float, length: int) -> None:
        if self._pace is None:
            return
        until = started + length / self._pace
        while (left := until - time.monotonic()) > 0 and not self._stop():
            self._wait(min(left, SLICE_SECONDS))
