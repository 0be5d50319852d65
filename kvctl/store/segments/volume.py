"""A mount's directory: who owns it, its secret number, and some space kept for making space."""

import os
import secrets
from pathlib import Path

from kvctl.store.files import sync
from kvctl.store.segments.layout import VOLUME_BYTES
from kvctl.store.segments.linux import lock_directory
from kvctl.types.errors import KvctlError

BALLAST = 16 << 20
FORMAT = b"kvctl segments 1\n"


class Volume:
    """An opened directory of a mount, locked until `close`.

    Raises LockedError when another process has it, KvctlError when it is not there or holds another format.
    """

    def __init__(self, path: Path, capacity: int, *, used_before: bool = False) -> None:
        if not path.is_dir():
            raise KvctlError(
                "KV-STORE-043",
                "a mount's directory is not there",
                where=str(path),
                why="the drive is not mounted, or the configuration names another place",
                fix="mount the drive and create the directory, owned by the user kvstored runs as",
            )
        if used_before and not (path / "volume").exists():
            raise KvctlError(
                "KV-STORE-048",
                "a mount's directory was used before and is empty now",
                where=str(path),
                why="most likely its drive is not mounted: chunks would fill the drive below",
                fix="mount the drive; for a new drive at this place, take its line out of mounts.json in `state`",
            )
        self.path = path
        self._lock = lock_directory(path)
        self._ballast = path / "ballast"
        found = os.statvfs(path)
        self._ballast_bytes = min(BALLAST, capacity // 64, found.f_blocks * found.f_frsize // 32)
        try:
            self.number = self._read_number()
        except BaseException:
            self.close()
            raise

    def inflate(self) -> None:
        """Take the ballast's space, if it can be had now."""
        fd = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size < self._ballast_bytes and self._room():
                os.posix_fallocate(fd, 0, self._ballast_bytes)
        finally:
            os.close(fd)

    def deflate(self) -> bool:
        """Give the ballast's space to the index, which needs some to forget chunks on a full drive."""
        if not self._ballast.exists() or not self._ballast.stat().st_size:
            return False
        os.truncate(self._ballast, 0)
        return True

    def close(self) -> None:
        os.close(self._lock)

    def _room(self) -> bool:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize > 2 * self._ballast_bytes

    def _read_number(self) -> bytes:
        """The secret number in `volume`, made when the directory is used for the first time."""
        name = self.path / "volume"
        if not name.exists():
            self._create(name)
        data = name.read_bytes()
        if len(data) != len(FORMAT) + VOLUME_BYTES or not data.startswith(FORMAT):
            raise KvctlError(
                "KV-STORE-044",
                "a mount's directory has a format that this version does not read",
                where=str(name),
                fix="use an empty directory, or the version of kvctl that wrote this one",
            )
        return data[len(FORMAT) :]

    def _create(self, name: Path) -> None:
        if any(self.path.glob("index-*.mdb")) or any((self.path / "segments").glob("*.seg")):
            raise KvctlError(
                "KV-STORE-045",
                "a mount holds segments, but not the file that names the volume",
                where=str(name),
                why="the file was removed, or the directory was copied in part",
                fix="bring the file back, or empty the directory: chunks are recomputed",
            )
        draft = self.path / "volume.tmp"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, FORMAT + secrets.token_bytes(VOLUME_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
        draft.rename(name)
        sync(self.path)
