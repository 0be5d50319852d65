"""Files that survive a kill at any point: written beside, fsynced, renamed; and locks between processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Dict, Iterator, Optional

from .kvctl_refused import Refused

CHANGE_LOCK = "/run/kvctl/change.lock"  # whoever changes the node's class, drives or firmware holds it


def write_atomic(path: str, data: bytes, mode: int = 0o644) -> None:
    """Replace `path` so that a reader sees the old bytes or the new ones, also after a power cut."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    beside = "%s.%d.new" % (path, os.getpid())
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.rename(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    folder_handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder_handle)
    finally:
        os.close(folder_handle)


def write_json(path: str, document: Dict[str, Any], mode: int = 0o600) -> None:
    write_atomic(path, (json.dumps(document, sort_keys=True) + "\n").encode(), mode)


def read_text(path: str) -> Optional[str]:
    """The file's text without surrounding white space, or None when it is not there or cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return None


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object in the file; None when there is no file. A file that is not a JSON object is refused."""
    try:
        with open(path, "rb") as stream:
            document = json.loads(stream.read().decode("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Refused(
            "KV-FILE-001", "%s cannot be read: %s" % (path, error), "move the file away and run again"
        ) from None
    if not isinstance(document, dict):
        raise Refused("KV-FILE-001", "%s is not a JSON object" % path, "move the file away and run again")
    return document


@contextlib.contextmanager
def locked(path: str, wait: float = 0.0) -> Iterator[None]:
    """Hold an exclusive lock on `path` for the block; KV-LOCK-001 when it is not free within `wait` seconds."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Refused("KV-LOCK-001", "%s is held by another kvctl process" % path, "wait for it") from None
                time.sleep(0.05)  # flock has no timed wait
        yield
    finally:
        os.close(handle)
