"""What the object tier knows of its objects without asking the cluster: one LMDB environment on a local disk.

It can be built again from the bucket, since each object carries its record in a header. Five tables: `chunks`, scope
digest and key -> state and record; `scopes`, digest -> what the scope holds and, once somebody has said it, its name;
`unsettled`, the names of rows whose object may or may not be there; `recency` and `ends`, the names of live rows in
order of when they were asked for last and of when they expire.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from struct import Struct
from threading import Condition, Lock
from typing import Any

import lmdb
import msgspec

from kvctl.store.api import Record, Usage
from kvctl.store.files import sync
from kvctl.store.s3.bucket import scope_digest
from kvctl.store.s3.files import wipe
from kvctl.store.s3.rows import Entry, State, is_readable, pack, unpack
from kvctl.types.chunks import KEY_BYTES, NEVER, Scope

COUNTED = (State.LIVE, State.PENDING)
TABLES = (b"chunks", b"scopes", b"unsettled", b"recency", b"ends")
TALLY = Struct("<QQQQ")  # live bytes, live chunks, other bytes, other chunks; the scope's name follows
TIME_BYTES = 8  # in front of a name in `recency` and `ends`
MAP_BYTES = 32 << 30  # address space, not memory; the file grows as it fills
ROWS = 512


@dataclass(frozen=True, slots=True)
class Holding:
    """What a scope has: chunks that can be read, and bytes of objects that wait to be deleted or replaced."""

    scope: Scope | None  # None: nobody has named it since the index was built from the bucket
    live: Usage
    other: Usage


class Gate:
    """Many may use the environment at once; whoever replaces it waits until none does, and keeps them out."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._users = 0
        self._closed = False

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            while self._closed:
                self._changed.wait()
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users:
                    self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._changed:
            while self._closed:
                self._changed.wait()
            self._closed = True
            while self._users:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()


