"""The index's directory: one process at a time, renames that last, and old files that are overwritten."""

import fcntl
import shutil
from pathlib import Path

from kvctl.store.files import overwrite, sync
from kvctl.types.errors import LockedError


class DirectoryLock:
    """Held until `release`, or the end of the process. Makes the directory, mode 0700."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = (directory / "lock").open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise LockedError(
                "KV-STORE-306",
                "another process has this object tier's index open",
                where=str(directory),
                fix="stop it, or give this tier a directory of its own",
            ) from None

    def release(self) -> None:
        self._file.close()


def wipe(directory: Path) -> None:
    """Overwrite the files of a directory that nobody has open, and remove it."""
    if not directory.exists():
        return
    for file in directory.iterdir():
        overwrite(file)
    shutil.rmtree(directory)
    sync(directory.parent)
