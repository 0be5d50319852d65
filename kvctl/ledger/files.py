"""Writing files so that a reader, or the machine after a power cut, finds the old one or the new one whole."""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from kvctl.ledger.tiles import DIRECTORY_MODE, MODE
from kvctl.types.errors import LockedError

CREATE = os.O_CREAT | os.O_CLOEXEC


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Write and fsync a file; its name is on the medium only after `sync_directory`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | CREATE, MODE)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path, top: Path) -> None:
    """Make `path` below `top` and the directories between, on the medium."""
    if path == top or path.is_dir():
        return
    make_directories(path.parent, top)
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    sync_directory(path.parent)


class Stage:
    """Puts files into place by way of `<directory>/tmp`, where what a crash left is thrown away."""

    def __init__(self, directory: Path) -> None:
        self._top = directory
        self._tmp = directory / "tmp"

    def clear(self) -> None:
        self._tmp.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        for left in self._tmp.iterdir():
            left.unlink()

    def put(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Write each file (path below the directory, bytes) whole; on return all are on the medium. OSError."""
        touched = set()
        for name, data in files:
            target = self._top / name
            if target.parent not in touched:
                make_directories(target.parent, self._top)
                touched.add(target.parent)
            staged = self._tmp / name.replace("/", "-")
            write_new(staged, data)
            staged.rename(target)
        for parent in touched:
            sync_directory(parent)


class Lock:
    """One writer of a directory. LockedError KV-LEDGER-001 while another process, or this one, has it open."""

    def __init__(self, directory: Path) -> None:
        path = directory / "lock"
        self._descriptor = os.open(path, os.O_RDWR | CREATE, MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise LockedError(
                "KV-LEDGER-001",
                f"the log is locked by PID {holder}",
                where=str(directory),
                fix="use that process, or end it; reading needs no lock",
            ) from None
        self._write(f"{os.getpid()}\n".encode())

    def release(self) -> None:
        self._write(b"")
        os.close(self._descriptor)

    def _write(self, text: bytes) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text, 0)
