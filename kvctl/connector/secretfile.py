"""Files that hold secrets: one owner, mode 0600, no symbolic link, replaced whole or not at all."""

import os
import secrets
import stat
from pathlib import Path

from kvctl.types.errors import RefusedError, UsageError

MODE = 0o600
MAX_BYTES = 64 << 10
OPEN = os.O_CLOEXEC | os.O_NOFOLLOW


def read_secret(path: Path, most: int = MAX_BYTES) -> bytes:
    """The bytes of a secret file of this user, `most` at most.

    UsageError KV-CONN-010 when it cannot be read, RefusedError KV-CONN-011 when others could have read or written it.
    """
    try:
        # Not blocking: a pipe laid in the file's place would otherwise hold the caller for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | OPEN)
    except OSError as error:
        if path.is_symlink():
            raise _refuse(path, "it is a symbolic link") from error
        raise _unreadable(path, error.strerror or str(error)) from error
    try:
        _judge(path, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(data) > most:
        raise _unreadable(path, f"it has more than {most} bytes")
    return data


def _unreadable(path: Path, why: str) -> UsageError:
    return UsageError(
        "KV-CONN-010",
        "a secret file cannot be read",
        where=str(path),
        why=why,
        fix="give the path of a file that this user owns, mode 0600",
    )


def _judge(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _refuse(path, "it is not a plain file")
    if found.st_uid != os.geteuid():
        raise _refuse(path, f"its owner is user {found.st_uid}, this process is user {os.geteuid()}")
    if found.st_mode & 0o077:
        raise _refuse(path, f"its mode is {stat.S_IMODE(found.st_mode):04o}: others than its owner have a way to it")


def _refuse(path: Path, why: str) -> RefusedError:
    return RefusedError(
        "KV-CONN-011",
        "a secret file is not kept secret",
        where=str(path),
        why=why,
        fix="make it a plain file of this user with mode 0600; if others could read it, its key is to be replaced",
    )


def write_secret(path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`, mode 0600, so that a reader sees the old file or the new one whole.

    RefusedError KV-CONN-011 when a symbolic link is in that place, UsageError KV-CONN-012 when it cannot be written.
    """
    if path.is_symlink():
        raise _refuse(path, "it is a symbolic link")
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _write_new(beside, data)
        beside.rename(path)
        _sync_directory(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        why = error.strerror or str(error)
        fix = "give a path in a directory that this user can write"
        raise UsageError("KV-CONN-012", "a secret file cannot be written", where=str(path), why=why, fix=fix) from error


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN, MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
