"""LoRA adapters by their content: the engine knows one by name and path, and neither says what it computes.

The engine reads an adapter's files some time between its own start and the adapter's first token. Only files that have
not changed since before that start are known to be what it read; with any others its requests are neither loaded nor
stored.
"""

import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from kvctl.connector.fingerprint import Fingerprint
from kvctl.connector.modelfiles import ADAPTER, digest_adapter, matching
from kvctl.connector.tier_fingerprint import of_adapter
from kvctl.connector.tier_restore import Shape
from kvctl.types.errors import KvctlError

MARGIN_NS = 1_000_000_000  # a file's times come from a clock that is a little behind
Stamp = tuple[str, int, int, int, int]  # name, inode, length, time of the content, time of the inode


@dataclass(frozen=True, slots=True)
class Known:
    stamps: frozenset[Stamp]
    print: Fingerprint


class Adapters:
    """Thread-safe; `shape` reads files.

    `base` and `shape` are the engine's own, `settings` those for adapters; `started`: when it did, Unix nanoseconds.
    `seen` is told the fingerprint of each adapter and where it was found, once.
    """

    def __init__(
        self,
        base: Fingerprint,
        shape: Shape,
        settings: dict[str, str],
        started: int,
        seen: Callable[[Fingerprint, str], None],
    ) -> None:
        self._base = base
        self._shape = shape
        self._settings = settings
        self._before = started - MARGIN_NS
        self._seen = seen
        self._lock = Lock()
        self._known: dict[str, Known] = {}

    def shape(self, path: str) -> Shape | None:
        """How chunks of requests with the adapter in `path` are named; None: nobody can say what the engine read."""
        found = self._find(path)
        return None if found is None else replace(self._shape, fingerprint=found.digest())

    def _find(self, path: str) -> Fingerprint | None:
        try:
            stamps = frozenset(stamps_of(Path(path)))
            if any(max(changed, at) >= self._before for _, _, _, changed, at in stamps):
                return None
            known = self._known.get(path) or self._read(path, stamps)
        except (OSError, KvctlError):
            return None
        return known.print if known.stamps == stamps else None

    def _read(self, path: str, stamps: frozenset[Stamp]) -> Known:
        """Digest an adapter, once."""
        with self._lock:
            known = self._known.get(path)
            if known is None:
                known = Known(stamps, of_adapter(self._base, digest_adapter(Path(path)), self._settings))
                self._known[path] = known
                self._seen(known.print, f"the adapter in {path}")
        return known


def stamps_of(folder: Path) -> Iterator[Stamp]:
    """What changes when an adapter's files do, or what a link on the way to them points to. OSError."""
    for path in (folder, *matching(folder, ADAPTER)):
        yield _stamp(path, follow=True)
        for step in (path, *path.parents):
            if step.is_symlink():
                yield _stamp(step, follow=False)


def _stamp(path: Path, *, follow: bool) -> Stamp:
    found = path.stat(follow_symlinks=follow)
    # A directory's own times tell of files that came in the place of others; its length tells nothing.
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return str(path), found.st_ino, size, found.st_mtime_ns, found.st_ctime_ns
