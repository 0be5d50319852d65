"""Index and bucket together, one chunk at a time: what must be true of both after each step, whatever fails between.

An object is never without a row in the index: the row is written (pending) before the PUT, and dropped after the
DELETE. So a crash or a lost answer leaves rows to settle, never bytes that nobody knows of.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Condition
from time import monotonic

from obstore.exceptions import AlreadyExistsError, BaseError

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Buffer, Done, ReadError, Record, Removal, Why
from kvctl.store.guard import Guard
from kvctl.store.holds import InForce
from kvctl.store.s3.bucket import DELETE_BATCH, Bucket, reason, scope_digest
from kvctl.store.s3.health import Health
from kvctl.store.s3.index import Index
from kvctl.store.s3.reading import WrongObjectError, stream_into
from kvctl.store.s3.rows import Entry, State, as_header, from_header
from kvctl.types.chunks import NEVER, Scope, TierName

log = logging.getLogger(__name__)

VERSIONED = "the bucket keeps versions: what is deleted would stay in it"
Name = tuple[bytes, bytes]  # scope digest, key


def is_expired(record: Record, now: float) -> bool:
    return record.meta.expires_at != NEVER and record.meta.expires_at <= now


def stays(held: InForce, scope: Scope, entry: Entry) -> bool:
    """Whether a row is a chunk that must not go. One in quarantine is none: its object is not what was written."""
    return entry.state in (State.LIVE, State.PENDING) and held(scope, entry.record.key, entry.record.meta)


@dataclass(slots=True)
class Writing:
    """A chunk that was taken and is not stored yet."""

    scope: Scope
    record: Record
    buffer: Buffer
    done: Done
    cancelled: bool = False


class Objects:
    """`clock` gives Unix seconds."""

    def __init__(
        self, tier: TierName, bucket: Bucket, index: Index, health: Health, clock: Callable[[], float], guard: Guard
    ) -> None:
        self.tier = tier
        self.guard = guard
        self.bucket = bucket
        self.index = index
        self.health = health
        self.clock = clock
        self.counters: Counter[str] = Counter()
        self.changed = Condition()  # guards what follows
        self.writing: dict[Name, Writing] = {}
        self.asked: dict[Name, int] = {}  # not yet written down
        self._deleting: set[Name] = set()
        self._late: dict[Name, float] = {}  # a PUT without an answer may still land until then

    def fetch(self, digest: bytes, record: Record, target: memoryview, arrived: Callable[[int], None]) -> None:
        """Read an object whole; ReadError when it is not there, not what was written, or not to be had."""
        try:
            stream_into(self.bucket.get(self.bucket.name(digest, record.key)), target, record.checksum, arrived)
        except WrongObjectError:
            self._put_away(digest, record, State.QUARANTINED, "quarantined")
            raise
        except (BaseError, OSError) as error:
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
                # Doomed, not dropped: should the cluster only have lost sight of it, it is deleted when it is back.
                self._put_away(digest, record, State.DOOMED, "missing")
                raise ReadError("the object is gone") from error
            self.health.read_failed(reason(error))
            raise ReadError(reason(error)) from error
        self.health.served()

    def _put_away(self, digest: bytes, record: Record, state: State, why: str) -> None:
        if self.index.change(digest, record, state):
            held = self.index.holdings().get(digest)
            if held is not None and held.scope is not None:
                left = Why.QUARANTINED if state is State.QUARANTINED else Why.LOST
                self.guard.gone(self.tier, held.scope, [record], Removal(left))
            self.counters[why] += 1
            log.warning("object %s is %s; it answers MISS", self.bucket.name(digest, record.key), why)

    def store(self, scope: Scope, digest: bytes, record: Record, body: memoryview) -> PutStatus:
        """Write an object and its row. STORED: both are there; EXISTS: another object of this name was found."""
        name = self.bucket.name(digest, record.key)
        known = self.index.get(digest, record.key) is not None
        with self.guard.deciding() as held:
            if self.index.begin(digest, record, scope, partial(stays, held, scope)) is not None:
                return PutStatus.EXISTS
        try:
            version = self._put(name, body, record, create=not known)
        except AlreadyExistsError:
            return self._adopt(scope, digest, record, body)
        except (BaseError, OSError) as error:
            return self._unanswered(digest, record, error)
        return self._answered(digest, record, version)

    def _put(self, name: str, body: memoryview, record: Record, *, create: bool) -> str | None:
        version = self.bucket.put(name, body, as_header(record), create=create)
        self.health.served()
        return version

    def _answered(self, digest: bytes, record: Record, version: str | None) -> PutStatus:
        if version is not None:
            self.health.enter("failed", VERSIONED)
        state = State.LIVE if version is None else State.DOOMED
        self.index.put(digest, record, state)
        return PutStatus.STORED if state is State.LIVE else PutStatus.FAILED

    def _unanswered(self, digest: bytes, record: Record, error: Exception) -> PutStatus:
        with self.changed:
            self._late[digest, record.key] = monotonic() + self.bucket.settings.request_seconds
        self.index.put(digest, record, State.DOOMED)
        self.health.write_failed(reason(error))
        return PutStatus.FAILED

    def _adopt(self, scope: Scope, digest: bytes, record: Record, body: memoryview) -> PutStatus:
        """There is an object that the index did not know: ours, when an answer was lost, or of an index that was."""
        name = self.bucket.name(digest, record.key)
        try:
            size, header = self.bucket.head(name)
            found = from_header(record.key, header, size)
            if found is None or (is_expired(found, self.clock()) and not self._is_held(scope, found)):
                return self._answered(digest, record, self._put(name, body, record, create=False))
        except (BaseError, OSError) as error:
            return self._unanswered(digest, record, error)
        self.index.put(digest, found, State.LIVE)
        if found.checksum == record.checksum:
            return PutStatus.STORED
        self.counters["adopted"] += 1
        return PutStatus.EXISTS

    def _is_held(self, scope: Scope, record: Record) -> bool:
        return self.guard.holds.now(scope, record.key, record.meta)

    def begin(self, writing: Writing) -> PutStatus:
        """Take a chunk for writing; STORED when it was taken, else why not."""
        digest, record = scope_digest(writing.scope), writing.record
        name = (digest, record.key)
        with self.changed:
            if name in self.writing or self.index.readable(digest, [record.key], self.clock())[0]:
                return PutStatus.EXISTS
            there = self.index.get(digest, record.key) if self.guard.holds.now.touches(writing.scope) else None
            if there is not None and stays(self.guard.holds.now, writing.scope, there):
                return PutStatus.EXISTS
            if name in self._deleting:
                return PutStatus.BUSY
            self.writing[name] = writing
        return PutStatus.STORED

    def finish(self, writing: Writing) -> None:
        with self.changed:
            del self.writing[scope_digest(writing.scope), writing.record.key]
            self.changed.notify_all()

    def cancel(self, digest: bytes, chosen: Callable[[Record], bool]) -> None:
        """Turn writes under way into failures, and wait for their end; what they left is to be doomed by the caller."""
        with self.changed:
            found = {name: one for name, one in self.writing.items() if name[0] == digest and chosen(one.record)}
            for one in found.values():
                one.cancelled = True
                one.buffer.wipe()
            self.changed.wait_for(lambda: not any(self.writing.get(name) is one for name, one in found.items()))

    def note_recency(self) -> None:
        with self.changed:
            asked, self.asked = self.asked, {}
        if asked:
            self.index.touch(asked)

    def doom(self, scope: Scope, digest: bytes, keys: Sequence[bytes], removal: Removal) -> list[Entry]:
        """Forget chunks, except held ones; their objects go with the next `purge`. What the others were until now.

        Every removal of a chunk that is whole comes through here.
        """
        with self.guard.deciding() as held:

            def kept(entry: Entry) -> bool:
                found = not removal.release and stays(held, scope, entry)
                if found:
                    removal.held.add((scope, entry.record.key))
                return found

            before = self.index.mark(digest, keys, State.DOOMED, kept)
        self.guard.gone(self.tier, scope, [entry.record for entry in before if entry.state is State.LIVE], removal)
        return before

    def purge(self, digest: bytes, keys: Iterable[bytes]) -> None:
        """Delete the objects of doomed rows, then the rows; not those that a late PUT could bring back.

        Raises BaseError or OSError; what is left stays doomed.
        """
        wanted = list(keys)
        for first in range(0, len(wanted), DELETE_BATCH):
            claimed = self._claim(digest, wanted[first : first + DELETE_BATCH])
            try:
                self.bucket.delete([self.bucket.name(digest, key) for key in claimed])
                self.index.drop(digest, claimed, State.DOOMED)
                with self.changed:
                    for key in claimed:
                        self._late.pop((digest, key), None)
            finally:
                self._unclaim(digest, claimed)

    def purge_all(self, digest: bytes, keys: Iterable[bytes]) -> None:
        """Purge until none of the keys is doomed: waits for others who delete, and for PUTs that could arrive late."""
        left = list(keys)
        while left := [key for key in left if self._is_doomed(digest, key)]:
            self.settle(digest, left)
            self.purge(digest, left)

    def _is_doomed(self, digest: bytes, key: bytes) -> bool:
        entry = self.index.get(digest, key)
        return entry is not None and entry.state is State.DOOMED

    def empty(self, scope: Scope, digest: bytes) -> None:
        """Delete every object under a scope's name until none is listed, known to the index or not; held ones stay."""
        while keys := [
            key for key, size in self.bucket.listing(digest) if not self._must_stay(scope, digest, key, size)
        ]:
            self.bucket.delete([self.bucket.name(digest, key) for key in keys])

    def _must_stay(self, scope: Scope, digest: bytes, key: bytes, size: int) -> bool:
        """Whether an object under a scope's name is held; one that says nothing is, when a hold could mean it."""
        held = self.guard.holds.now
        if not held.touches(scope):
            return False
        entry = self.index.get(digest, key)
        if entry is not None:
            return stays(held, scope, entry)
        size, header = self.bucket.head(self.bucket.name(digest, key))
        record = from_header(key, header, size)
        return record is None or held(scope, key, record.meta)

    def _claim(self, digest: bytes, keys: Sequence[bytes]) -> list[bytes]:
        """The keys that are doomed, not late, and that nobody writes or deletes now; their writes are turned away."""
        claimed: list[bytes] = []
        with self.changed:
            for key in keys:
                name = (digest, key)
                free = name not in self._deleting and name not in self.writing and not self._is_late(name)
                if free and self._is_doomed(digest, key):
                    claimed.append(key)
                    self._deleting.add(name)
        return claimed

    def _unclaim(self, digest: bytes, keys: Iterable[bytes]) -> None:
        with self.changed:
            self._deleting.difference_update((digest, key) for key in keys)
            self.changed.notify_all()

    def _is_late(self, name: Name) -> bool:
        """Whether a PUT of this name, given up here, could still arrive at the cluster."""
        return self._late.get(name, 0.0) > monotonic()

    def settle(self, digest: bytes, keys: Iterable[bytes]) -> None:
        """Return when nobody writes or deletes these keys any more and no PUT of them can still arrive."""
        names = [(digest, key) for key in keys]
        with self.changed:
            self.changed.wait_for(lambda: not any(name in self._deleting or name in self.writing for name in names))
            end = max((self._late.get(name, 0.0) for name in names), default=0.0)
            while (left := end - monotonic()) > 0:
                self.changed.wait(left)
