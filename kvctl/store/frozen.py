"""Chunks that were to be erased and are held: kept, and read by nobody. They are names in a file of lines, as JSON.

A line adds names (synced before an erasure is answered) or takes some back that are gone. It is written anew when it is
opened, without those.
"""

import json
import os
from collections.abc import Iterable, Set
from pathlib import Path
from threading import Lock
from typing import Any

from kvctl.store.files import write_whole
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError

NOTHING: frozenset[bytes] = frozenset()
KEYS_A_LINE = 1000


class Frozen:
    """Every method may be called from any thread. `file` None: kept in memory alone, for a tier on its own."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = Lock()
        self._names: dict[Scope, set[bytes]] = {}
        if file is not None and file.exists():
            self._load(file)

    def of(self, scope: Scope) -> Set[bytes]:
        """A scope's frozen keys."""
        return self._names.get(scope, NOTHING)

    def __len__(self) -> int:
        return sum(len(keys) for keys in list(self._names.values()))

    def add(self, scope: Scope, keys: Iterable[bytes]) -> None:
        """From now on, and after a restart, these are misses. Raises OSError when that cannot be kept."""
        with self._lock:
            fresh = set(keys) - self.of(scope)
            if fresh:
                self._names[scope] = {*self.of(scope), *fresh}  # a new set: readers hold the old one
                self._append(_lines(scope, fresh, "frozen"), synced=True)

    def discard(self, scope: Scope, keys: Iterable[bytes]) -> None:
        """Chunks are gone: whoever stores them anew may read them. A crash may forget that; they miss until then."""
        if scope not in self._names:
            return
        with self._lock:
            gone = self.of(scope) & set(keys)
            left = set(self.of(scope) - gone)
            if left:
                self._names[scope] = left
            else:
                self._names.pop(scope, None)
            if gone:
                self._append(_lines(scope, gone, "gone"), synced=False)

    def _append(self, data: bytes, *, synced: bool) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._file.exists():
            write_whole(self._file, b"")
        with self._file.open("ab") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())

    def _load(self, file: Path) -> None:
        text = file.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]  # half a line was never answered for
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._replay(json.loads(line))
            except (ValueError, KeyError, TypeError) as bad:
                raise KvctlError(
                    "KV-STORE-026", "the list of frozen chunks cannot be read", where=f"{file}:{number}", why=str(bad),
                    fix="restore the file: without it, chunks that were erased under a hold could be read again",
                ) from bad  # fmt: skip
        lines = [_lines(scope, keys, "frozen") for scope, keys in self._names.items()]
        write_whole(file, b"".join(lines))

    def _replay(self, line: dict[str, Any]) -> None:
        scope = Scope(line["tenant"], line["domain"], bytes.fromhex(line["epoch"]))
        keys = {bytes.fromhex(key) for key in line["keys"]}
        if line["are"] == "frozen":
            self._names.setdefault(scope, set()).update(keys)
        elif left := self._names.get(scope, set()) - keys:
            self._names[scope] = left
        else:
            self._names.pop(scope, None)


def _lines(scope: Scope, keys: Iterable[bytes], state: str) -> bytes:
    names = sorted(key.hex() for key in keys)
    about = {"tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex(), "are": state}
    parts = (names[at : at + KEYS_A_LINE] for at in range(0, len(names), KEYS_A_LINE))
    return b"".join(json.dumps(about | {"keys": part}).encode() + b"\n" for part in parts)
