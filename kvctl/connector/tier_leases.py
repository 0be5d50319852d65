"""The key leases in a directory, re-read when a file changes. A file that goes takes its lease with it."""

import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from kvctl.connector.keys import KeyLease, load_lease
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError

ANEW = 0.2  # seconds between two looks at the directory for the sake of a lease that is not there


@dataclass(frozen=True, slots=True)
class Seen:
    stamp: tuple[int, int, int]  # what a changed file changes: time, length, inode
    lease: KeyLease | None  # None: the file holds none
    why: str = ""


class Leases:
    """Thread-safe. Looking one up reads no file when it is there."""

    def __init__(self, folder: Path | None, single: Path | None = None) -> None:
        self._folder = folder
        self._single = single
        self._lock = Lock()
        self._files: dict[Path, Seen] = {}
        self._by_scope: dict[Scope, KeyLease] = {}
        self._looked = float("-inf")
        self.refresh()

    def find(self, scope: Scope) -> KeyLease | None:
        """The lease of a scope, over or not; looks at the directory again when there is none."""
        found = self._by_scope.get(scope)
        if found is None and time.monotonic() - self._looked >= ANEW:
            self.refresh()
            found = self._by_scope.get(scope)
        return found

    @property
    def single(self) -> KeyLease | None:
        """The lease of a site without a gateway."""
        seen = self._files.get(self._single) if self._single else None
        return seen.lease if seen else None

    @property
    def held(self) -> list[KeyLease]:
        """Every lease at hand, over or not."""
        single = self.single
        return [*self._by_scope.values()] if single is None else [single, *self._by_scope.values()]

    @property
    def problems(self) -> dict[str, str]:
        """File -> why it holds no lease."""
        return {str(path): seen.why for path, seen in self._files.items() if seen.lease is None}

    def refresh(self) -> None:
        """Read what is new or changed."""
        with self._lock:
            self._looked = time.monotonic()
            files = {path: self._look(path) for path in self._paths()}
            self._files = {path: seen for path, seen in files.items() if seen is not None}
            held = sorted(
                (seen.lease for seen in self._files.values() if seen.lease is not None),
                key=lambda lease: lease.expires_at,
            )
            self._by_scope = {lease.scope: lease for lease in held}

    def _paths(self) -> list[Path]:
        found = [self._single] if self._single else []
        if self._folder is not None:
            try:
                # Files that are being written beside their place begin with a dot.
                found += sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
            except OSError:
                return found  # no directory, no lease: every request is a miss, and says so
        return found

    def _look(self, path: Path) -> Seen | None:
        try:
            status = path.lstat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        before = self._files.get(path)
        if before is not None and before.stamp == stamp:
            return before
        try:
            return Seen(stamp, load_lease(path, now=0))  # one that is over is told from one that is missing
        except KvctlError as error:
            return Seen(stamp, None, f"{error.code}: {error.why}")
