"""What kvnoded remembers of its node: one bounded file of JSON lines, written by one process."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import IO, Any

MAX_LINES = 4000


class StoreBusyError(RuntimeError):
    """Another process owns the history."""


def utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class History:
    """Events newest last. At `max_lines` the older half goes, so a flapping link cannot fill the disk."""

    def __init__(self, path: Path, max_lines: int = MAX_LINES) -> None:
        self.path = path
        self.max_lines = max_lines
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self._own()
        self.lines = len(self.read())

    def _own(self) -> IO[str]:
        lock = open(self.path.with_suffix(".lock"), "a")  # noqa: SIM115  held as long as the process lives
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StoreBusyError(f"{self.path} is owned by another kvnoded") from None
        return lock

    def close(self) -> None:
        self._lock.close()

    def add(self, kind: str, **detail: Any) -> None:
        """Append one event {"at", "kind", ...}; a line is whole or absent after a kill."""
        line = json.dumps({"at": utc(), "kind": kind, **detail}, sort_keys=True) + "\n"
        with open(self.path, "ab") as stream:
            if stream.tell() and not self._ends_whole():
                stream.write(b"\n")
            stream.write(line.encode())
        self.lines += 1
        if self.lines > self.max_lines:
            self._halve()

    def _ends_whole(self) -> bool:
        with open(self.path, "rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"

    def read(self) -> list[dict[str, Any]]:
        """All events; a line that a kill cut short is left out."""
        events = []
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        for line in text.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return events

    def _halve(self) -> None:
        kept = self.read()[-self.max_lines // 2 :]
        beside = self.path.with_suffix(".new")
        with open(beside, "w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(event, sort_keys=True) + "\n" for event in kept)
            stream.flush()
            os.fsync(stream.fileno())
        beside.rename(self.path)
        self.lines = len(kept)
