"""Which chunks a mount holds, and where: one LMDB environment, every commit synced.

LMDB never writes over a page that its last commit refers to, so a power cut leaves the last commit whole. Old pages
keep their bytes, though: after an erasure `compact` writes the live entries to a new file and drops the old one.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Condition, RLock
from typing import cast

import lmdb

from kvctl.store.api import Usage
from kvctl.store.files import overwrite, sync
from kvctl.store.segments.known import Known
from kvctl.store.segments.layout import (
    EXPIRY_AT,
    NO_END,
    NUMBER_BYTES,
    SUBJECT_KEY,
    U64,
    Entry,
    Place,
    expires_at,
    number_key,
    split_expiry,
    split_place,
    subject_key,
    unpack_entry,
    unpack_scope,
)
from kvctl.types.chunks import KEY_BYTES, Scope

MAP_SIZE = 64 << 30  # address space, not memory: about 200 million entries
READERS = 2048
READ_BYTES = 4 << 20
NAMES = (b"entries", b"subjects", b"expiry", b"scopes", b"segments", b"holes", b"quarantine", b"state")


class Index:
    """The index of one mount, below `directory`. Reads may go on from any thread while one changes it."""

    def __init__(self, directory: Path) -> None:
        self.writing = RLock()  # held over a change, and over what must not be mixed with one
        self.numbers: dict[Scope, int] = {}
        self.scopes: dict[int, Scope] = {}
        self.usage: dict[int, Usage] = {}
        self.known = Known()
        self._directory = directory
        self._gate = Condition()
        self._readers = 0
        self._swapping = False
        self._generation = self._newest()
        _read_through(self._path(self._generation))
        self._open()
        self._load_scopes()

    @contextlib.contextmanager
    def read(self) -> Iterator[lmdb.Transaction]:
        """A snapshot to read from. Raises OSError; waits only while a compacted file takes the old one's place."""
        with self._gate:
            while self._swapping:
                self._gate.wait()
            self._readers += 1
        try:
            with self.failures(), self.env.begin() as transaction:
                yield transaction
        finally:
            with self._gate:
                self._readers -= 1
                if not self._readers:
                    self._gate.notify_all()

    def get(self, scope: Scope, key: bytes) -> Entry | None:
        number = self.numbers.get(scope)
        if number is None:
            return None
        with self.read() as transaction:
            value = transaction.get(number_key(number) + key, db=self.dbs[b"entries"])
        return None if value is None else unpack_entry(scope, key, bytes(value))

    def present(self, scope: Scope, keys: Sequence[bytes], now: float) -> set[bytes]:
        """Which of the keys are here and not expired."""
        number = self.numbers.get(scope)
        if number is None:
            return set()
        if self.known.complete:
            return self.known.present(number, keys, now)
        prefix = number_key(number)
        with self.read() as transaction, transaction.cursor(self.dbs[b"entries"]) as cursor:
            found = cast(list[tuple[bytes, bytes]], cursor.getmulti([prefix + key for key in sorted(keys)]))
        return {
            name[NUMBER_BYTES:]
            for name, value in found
            if value[EXPIRY_AT : EXPIRY_AT + 8] == NO_END or expires_at(value) > now
        }

    def recall(self) -> None:
        """Read every name into memory. Commits wait; look-ups go on."""
        with self.writing, self.read() as transaction, transaction.cursor(self.dbs[b"entries"]) as cursor:
            self.known.load(
                (int.from_bytes(name[:NUMBER_BYTES], "big"), name[NUMBER_BYTES:], expires_at(value))
                for name, value in _rows(cursor)
            )

    def walk(self, scope: Scope, after: bytes = b"", step: int = 1000) -> Iterator[Entry]:
        """A scope's chunks in key order behind `after`; a snapshot lasts `step` entries, never the whole walk."""
        number = self.numbers.get(scope)
        while number is not None:
            page = self._page(b"entries", number_key(number), after, step)
            for name, value in page:
                yield unpack_entry(scope, name[-KEY_BYTES:], value)
            if len(page) < step:
                return
            after = page[-1][0][-KEY_BYTES:]

    def of_subject(self, scope: Scope, subject: bytes, limit: int, after: bytes = b"") -> list[bytes]:
        """Keys of a subject's chunks, behind `after`."""
        number = self.numbers.get(scope)
        if number is None:
            return []
        page = self._page(b"subjects", subject_key(number, subject, b""), after, limit)
        return [name[-KEY_BYTES:] for name, _ in page if len(name) == SUBJECT_KEY]

    def expired(self, now: float, limit: int, after: bytes = b"") -> tuple[dict[Scope, list[bytes]], bytes]:
        """Chunks whose end has come, the oldest first behind `after`, at most `limit`; where to go on, if at all."""
        found: dict[Scope, list[bytes]] = {}
        page = self._page(b"expiry", b"", after, limit)
        for name, _ in page:
            at, number, key = split_expiry(name)
            if at > now:
                return found, b""
            found.setdefault(self.scopes[number], []).append(key)
        return found, page[-1][0] if len(page) == limit else b""

    def quarantined(self, scope: Scope | None = None) -> list[Entry]:
        """Chunks whose bytes were wrong, kept for inspection; they answer as absent."""
        with self.read() as transaction, transaction.cursor(self.dbs[b"quarantine"]) as cursor:
            rows = [(self.scopes[int.from_bytes(name[:4], "big")], name[4:], value) for name, value in _rows(cursor)]
        return [unpack_entry(owner, key, value) for owner, key, value in rows if scope in (None, owner)]

    def quarantined_one(self, scope: Scope, key: bytes) -> Entry | None:
        number = self.numbers.get(scope)
        if number is None:
            return None
        with self.read() as transaction:
            value = transaction.get(number_key(number) + key, db=self.dbs[b"quarantine"])
        return None if value is None else unpack_entry(scope, key, bytes(value))

    def holes(self) -> dict[Place, int]:
        """What is to be punched: freed by a commit, and not known to be punched."""
        with self.read() as transaction, transaction.cursor(self.dbs[b"holes"]) as cursor:
            return {split_place(name): U64.unpack(value)[0] for name, value in _rows(cursor)}

    def segments(self) -> dict[int, tuple[int, int]]:
        """Segment -> (live bytes, live chunks)."""
        with self.read() as transaction, transaction.cursor(self.dbs[b"segments"]) as cursor:
            return {
                int.from_bytes(name, "big"): (U64.unpack_from(value)[0], U64.unpack_from(value, 8)[0])
                for name, value in _rows(cursor)
            }

    def watermark(self) -> tuple[Place, int]:
        """(where replay begins, the next record's sequence number)."""
        with self.read() as transaction:
            mark = transaction.get(b"watermark", db=self.dbs[b"state"])
            sequence = transaction.get(b"sequence", db=self.dbs[b"state"])
        if mark is None or sequence is None:
            return Place(1, 0), 1
        return split_place(bytes(mark)), U64.unpack(sequence)[0]

    def compact(self) -> None:
        """Write the live rows to a new file, put it in the old one's place, and overwrite the old one.

        Row by row: LMDB's own compacting copy takes pages over as they are, with what was deleted in their gaps.
        A crash leaves either file; both say the same, because nothing changes meanwhile.
        """
        with self.writing:
            target = self._path(self._generation + 1)
            draft = target.with_suffix(".tmp")
            _forget(draft)
            with self.failures():
                self._copy_rows(draft)
            draft.rename(target)
            sync(self._directory)
            self._swap()
            self._remove_others()

    def _copy_rows(self, draft: Path) -> None:
        fresh = lmdb.open(str(draft), MAP_SIZE, subdir=False, mode=0o600, max_dbs=len(NAMES), lock=False, sync=False)
        try:
            for name in NAMES:
                target = fresh.open_db(name)
                with self.read() as old, old.cursor(self.dbs[name]) as cursor, fresh.begin(write=True) as new:
                    new.cursor(target).putmulti(_rows(cursor), append=True)
            fresh.sync(True)
        finally:
            fresh.close()

    def close(self) -> None:
        with self.writing, self._gate:
            while self._readers:
                self._gate.wait()
            self.env.close()

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """LMDB's errors as OSError: to a mount they are one thing with the errors of its segments."""
        try:
            yield
        except lmdb.MapFullError as full:
            raise OSError(errno.ENOSPC, f"the index is full: {full}") from full
        except lmdb.Error as failed:
            number = errno.ENOSPC if os.strerror(errno.ENOSPC) in str(failed) else errno.EIO
            raise OSError(number, f"index: {failed}") from failed

    def _page(self, db: bytes, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Up to `limit` rows whose names begin with `prefix`, behind `prefix + after`."""
        start = prefix + after
        with self.read() as transaction, transaction.cursor(self.dbs[db]) as cursor:
            if not cursor.set_range(start):
                return []
            if after and cursor.key() == start and not cursor.next():
                return []
            return [(name, value) for name, value in islice(_rows(cursor), limit) if name.startswith(prefix)]

    def _path(self, generation: int) -> Path:
        return self._directory / f"index-{generation:08d}.mdb"

    def _newest(self) -> int:
        """The highest generation that is whole: a draft becomes one by its rename."""
        found = [int(path.stem[6:]) for path in self._directory.glob("index-*.mdb")]
        return max(found, default=1)

    def _open(self) -> None:
        path = self._path(self._generation)
        with self.failures():
            self.env = lmdb.open(
                str(path), MAP_SIZE, subdir=False, mode=0o600, max_dbs=len(NAMES), max_readers=READERS, readahead=False
            )
            self.dbs = {name: self.env.open_db(name) for name in NAMES}

    def _swap(self) -> None:
        with self._gate:
            self._swapping = True
            while self._readers:
                self._gate.wait()
            try:
                self.env.close()
                self._generation += 1
                self._open()
            finally:
                self._swapping = False
                self._gate.notify_all()

    def _remove_others(self) -> None:
        kept = {self._path(self._generation).name, self._path(self._generation).name + "-lock"}
        for path in self._directory.glob("index-*"):
            if path.name not in kept:
                _forget(path)
        sync(self._directory)

    def _load_scopes(self) -> None:
        self._remove_others()
        with self.read() as transaction, transaction.cursor(self.dbs[b"scopes"]) as cursor:
            for name, value in _rows(cursor):
                scope, size, chunks = unpack_scope(value)
                number = int.from_bytes(name, "big")
                self.numbers[scope], self.scopes[number] = number, scope
                self.usage[number] = Usage(size, chunks)


def _rows(cursor: lmdb.Cursor) -> Iterator[tuple[bytes, bytes]]:
    """(name, value) from where the cursor is, or from the first one."""
    return cast(Iterator[tuple[bytes, bytes]], cursor.iternext())


def _forget(path: Path) -> None:
    """Overwrite an index file that nobody needs any more, then remove it."""
    if path.exists():
        overwrite(path)
        path.unlink()


def _read_through(path: Path) -> None:
    """Raises OSError for what the drive cannot read: in LMDB's mapping that would be SIGBUS, the end of the process."""
    if path.exists():
        with path.open("rb", buffering=0) as file:
            part = bytearray(READ_BYTES)
            while file.readinto(part):
                pass
