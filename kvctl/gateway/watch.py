"""The snapshot in force: read again when its file changes, and what a change means for requests under way."""

import asyncio
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

Mark = tuple[int, int, int]  # what tells a file from the one that was there before


@dataclass
class Watch:
    """A snapshot that cannot be taken leaves the one in force; with none in force, nobody is served."""

    config: SnapshotFile
    site: str
    clock: Callable[[], float]
    log: Log
    metrics: Metrics
    changed: Callable[[], None] = field(default=lambda: None)
    directory: Directory | None = None
    why: str = "no snapshot was read yet"
    _mark: Mark | None = None

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

    def look(self) -> bool:
        """Read the file if it is another one than last time; whether a new snapshot is in force."""
        mark = self._mark_of()
        if mark == self._mark:
            return False
        self._mark = mark
        try:
            self._take()
        except KvctlError as refused:
            self.why = f"{refused.code}: {refused.what}"
            self.metrics.count("kvgated_snapshot_refused_total", code=refused.code)
            self.log.error("snapshot refused", **refused.as_dict())
            return False
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

    def _mark_of(self) -> Mark | None:
        try:
            found = Path(self.config.path).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
