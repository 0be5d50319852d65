"""api.Tier over a bucket of an S3-compatible cluster."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from obstore.exceptions import BaseError

from kvctl.connector.wire import PutStatus
from kvctl.store.api import (
    Buffer,
    Done,
    Found,
    PlaceStat,
    Reading,
    Record,
    Removal,
    Scrubbed,
    TierStat,
    Usage,
    Why,
)
from kvctl.store.api import State as Kept
from kvctl.store.buffers import BufferPool, NoRoomError
from kvctl.store.guard import Guard
from kvctl.store.ram import RamReading
from kvctl.store.s3 import rebuild, scrub, upkeep
from kvctl.store.s3.bucket import Bucket, Settings, reason, scope_digest
from kvctl.store.s3.files import DirectoryLock
from kvctl.store.s3.health import Health
from kvctl.store.s3.index import MAP_BYTES, Index
from kvctl.store.s3.objects import VERSIONED, Objects, Writing, is_expired
from kvctl.store.s3.reading import ObjectReading
from kvctl.store.s3.rows import Entry, State
from kvctl.store.s3.workers import Workers
from kvctl.types.chunks import NO_SUBJECT, Scope, TierName
from kvctl.types.errors import RefusedError, UnreachableError

log = logging.getLogger(__name__)


class S3Tier:
    """Sealed chunks as objects named by scope digest and key; what is where, in an index in `directory`.

    An endpoint that is away does not keep it from opening: it answers MISS and FAILED until a probe succeeds.
    `clock` gives Unix seconds. Raises UsageError for settings and credentials, LockedError KV-STORE-306 when another
    process has the directory, RefusedError KV-STORE-304 for a bucket that keeps versions.
    """

    def __init__(
        self,
        settings: Settings,
        name: TierName,
        capacity: int,
        directory: Path,
        pool: BufferPool,
        clock: Callable[[], float] = time.time,
        map_bytes: int = MAP_BYTES,
        guard: Guard | None = None,
    ) -> None:
        self.name = name
        self._guard = guard or Guard()
        self._swept = b""  # where the sweep of expired chunks goes on
        self._capacity = capacity
        self._pool = pool
        self._settings = settings
        bucket = Bucket(settings)
        self._lock = DirectoryLock(directory)
        self._index = Index(directory, map_bytes)
        self.fresh = self._index.fresh  # a new index: what the bucket holds is not known before `reindex`
        self._objects = Objects(name, bucket, self._index, Health(settings.bucket), clock, self._guard)
        self._named: set[bytes] = set()
        self._closed = False
        self._check_bucket()
        self._readers = Workers(f"{name}-read", settings.readers, settings.queued)
        self._writers = Workers(f"{name}-write", settings.writers, settings.queued)
        self._answers = Workers(f"{name}-answer", 1, 1 << 20)
        self._upkeep = upkeep.Upkeep(self._objects)

    def _check_bucket(self) -> None:
        upkeep.abandon(self._objects)
        upkeep.probe(self._objects)
        if self._objects.health.why == VERSIONED:
            self._index.close()
            self._lock.release()
            raise RefusedError(
                "KV-STORE-304",
                "the object tier's bucket keeps versions",
                where=f"{self._settings.endpoint} {self._settings.bucket}",
                why="an object that is deleted would stay in it as an older version: erasure would be a lie",
                fix="suspend versioning and remove the versions, or give a bucket without it",
            )

    def _digest(self, scope: Scope) -> bytes:
        """The scope's digest; the first call after `reindex` tells the index whose it is."""
        digest = scope_digest(scope)
        if digest not in self._named:
            self._named.add(digest)
            self._index.name(scope)
        return digest

    def has(self, scope: Scope, keys: Sequence[bytes]) -> list[bool]:
        if not self._objects.health.readable:
            return [False] * len(keys)
        digest, now, writing = self._digest(scope), self._objects.clock(), self._objects.writing
        # Writing first: a chunk that is stored in between is then found in the index.
        pending = [self._pending(digest, key) is not None for key in keys] if writing else None
        stored = self._index.readable(digest, keys, now)
        return [any(pair) for pair in zip(pending, stored, strict=True)] if pending else stored

    def _pending(self, digest: bytes, key: bytes) -> Writing | None:
        writing = self._objects.writing.get((digest, key))
        return None if writing is None or is_expired(writing.record, self._objects.clock()) else writing

    def record(self, scope: Scope, key: bytes) -> Record | None:
        digest = self._digest(scope)
        if (writing := self._pending(digest, key)) is not None:
            return writing.record
        entry = self._index.get(digest, key)
        return entry.record if entry is not None and entry.state is State.LIVE else None

    def read(self, scope: Scope, key: bytes) -> Reading | None:
        """See api.Tier. A chunk whose object is missing or wrong raises ReadError with the first piece."""
        digest = self._digest(scope)
        if (reading := self._read_pending(digest, key)) is not None:
            return reading
        entry = self._index.get(digest, key)
        if entry is None or entry.state is not State.LIVE or is_expired(entry.record, self._objects.clock()):
            return None
        if not self._objects.health.readable:
            self._objects.counters["refused"] += 1
            return None
        return self._start(digest, entry.record)

    def fetch(self, scope: Scope, key: bytes) -> int:
        """See api.Tier. What a bucket gives is not kept in memory."""
        return 0

    def _read_pending(self, digest: bytes, key: bytes) -> Reading | None:
        with self._objects.changed:  # the writer lets go of its buffer only after it left this table
            writing = self._pending(digest, key)
            return None if writing is None else RamReading(writing.buffer, self.name)

    def _start(self, digest: bytes, record: Record) -> ObjectReading:
        return ObjectReading(
            record.length,
            self.name,
            self._settings.request_seconds,
            partial(self._pool.take, record.length),
            partial(self._fetch, digest, record),
        )

    def _fetch(self, digest: bytes, record: Record, reading: ObjectReading) -> None:
        buffer = reading.target()

        def job() -> None:
            error: Exception | None = None
            try:
                self._objects.fetch(digest, record, buffer.body, reading.arrived)
            except Exception as failed:  # noqa: BLE001  raised to the one who reads
                error = failed
            finally:
                buffer.release()
                reading.ended(error)

        if not self._readers.submit(job):
            buffer.release()
            reading.ended(NoRoomError("too many reads of the object store are waiting"))

    def write(self, scope: Scope, record: Record, buffer: Buffer, *, durable: bool, done: Done) -> None:
        """See api.Tier. Visible and durable are one here: the cluster's answer to the PUT."""
        if len(buffer.body) != record.length:
            raise ValueError(f"a record of {record.length} bytes for a buffer of {len(buffer.body)}")
        self._digest(scope)
        writing = Writing(scope, record, buffer, done)
        status = self._refusal(record) or self._objects.begin(writing)
        if status is PutStatus.STORED:
            buffer.retain()
            if self._writers.submit(partial(self._write, writing)):
                return
            self._objects.finish(writing)
            buffer.release()
            status = PutStatus.BUSY
        self._answers.submit(partial(done, status))

    def _refusal(self, record: Record) -> PutStatus | None:
        if self._closed or not self._objects.health.writable:
            return PutStatus.FAILED
        if is_expired(record, self._objects.clock()):
            return PutStatus.EXPIRED
        if self._index.used + record.length > self._capacity:
            return PutStatus.FULL
        return None

    def _write(self, writing: Writing) -> None:
        status = PutStatus.FAILED
        try:
            if not writing.cancelled and self._objects.health.writable:
                digest = scope_digest(writing.scope)
                status = self._objects.store(writing.scope, digest, writing.record, writing.buffer.body)
        finally:
            self._objects.finish(writing)
            writing.buffer.release()
            writing.done(PutStatus.FAILED if writing.cancelled else status)

    def touch(self, scope: Scope, keys: Sequence[bytes]) -> None:
        """See api.Tier. Kept in memory for a few seconds: a crash forgets the last."""
        digest, now = self._digest(scope), int(self._objects.clock())
        with self._objects.changed:
            self._objects.asked.update(((digest, key), now) for key in keys)

    def by_recency(self) -> Iterator[tuple[Scope, Record]]:
        """See api.Tier. One that is asked for meanwhile may come twice."""
        self._objects.note_recency()
        yield from self._with_names(self._index.by_recency())

    def _with_names(self, rows: Iterable[tuple[bytes, Entry]]) -> Iterator[tuple[Scope, Record]]:
        names = {digest: held.scope for digest, held in self._index.holdings().items()}
        for digest, entry in rows:
            scope = names.get(digest)
            if scope is not None and entry.state is State.LIVE:
                yield scope, entry.record

    def found(self, scope: Scope, key: bytes) -> Found | None:
        """See api.Tier."""
        digest = scope_digest(scope)  # this is asked inside changes of the index: it makes none
        if (writing := self._objects.writing.get((digest, key))) is not None:
            return Found(writing.record, Kept.LIVE)
        entry = self._index.get(digest, key)
        if entry is None:
            return None
        if entry.state is State.LIVE:
            return Found(entry.record, Kept.EXPIRED if is_expired(entry.record, self._objects.clock()) else Kept.LIVE)
        return Found(entry.record, Kept.QUARANTINED if entry.state is State.QUARANTINED else Kept.DELETING)

    def expire(self, limit: int) -> list[tuple[Scope, Record]]:
        """See api.Tier. Those of scopes that nobody has named since `reindex` go too, but are not told.

        While there are holds they stay: nobody knows whose they are.
        """
        rows, self._swept = self._index.expired(self._objects.clock(), limit, self._swept)
        names = {digest: held.scope for digest, held in self._index.holdings().items()}
        removal = Removal(Why.EXPIRED)
        for digest in {digest for digest, _ in rows}:
            keys = [entry.record.key for owner, entry in rows if owner == digest]
            scope = names.get(digest)
            if scope is not None:
                self._remove(scope, digest, keys, removal)
            elif not self._guard.holds.now.given.holds:
                self._index.mark(digest, keys, State.DOOMED)
                self._purge(digest, keys)
        return removal.gone

    def remove(self, scope: Scope, keys: Sequence[bytes], removal: Removal | None = None) -> int:
        """See api.Tier. Objects that cannot be deleted now are deleted when the endpoint is back."""
        digest, wanted = self._digest(scope), set(keys)
        removal = removal or Removal(Why.REMOVED)
        self._cancel(scope, digest, lambda record: record.key in wanted, removal)
        return self._remove(scope, digest, keys, removal)

    def _cancel(self, scope: Scope, digest: bytes, chosen: Callable[[Record], bool], removal: Removal) -> None:
        """Turn writes of chosen chunks into failures, except of held ones."""
        with self._guard.deciding() as held:

            def gone(record: Record) -> bool:
                return removal.release or not held(scope, record.key, record.meta)

            self._objects.cancel(digest, lambda record: chosen(record) and gone(record))

    def _remove(self, scope: Scope, digest: bytes, keys: Sequence[bytes], removal: Removal) -> int:
        before = self._objects.doom(scope, digest, keys, removal)
        self._purge(digest, [entry.record.key for entry in before])
        return sum(entry.state is State.LIVE for entry in before)

    def _purge(self, digest: bytes, keys: Sequence[bytes]) -> None:
        if self._objects.health.writable:  # else upkeep does it when the endpoint is back
            try:
                self._objects.purge(digest, keys)
            except (BaseError, OSError) as error:
                self._objects.health.write_failed(reason(error))

    def walk(self, scope: Scope | None = None, after: bytes = b"") -> Iterator[tuple[Scope, Record]]:
        """See api.Tier. Without a scope, those that nobody has named since `reindex` are left out."""
        if scope is None:
            yield from self._with_names(self._index.every(None, after))
            return
        for _, entry in self._index.every(self._digest(scope), after):
            if entry.state is State.LIVE:
                yield scope, entry.record

    def scopes(self) -> dict[Scope, Usage]:
        """What named scopes hold, if only something to be deleted; `stat` counts the others as `unnamed_scopes`."""
        return {held.scope: held.live for held in self._index.holdings().values() if held.scope}

    def known(self) -> set[Scope]:
        """See api.Tier."""
        return set(self.scopes())

    def erase_keys(self, scope: Scope, keys: Sequence[bytes], removal: Removal | None = None) -> int:
        """See api.Tier. Raises UnreachableError KV-STORE-305 when objects are left: a second call goes on."""
        wanted = frozenset(keys)
        return self._erase(scope, lambda record: record.key in wanted, removal, whole=False)

    def erase_subject(self, scope: Scope, subject: bytes, removal: Removal | None = None) -> int:
        """See api.Tier. Raises UnreachableError KV-STORE-305 when objects are left: a second call goes on."""
        if subject == NO_SUBJECT:
            raise ValueError("16 zero bytes stand for no subject")
        return self._erase(scope, lambda record: record.meta.subject == subject, removal, whole=False)

    def erase_scope(self, scope: Scope, removal: Removal | None = None) -> int:
        """See api.Tier. Objects under the scope's name that the index does not know go as well.

        Raises UnreachableError KV-STORE-305 when objects are left: a second call goes on.
        """
        return self._erase(scope, lambda _: True, removal, whole=True)

    def _erase(self, scope: Scope, chosen: Callable[[Record], bool], removal: Removal | None, *, whole: bool) -> int:
        removal = removal or Removal(Why.ERASED)
        digest = self._digest(scope)
        self._cancel(scope, digest, chosen, removal)
        keys = [entry.record.key for _, entry in self._index.every(digest) if chosen(entry.record)]
        before = self._objects.doom(scope, digest, keys, removal)
        try:
            self._objects.purge_all(digest, [entry.record.key for entry in before])
            if whole:
                self._objects.empty(scope, digest)
        except (BaseError, OSError) as error:
            self._objects.health.write_failed(reason(error))
            raise self._unreachable(
                "KV-STORE-305",
                "objects that are to be erased cannot be deleted",
                reason(error),
                fix="they answer MISS already; erase again when the endpoint serves",
            ) from error
        # Also without a row now: those that were evicted before may have left their values behind.
        self._index.rebuild()
        return sum(is_chunk(entry) for entry in before)

    def _unreachable(self, code: str, what: str, why: str, fix: str) -> UnreachableError:
        return UnreachableError(
            code, what, where=f"{self._settings.endpoint} {self._settings.bucket}", why=why, fix=fix
        )

    def scrub(self, stop: Callable[[], bool]) -> Scrubbed:
        """See api.Tier; a chunk whose object is gone counts as bad.

        Raises ReadError when the endpoint fails: what was not read is neither good nor bad.
        """
        return scrub.run(self._objects, self.walk(), self._pool, stop)

    def reindex(self, known: Iterable[Scope] = ()) -> rebuild.Reindexed:
        """Compare bucket and index: rows for objects that it does not know, none for objects that are gone.

        The bucket names no tenant: `known` are the scopes to look for by name, others wait until a call names them.
        Raises UnreachableError KV-STORE-307 when the endpoint fails; what was done until then stays done.
        """
        try:
            return rebuild.run(self._objects)
        except (BaseError, OSError) as error:
            raise self._unreachable(
                "KV-STORE-307",
                "the bucket cannot be compared with the index",
                reason(error),
                fix="try again when the endpoint serves",
            ) from error
        finally:
            self._named.clear()
            for scope in known:
                self._digest(scope)

    def stat(self) -> TierStat:
        held = self._index.holdings().values()
        health, used = self._objects.health, self._index.used
        full = health.state == "ok" and used >= self._capacity
        place = PlaceStat(self._settings.bucket, "full" if full else health.state, health.why, self._capacity, used)
        counters = dict.fromkeys(("quarantined", "missing", "refused", "adopted"), 0) | dict(self._objects.counters)
        counters |= {
            "read_errors": health.read_errors,
            "write_errors": health.write_errors,
            "undeleted": sum(one.other.chunks for one in held),
            "unnamed_scopes": sum(one.scope is None for one in held),
        }
        chunks = sum(one.live.chunks for one in held)
        return TierStat(self.name, self._capacity, used, chunks, health.writable and not full, (place,), counters)

    def flush(self) -> None:
        with self._objects.changed:
            self._objects.changed.wait_for(lambda: not self._objects.writing)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.flush()
        self._upkeep.stop()
        self._objects.note_recency()
        for workers in (self._writers, self._readers, self._answers):
            workers.close()
        self._index.close()
        self._lock.release()


def is_chunk(entry: Entry) -> bool:
    """Whether a row was a chunk until now; the others were removed before."""
    return entry.state in (State.LIVE, State.QUARANTINED)
