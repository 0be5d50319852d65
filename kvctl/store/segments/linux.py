"""What Python's os module lacks: holes in files, data between holes, and one owner of a directory."""

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from kvctl.store.buffers import PAGE, padded
from kvctl.types.errors import KvctlError, LockedError

KEEP_SIZE = 1  # linux/falloc.h
PUNCH_HOLE = 2
ZEROS = memoryview(bytes(1 << 20))

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def punch(fd: int, offset: int, length: int) -> None:
    """Give a range of a file back to the filesystem: it reads as zeros. Raises OSError."""
    if _libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length) == 0:
        return
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def data_ranges(fd: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start, end) of what is not a hole; unwritten extents count as holes on ext4 and XFS."""
    while start < end:
        try:
            begin = os.lseek(fd, start, os.SEEK_DATA)
        except OSError as no_data:
            if no_data.errno == errno.ENXIO:
                return
            raise
        start = min(end, padded(os.lseek(fd, begin, os.SEEK_HOLE)))
        begin = begin // PAGE * PAGE
        if begin < start:
            yield begin, start


def open_direct(path: Path, flags: int) -> int:
    """A descriptor that bypasses the page cache. Raises KvctlError where the filesystem has no O_DIRECT."""
    try:
        return os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    except OSError as failed:
        if failed.errno != errno.EINVAL:
            raise
        raise KvctlError(
            "KV-STORE-042",
            "the filesystem of a mount has no O_DIRECT",
            where=str(path.parent),
            why="the store keeps chunks out of the page cache",
            fix="use ext4 or XFS on a local drive",
        ) from None


def lock_directory(path: Path) -> int:
    """Own a mount's directory until the descriptor is closed. Raises LockedError naming the owner's pid."""
    fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise LockedError(
            "KV-STORE-041",
            "another process has this mount open",
            where=str(path),
            why=f"its process id is {owner}",
            fix="stop the other kvstored, or take the mount out of one configuration",
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
