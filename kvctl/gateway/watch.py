"""The snapshot in force: read again when its file changes, and what a change means for requests under way."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kvctl.connector.snapshotfile import read_snapshot
from kvctl.daemon.log import Log
from kvctl.gateway.answers import Refused
from kvctl.gateway.config import SnapshotFile
from kvctl.gateway.metrics import Metrics
from kvctl.gateway.tenants import Directory
from kvctl.types.errors import KvctlError

Mark = tuple[int, int, int, int]  # what tells a file from the one that was there before
AGAIN = 1.0  # seconds after which a file that was refused is read again
# Of what the file says, which does not change by itself; a mode, a clock and a disk do.
LASTING = frozenset({"KV-GATE-010", "KV-GATE-011", "KV-GATE-012", "KV-GATE-015"})


@dataclass
class Watch:
    """A snapshot that cannot be taken leaves the one in force; with none in force, nobody is served."""

    config: SnapshotFile
    site: str
    clock: Callable[[], float]
    log: Log
    metrics: Metrics
    changed: Callable[[], None] = field(default=lambda: None)
    looked: Callable[[], None] = field(default=lambda: None)
    directory: Directory | None = None
    why: str = "no snapshot was read yet"
    _mark: Mark | None = None
    _again: float | None = None  # when what was refused is read again, by time.monotonic
    _refused: tuple[Mark | None, str] | None = None  # what was refused last, and why

    def current(self) -> Directory:
        """Refused with 503 when no snapshot is in force."""
        found, now = self.directory, self.clock()
        if found is None:
            raise Refused(503, "KV-GATE-014", "no_snapshot", f"no snapshot is in force: {self.why}", retry_after=5)
        if now >= found.snapshot.expires_at:
            over = int(now) - found.snapshot.expires_at
            message = f"snapshot {found.snapshot.number} is over since {over} s, and there is no newer one"
            raise Refused(503, "KV-GATE-013", "snapshot_over", message, retry_after=5)
        return found

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(self.config.poll_seconds)
            self.look()
            self.looked()

    def look(self) -> bool:
        """Read the file if it is another one than last time, or may be taken now; whether a new one is in force."""
        mark = self._mark_of()
        if mark == self._mark and (self._again is None or time.monotonic() < self._again):
            return False
        self._mark, self._again = mark, None
        try:
            self._take()
        except KvctlError as refused:
            self._refuse(mark, refused)
            return False
        self._refused = None
        self.changed()
        return True

    def _take(self) -> None:
        trusted = [bytes(key) for key in self.config.controllers.values()]
        newest = self.directory.snapshot.number if self.directory else 0
        snapshot = read_snapshot(Path(self.config.path), trusted, now=self.clock(), newest=newest)
        if snapshot.site != self.site:
            raise KvctlError(
                "KV-GATE-015", "the snapshot is another site's", where=self.config.path, why=f"{snapshot.site[:80]!r}"
            )
        self.directory = Directory.of(snapshot)
        self.log.info("snapshot", number=snapshot.number, tenants=len(snapshot.tenants), until=snapshot.expires_at)

    def _refuse(self, mark: Mark | None, refused: KvctlError) -> None:
        """Said once, however often the same file is refused for the same reason."""
        self.why = f"{refused.code}: {refused.what}"
        if refused.code not in LASTING:
            self._again = time.monotonic() + AGAIN
        if self._refused != (mark, refused.code):
            self._refused = (mark, refused.code)
            self.metrics.count("kvgated_snapshot_refused_total", code=refused.code)
            self.log.error("snapshot refused", **refused.as_dict())

    def _mark_of(self) -> Mark | None:
        try:
            found = Path(self.config.path).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
