"""Opening the site's DuckDB file: one transaction at a time, under a file lock, by any process of this user.

DuckDB lets one process hold a file. A kvctl command holds it only while it reads or writes, so that `kvctl status`
works beside a long provision.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

# The extension module itself: the duckdb package around it imports what only notebooks need, and doubles the start of
# every command that reads state. The version is pinned exactly.
import _duckdb as duckdb

from kvctl.types.errors import KvctlError, LockedError

VERSION = 1
SCHEMA = Path(__file__).with_name("schema.sql")
LOCK_WAIT = 20.0  # seconds; a transaction takes milliseconds, so a longer hold is a stuck process


class Database:
    """The state of one site, in `directory`/state.duckdb."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "state.duckdb"

    @contextlib.contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-write transaction: committed at the end, rolled back by an exception."""
        make_private(self.directory)
        with self.locked():
            connection = self.connect()
            try:
                connection.begin()
                yield connection
                connection.commit()
            except duckdb.Error as error:
                raise storage_error(self.path, error) from error
            finally:
                connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection | None]:
        """A read-only view, or None when nothing was ever stored. Works in a directory that cannot be written."""
        if not self.path.exists():
            yield None
            return
        with self.locked() if os.access(self.directory, os.W_OK) else contextlib.nullcontext():
            connection = self.connect(read_only=True)
            try:
                yield connection
            except duckdb.Error as error:
                raise storage_error(self.path, error) from error
            finally:
                connection.close()

    def connect(self, read_only: bool = False) -> duckdb.DuckDBPyConnection:
        try:
            connection = duckdb.connect(
                str(self.path),
                read_only=read_only,
                config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "2"},
            )
            if not read_only:
                migrate(connection)
        except duckdb.Error as error:
            raise storage_error(self.path, error) from error
        return connection

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        try:
            handle: IO[str] = (self.directory / "state.lock").open("a+")
        except OSError as error:
            raise read_only(self.directory, error) from error
        with handle:
            wait_for(handle, self.directory)
            handle.truncate(0)
            with contextlib.suppress(OSError):  # a full disk; the pid is only for the words of whoever waits
                os.write(handle.fileno(), json.dumps({"pid": os.getpid()}).encode())
            yield


def wait_for(handle: IO[str], directory: Path) -> None:
    deadline = time.monotonic() + LOCK_WAIT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                handle.seek(0)
                raise LockedError(
                    "KV-STATE-002",
                    "the state is in use",
                    where=str(directory),
                    why=f"held by {handle.read().strip() or 'another process'}",
                    fix="wait for that process, or end it",
                ) from None
            time.sleep(0.02)


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring the schema to `VERSION`, and CHECKPOINT: replaying DDL from the WAL is where DuckDB breaks."""
    row = connection.execute(
        "SELECT count(*) FROM information_schema.tables WHERE table_name = 'schema_version'"
    ).fetchone()
    if row and row[0]:
        found = connection.execute("SELECT max(version) FROM schema_version").fetchone()
        if found and found[0] is not None:
            if found[0] > VERSION:
                raise KvctlError(
                    "KV-STATE-003",
                    f"the state was written by a newer kvctl (schema {found[0]}, this one knows {VERSION})",
                    fix="use that kvctl, or another state directory",
                )
            return
    connection.execute(SCHEMA.read_text())
    connection.execute("INSERT INTO schema_version VALUES (?, now())", [VERSION])
    connection.execute("CHECKPOINT")


def make_private(directory: Path) -> None:
    """The state directory holds what was seen on every node: 0700. KvctlError when it cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (directory / "state.lock").open("a").close()
    except OSError as error:
        raise read_only(directory, error) from error


def read_only(directory: Path, error: OSError) -> KvctlError:
    return KvctlError(
        "KV-STATE-001",
        "the state directory cannot be written",
        where=str(directory),
        why=error.strerror or str(error),
        fix="set KVCTL_STATE_DIR to a directory of yours on a file system with room",
    )


def storage_error(path: Path, error: duckdb.Error) -> KvctlError:
    text = str(error).splitlines()[0]
    if "Could not set lock" in text:
        return LockedError(
            "KV-STATE-002", "the state is in use", where=str(path), why=text, fix="wait for that process"
        )
    if "Read-only file system" in text or "Permission denied" in text:
        return KvctlError(
            "KV-STATE-001", "the state cannot be written", where=str(path), why=text, fix="set KVCTL_STATE_DIR"
        )
    if "No space left" in text:
        return KvctlError(
            "KV-STATE-004", "the disk under the state is full", where=str(path), why=text, fix="make room"
        )
    return KvctlError(
        "KV-STATE-005",
        "the state could not be read or written",
        where=str(path),
        why=text,
        fix="move the file aside: facts come back with the next check, runs are in their journals",
    )
