"""Who else used a chunk: pairs of chunk and subject, besides the subject that a chunk was stored for.

One LMDB environment below `state`, beside the tiers, so that a chunk may change its tier. Two tables of names alone:
`users`, scope digest, key and subject, and `used`, scope digest, subject and key. A pair is on disk before it is
answered for. It outlives its chunk for a moment, or until the next start after a crash; that can only erase too much.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

import lmdb

from kvctl.store.files import overwrite, sync
from kvctl.types.chunks import KEY_BYTES, SUBJECT_BYTES, Scope

TABLES = (b"users", b"used")
MAP_BYTES = 16 << 30  # address space, not memory: about 80 million pairs
DIGEST_BYTES = 16
CHUNK = DIGEST_BYTES + KEY_BYTES
REMEMBERED = 1 << 20  # chunks that went and whose pairs are still to go
STEP = 1000

IsThere = Callable[[bytes], bool]  # a key, within one scope


class Lineage:
    """Every method may be called from any thread. Raises lmdb.Error when the medium fails: nothing was answered for."""

    def __init__(self, directory: Path, map_bytes: int = MAP_BYTES) -> None:
        self._directory = directory
        self._map_bytes = map_bytes
        self._lock = Lock()
        self._gone: deque[tuple[Scope, bytes]] = deque(maxlen=REMEMBERED)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._forget_drafts()
        self._open()
        self._dirty = True  # whether the file may hold pairs that are gone

    def see(self, scope: Scope, subject: bytes, keys: Sequence[bytes], is_there: IsThere) -> list[bytes]:
        """Note that a subject used chunks, of those that are there; for which of them that is new."""
        digest = scope_digest(scope)
        with self._lock:  # a chunk that goes meanwhile has its pairs dropped behind this
            fresh = [key for key in self._unknown(digest, subject, keys) if is_there(key)]
            if fresh:
                with self._env.begin(write=True) as txn:
                    for key in fresh:
                        txn.put(digest + key + subject, b"", db=self._users)
                        txn.put(digest + subject + key, b"", db=self._used)
        return fresh

    def _unknown(self, digest: bytes, subject: bytes, keys: Sequence[bytes]) -> list[bytes]:
        with self._env.begin(self._users) as txn:
            return [key for key in dict.fromkeys(keys) if txn.get(digest + key + subject) is None]

    def subjects_of(self, scope: Scope, key: bytes) -> frozenset[bytes]:
        with self._lock:
            return frozenset(name[CHUNK:] for name in self._names(self._users, scope_digest(scope) + key))

    def keys_of(self, scope: Scope, subject: bytes) -> list[bytes]:
        """Chunks that a subject used, some of which may be gone."""
        prefix = scope_digest(scope) + subject
        with self._lock:
            return [name[len(prefix) :] for name in self._names(self._used, prefix)]

    def gone(self, scope: Scope, keys: Iterable[bytes]) -> None:
        """Chunks have left a tier; `tidy` looks whether any is left."""
        self._gone.extend((scope, key) for key in keys)

    @property
    def due(self) -> bool:
        """Whether `tidy` has anything to look at."""
        return bool(self._gone)

    def tidy(self, is_there: Callable[[Scope, bytes], bool]) -> None:
        """Drop the pairs of chunks that are gone."""
        while self._gone:
            names = [self._gone.popleft() for _ in range(min(STEP, len(self._gone)))]
            with self._lock:
                known = [(scope, key) for scope, key in names if self._is_paired(scope_digest(scope) + key)]
                self._drop({scope_digest(scope) + key for scope, key in known if not is_there(scope, key)})

    def sweep(self, scopes: Iterable[Scope], is_there: Callable[[Scope, bytes], bool]) -> None:
        """Look at every pair: those of chunks and scopes that are nowhere go."""
        known = {scope_digest(scope): scope for scope in scopes}
        after = b""
        while names := self._page(after):
            after = names[-1]
            with self._lock:
                chunks = {name[:CHUNK] for name in names}
                self._drop({one for one in chunks if not _is_known(one, known, is_there)})

    def wipe(self) -> None:
        """Write the pairs to a new file and overwrite the old one, whose free pages hold pairs that are gone."""
        with self._lock:
            if not self._dirty:
                return
            draft = self._file.with_suffix(".new")
            _forget(draft)
            self._copy(draft)
            self._env.close()
            os.link(self._file, self._file.with_suffix(".old"))  # a name to overwrite it by
            draft.rename(self._file)
            sync(self._directory)
            self._forget_drafts()
            self._open()
            self._dirty = False

    def close(self) -> None:
        with self._lock:
            self._env.close()

    @property
    def _file(self) -> Path:
        return self._directory / "pairs.mdb"

    def _open(self) -> None:
        self._env = _environment(self._file, self._map_bytes)
        self._users, self._used = (self._env.open_db(table) for table in TABLES)

    def _forget_drafts(self) -> None:
        """What a `wipe` leaves, cut short or not: a draft, or the old file, which may be the one in use still."""
        for rest in (self._file.with_suffix(suffix) for suffix in (".new", ".old")):
            if rest.exists() and self._file.exists() and rest.samefile(self._file):
                rest.unlink()
            _forget(rest)

    def _copy(self, draft: Path) -> None:
        fresh = _environment(draft, self._map_bytes)
        try:
            for table in TABLES:
                here, there = self._env.open_db(table), fresh.open_db(table)
                with self._env.begin(here) as old, old.cursor() as rows, fresh.begin(there, write=True) as new:
                    new.cursor().putmulti(rows.iternext(), append=True)
            fresh.sync(True)
        finally:
            fresh.close()

    def _names(self, table: Any, prefix: bytes) -> Iterator[bytes]:
        with self._env.begin(table) as txn, txn.cursor() as cursor:
            if cursor.set_range(prefix):
                for name in cursor.iternext(values=False):
                    if not bytes(name).startswith(prefix):
                        return
                    yield bytes(name)

    def _is_paired(self, chunk: bytes) -> bool:
        return any(True for _ in self._names(self._users, chunk))

    def _page(self, after: bytes) -> list[bytes]:
        with self._lock, self._env.begin(self._users) as txn, txn.cursor() as cursor:
            if not cursor.set_range(after + b"\0" if after else b""):
                return []
            return [bytes(name) for name in islice(cursor.iternext(values=False), STEP)]

    def _drop(self, chunks: set[bytes]) -> None:
        names = [name for chunk in chunks for name in self._names(self._users, chunk)]
        if not names:
            return
        self._dirty = True
        with self._env.begin(write=True) as txn:
            for name in names:
                digest, key, subject = name[:DIGEST_BYTES], name[DIGEST_BYTES:CHUNK], name[CHUNK:]
                txn.delete(name, db=self._users)
                txn.delete(digest + subject + key, db=self._used)


def scope_digest(scope: Scope) -> bytes:
    names = (scope.tenant.encode(), scope.domain.encode(), scope.epoch)
    return sha256(b"".join(len(part).to_bytes(4, "big") + part for part in names)).digest()[:DIGEST_BYTES]


def _is_known(chunk: bytes, scopes: dict[bytes, Scope], is_there: Callable[[Scope, bytes], bool]) -> bool:
    scope = scopes.get(chunk[:DIGEST_BYTES])
    return scope is not None and is_there(scope, chunk[DIGEST_BYTES:])


def _environment(file: Path, map_bytes: int) -> lmdb.Environment:
    return lmdb.open(str(file), map_bytes, subdir=False, mode=0o600, max_dbs=len(TABLES), max_readers=2048)


def _forget(file: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        overwrite(file)
        file.unlink()
    file.with_name(f"{file.name}-lock").unlink(missing_ok=True)


assert SUBJECT_BYTES + CHUNK < 511  # LMDB's longest name