class Index:
    """Every method may be called from any thread; a change is on disk when its method returns."""

    def __init__(self, directory: Path, map_bytes: int = MAP_BYTES) -> None:
        self._at, self._new, self._old = (directory / name for name in ("index", "index.new", "index.old"))
        self._map_bytes = map_bytes
        self._gate = Gate()
        self._writing = Lock()
        self._recover()
        self.fresh = not self._at.exists()
        self._open()
        self.used = self._count_used()  # bytes of all objects, those to be deleted included
        self._dirty = True  # whether the file may hold values of rows that are gone

    def _recover(self) -> None:
        """Finish or undo a rebuild that was cut short; `index.old` exists only once `index.new` is whole."""
        if self._old.exists() and not self._at.exists():
            self._new.rename(self._at)
            sync(self._at.parent)
        for rest in (self._new, self._old):
            wipe(rest)

    def _open(self) -> None:
        self._env = environment(self._at, self._map_bytes)
        tables = [self._env.open_db(table) for table in TABLES]
        self._chunks, self._scopes, self._unsettled, self._recency, self._ends = tables

    def _count_used(self) -> int:
        return sum(held.live.size + held.other.size for held in self.holdings().values())

    def close(self) -> None:
        with self._writing, self._gate.exclusive():
            self._env.close()

    def get(self, digest: bytes, key: bytes) -> Entry | None:
        with self._gate.shared(), self._env.begin(self._chunks) as txn:
            value = txn.get(digest + key)
        return None if value is None else unpack(key, value)

    def readable(self, digest: bytes, keys: Sequence[bytes], now: float) -> list[bool]:
        """Which keys are live and not expired."""
        with self._gate.shared(), self._env.begin(self._chunks) as txn:
            return [is_readable(txn.get(digest + key), now) for key in keys]

    def rows(self, digest: bytes | None, after: bytes = b"", limit: int = ROWS) -> list[tuple[bytes, Entry]]:
        """(digest, entry) in order: of one scope behind the key `after`, or of all behind digest and key `after`."""
        start = (digest or b"") + after
        found: list[tuple[bytes, Entry]] = []
        with self._gate.shared(), self._env.begin(self._chunks) as txn, txn.cursor() as cursor:
            if not cursor.set_range(start):
                return found
            for name, value in cursor:
                if digest is not None and not name.startswith(digest):
                    break
                if name == start:
                    continue
                found.append((name[:-KEY_BYTES], unpack(name[-KEY_BYTES:], value)))
                if len(found) == limit:
                    break
        return found

    def every(self, digest: bytes | None, after: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
        """All rows, read in portions so that no transaction stays open between two of them."""
        while portion := self.rows(digest, after):
            yield from portion
            last, entry = portion[-1]
            after = entry.record.key if digest is not None else last + entry.record.key

    def holdings(self) -> dict[bytes, Holding]:
        with self._gate.shared(), self._env.begin(self._scopes) as txn, txn.cursor() as cursor:
            return {bytes(digest): holding(value) for digest, value in cursor}

    def unsettled(self, after: bytes = b"", limit: int = ROWS) -> list[tuple[bytes, bytes]]:
        """(digest, key) of rows that are pending or doomed, behind the digest and key `after`."""
        return [(name[:-KEY_BYTES], name[-KEY_BYTES:]) for name in self._in_order(self._unsettled, after, limit)]

    def by_recency(self) -> Iterator[tuple[bytes, Entry]]:
        """(digest, entry) of every live row, the one least recently asked for first."""
        after = b""
        while names := self._in_order(self._recency, after, ROWS):
            after = names[-1]
            yield from self._entries(names)

    def expired(self, now: float, limit: int, after: bytes = b"") -> tuple[list[tuple[bytes, Entry]], bytes]:
        """(digest, entry) of live rows whose end has come, the earliest first, and where to go on, if anywhere."""
        names = self._in_order(self._ends, after, limit)
        over = [name for name in names if name[:TIME_BYTES] <= time_key(int(now))]
        return self._entries(over), names[-1] if len(over) == limit else b""

    def _in_order(self, table: Any, after: bytes, limit: int) -> list[bytes]:
        with self._gate.shared(), self._env.begin(table) as txn, txn.cursor() as cursor:
            if not cursor.set_range(after + b"\0" if after else b""):
                return []
            return [bytes(name) for name in islice(cursor.iternext(values=False), limit)]

    def _entries(self, names: Sequence[bytes]) -> list[tuple[bytes, Entry]]:
        parts = [(name[TIME_BYTES:-KEY_BYTES], name[-KEY_BYTES:]) for name in names]
        found = [(digest, self.get(digest, key)) for digest, key in parts]
        return [(digest, entry) for digest, entry in found if entry is not None and entry.state is State.LIVE]

    def name(self, scope: Scope) -> None:
        """Remember whose a digest is, when something is held under it."""
        digest = scope_digest(scope)
        with self._changing() as txn:
            value = txn.get(digest, db=self._scopes)
            if value is not None and len(value) == TALLY.size:
                txn.put(digest, bytes(value) + named(scope), db=self._scopes)

    def put(self, digest: bytes, record: Record, state: State, scope: Scope | None = None) -> None:
        """Write a row, whatever was there."""
        with self._changing() as txn:
            self._set(txn, digest, record.key, Entry(record, state), scope)

    def begin(self, digest: bytes, record: Record, scope: Scope, stays: Callable[[Entry], bool]) -> Entry | None:
        """A pending row in place of what is there, unless that stays: then it is given back and nothing changes."""
        with self._changing() as txn:
            there = self._find(txn, digest, record.key)
            if there is not None and stays(there):
                return there
            self._set(txn, digest, record.key, Entry(record, State.PENDING), scope)
        return None

    def insert(self, digest: bytes, record: Record, state: State) -> bool:
        """Write a row where there was none; whether there was none."""
        with self._changing() as txn:
            if self._find(txn, digest, record.key) is not None:
                return False
            self._set(txn, digest, record.key, Entry(record, state))
        return True

    def mark(
        self, digest: bytes, keys: Sequence[bytes], state: State, stays: Callable[[Entry], bool] = lambda _: False
    ) -> list[Entry]:
        """Put existing rows into a state, except those that stay; what they were before."""
        before = []
        with self._changing() as txn:
            for key in keys:
                entry = self._find(txn, digest, key)
                if entry is not None and not stays(entry):
                    before.append(entry)
                    self._set(txn, digest, key, replace(entry, state=state))
        return before

    def change(self, digest: bytes, record: Record, state: State | None) -> bool:
        """Put a live row into another state, or drop it (None), if it still is the one that was looked at."""
        with self._changing() as txn:
            entry = self._find(txn, digest, record.key)
            if entry is None or (entry.record, entry.state) != (record, State.LIVE):
                return False
            self._set(txn, digest, record.key, None if state is None else replace(entry, state=state))
        return True

    def touch(self, asked: Mapping[tuple[bytes, bytes], int]) -> None:
        """Write down when live rows were asked for last (Unix seconds)."""
        with self._changing() as txn:
            for (digest, key), when in asked.items():
                entry = self._find(txn, digest, key)
                if entry is not None and entry.state is State.LIVE:
                    self._set(txn, digest, key, replace(entry, asked=when))

    def drop(self, digest: bytes, keys: Sequence[bytes], state: State) -> None:
        """Drop the rows that are in this state; one that a new write took over meanwhile stays."""
        with self._changing() as txn:
            for key in keys:
                entry = self._find(txn, digest, key)
                if entry is not None and entry.state is state:
                    self._set(txn, digest, key, None)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[lmdb.Transaction]:
        with self._writing:
            try:
                with self._gate.shared(), self._env.begin(write=True) as txn:
                    yield txn
            except BaseException:
                self.used = self._count_used()  # what was counted on the way was not committed
                raise

    def _find(self, txn: lmdb.Transaction, digest: bytes, key: bytes) -> Entry | None:
        value = txn.get(digest + key, db=self._chunks)
        return None if value is None else unpack(key, value)

    def _set(
        self, txn: lmdb.Transaction, digest: bytes, key: bytes, entry: Entry | None, scope: Scope | None = None
    ) -> None:
        """One row, its places in the other tables, and its scope's tally."""
        before = self._find(txn, digest, key)
        self._dirty = True
        for name, table in self._places(digest, before):
            txn.delete(name, db=table)
        if entry is None:
            txn.delete(digest + key, db=self._chunks)
        else:
            txn.put(digest + key, pack(entry), db=self._chunks)
        for name, table in self._places(digest, entry):
            txn.put(name, b"", db=table)
        self._tally(txn, digest, before, entry, scope)

    def _places(self, digest: bytes, entry: Entry | None) -> list[tuple[bytes, Any]]:
        """The names of a row in the tables beside `chunks`."""
        if entry is None:
            return []
        name, ends = digest + entry.record.key, entry.record.meta.expires_at
        if entry.state.is_unsettled:
            return [(name, self._unsettled)]
        if entry.state is not State.LIVE:
            return []
        recency = (time_key(entry.recency) + name, self._recency)
        return [recency] if ends == NEVER else [recency, (time_key(ends) + name, self._ends)]

    def _tally(
        self, txn: lmdb.Transaction, digest: bytes, before: Entry | None, entry: Entry | None, scope: Scope | None
    ) -> None:
        held = bytes(txn.get(digest, db=self._scopes) or bytes(TALLY.size))
        tally = list(TALLY.unpack_from(held))
        for one, sign in ((before, -1), (entry, 1)):
            if one is not None:
                place = 0 if one.state in COUNTED else 2
                tally[place] += sign * one.record.length
                tally[place + 1] += sign
                self.used += sign * one.record.length
        if any(tally):
            name = held[TALLY.size :] or (named(scope) if scope else b"")
            txn.put(digest, TALLY.pack(*tally) + name, db=self._scopes)
        else:
            txn.delete(digest, db=self._scopes)

    def rebuild(self) -> None:
        """Write what is live into a new file and overwrite the old one, whose free pages hold deleted values.

        Row by row: LMDB's own compacting copy takes over what was deleted from pages that are still in use.
        Reading goes on meanwhile; changes wait.
        """
        with self._writing:
            if not self._dirty:
                return
            wipe(self._new)  # of a rebuild that failed
            copy_rows(self._env, self._new, self._map_bytes)
            with self._gate.exclusive():
                self._env.close()
                self._at.rename(self._old)
                self._new.rename(self._at)
                sync(self._at.parent)
                self._open()
            wipe(self._old)
            self._dirty = False


def environment(path: Path, map_bytes: int, *, durable: bool = True) -> lmdb.Environment:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    tables = len(TABLES)
    return lmdb.open(str(path), map_bytes, max_dbs=tables, max_readers=1024, mode=0o600, sync=durable, readahead=False)


def copy_rows(source: lmdb.Environment, path: Path, map_bytes: int) -> None:
    """Every table's rows, into a new environment that is on disk when this returns."""
    target = environment(path, map_bytes, durable=False)
    for table in TABLES:
        here, there = source.open_db(table), target.open_db(table)
        with source.begin(here) as old, old.cursor() as rows, target.begin(there, write=True) as new:
            for key, value in rows:
                new.put(key, value, append=True)
    target.sync(True)
    target.close()
    for written in (path, path.parent):
        sync(written)


def time_key(seconds: int) -> bytes:
    """A time as a key: the order of bytes is the order of time."""
    return seconds.to_bytes(TIME_BYTES, "big")


def holding(value: bytes | memoryview) -> Holding:
    tally = TALLY.unpack_from(value)
    name = value[TALLY.size :]
    scope = Scope(*msgspec.msgpack.decode(name, type=tuple[str, str, bytes])) if name else None
    return Holding(scope, Usage(*tally[:2]), Usage(*tally[2:]))


def named(scope: Scope) -> bytes:
    return msgspec.msgpack.encode((scope.tenant, scope.domain, scope.epoch))
