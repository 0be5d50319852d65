"""Usage records: one JSON object a line, with a counter that has no gaps within a boot, so that a lost one is noticed.

A record is handed to the kernel before its request's client sees the end, and is on the disk within `sync_seconds`.
When the disk takes none, they wait in memory, and no new request is served.
"""

import asyncio
import os
import re
import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kvctl.daemon.log import Log
from kvctl.gateway.answers import Refused
from kvctl.gateway.config import Usage
from kvctl.gateway.usage import Used
from kvctl.types.errors import RefusedError, UsageError

NAME = re.compile(r"usage-(\d{14}-[0-9a-f]{8})-(\d{6})\.jsonl")
MOST_WAITING = 100_000  # records in memory while the disk takes none
MOST_READ = 5000  # records of one answer
BOOT = re.compile(r"\d{14}-[0-9a-f]{8}")


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="kvctl.usage/1"):
    """What one request used, in the engine's own numbers; None: the engine did not say.

    `partial`: the answer did not come to its end, so its output is at least `output`, or at least `deltas` tokens when
    that is None. `subject` says whether a user was named, never who.
    """

    site: str
    gateway: str
    boot: str
    counter: int  # 1, 2, 3 ... within the boot
    at: float  # Unix seconds of the request's end
    request: str
    tenant: str
    domain: str
    key: str  # the API key's id
    model: str
    route: str
    engine: str
    country: str
    sla: str
    subject: bool
    status: int
    requests: int = 1
    prompt: int | None = None
    cached: int | None = None
    output: int | None = None
    partial: bool = False
    deltas: int = 0
    seconds: float = 0.0

    @property
    def used(self) -> Used:
        return Used(self.prompt, self.cached, self.output)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the records a reader is: the last one it has."""

    boot: str
    counter: int

    @classmethod
    def parse(cls, text: str) -> "Place":
        """`BOOT:COUNTER`; UsageError KV-GATE-051 for anything else."""
        boot, _, counter = text.partition(":")
        if not (BOOT.fullmatch(boot) and counter.isascii() and counter.isdigit() and len(counter) < 16):
            raise UsageError("KV-GATE-051", f"{text[:60]!r} is no place in the usage records", fix="BOOT:COUNTER")
        return cls(boot, int(counter))

    def __str__(self) -> str:
        return f"{self.boot}:{self.counter}"


class Records:
    """The records of this boot, and the files of earlier ones. One loop uses it; only `fsync` runs in a thread."""

    def __init__(self, config: Usage, log: Log, stamp: str) -> None:
        """`stamp`: the time of the start, UTC, 14 digits: later boots sort behind earlier ones."""
        self.boot = f"{stamp}-{secrets.token_hex(4)}"
        self.counter = 0
        self._log = log
        self._directory = Path(config.directory)
        self._most = int(config.file_bytes)
        self._every = config.sync_seconds
        self._waiting: deque[bytes] = deque()
        self._descriptor = -1
        self._size = 0
        self._part = 0
        self._dirty = False
        self.why = ""  # what the disk said when it took none

    def open(self) -> None:
        """UsageError KV-GATE-050 when the directory cannot be written."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._next_file()
        except OSError as bad:
            where, why = str(self._directory), bad.strerror or str(bad)
            raise UsageError(
                "KV-GATE-050", "usage records cannot be written", where=where, why=why, fix="usage.directory"
            ) from bad

    def check(self) -> None:
        """Refused with 503 while records wait for the disk: what is not recorded is not served."""
        if self._waiting:
            raise Refused(503, "KV-GATE-052", "usage", "usage records cannot be written", retry_after=5)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def number(self) -> tuple[str, int]:
        """Boot and counter of the next record."""
        self.counter += 1
        return self.boot, self.counter

    def add(self, record: Record) -> None:
        self._waiting.append(msgspec.json.encode(record) + b"\n")
        self._write()

    def _write(self) -> None:
        while self._waiting:
            line = self._waiting[0]
            try:
                if self._size + len(line) > self._most:
                    self._next_file()
                self._put(line)
            except OSError as bad:
                self._failed(bad)
                return
            self._waiting.popleft()
        self.why = ""

    def _put(self, line: bytes) -> None:
        """All of a line or nothing of it: half a line would spoil the next one."""
        done = os.write(self._descriptor, line)
        if done < len(line):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(28, os.strerror(28))
        self._size += done
        self._dirty = True

    def _failed(self, bad: OSError) -> None:
        self.why = bad.strerror or str(bad)
        self._log.refused("usage not written", "usage", why=self.why, waiting=len(self._waiting))
        if len(self._waiting) > MOST_WAITING:  # cannot be reached while `check` refuses; bounded all the same
            self._waiting.pop()

    def _next_file(self) -> None:
        self._part += 1
        path = self._directory / f"usage-{self.boot}-{self._part:06d}.jsonl"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
        self._descriptor, self._size = descriptor, 0

    async def sync(self) -> None:
        """For ever: put what was written on the disk, and write what could not be."""
        while True:
            await asyncio.sleep(self._every)
            self._write()
            if self._dirty:
                self._dirty = False
                await self._fsync()

    async def _fsync(self) -> None:
        copy = os.dup(self._descriptor)  # the file may change meanwhile
        try:
            await asyncio.to_thread(os.fsync, copy)
        except OSError as bad:
            self._dirty = True
            self._log.refused("usage not synced", "sync", why=bad.strerror or str(bad))
        finally:
            os.close(copy)

    def close(self) -> None:
        self._write()
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def files(self) -> list[tuple[str, int, Path]]:
        """(boot, part, path), oldest first."""
        found = ((NAME.fullmatch(path.name), path) for path in self._directory.iterdir())
        return sorted((match[1], int(match[2]), path) for match, path in found if match)

    def read(self, after: Place | None, most: int) -> list[dict[str, Any]]:
        """Records behind a place, oldest first, `most` of them."""
        found: list[dict[str, Any]] = []
        for boot, _, path in self.files():
            if after is not None and boot < after.boot:
                continue
            for record in lines(path):
                if after is None or (record["boot"], record["counter"]) > (after.boot, after.counter):
                    found.append(record)
                if len(found) == most:
                    return found
        return found

    def collected(self, upto: Place) -> int:
        """Remove files whose records are all at or before a place; how many. RefusedError KV-GATE-053 for this boot's
        future."""
        if upto.boot > self.boot or (upto.boot == self.boot and upto.counter > self.counter):
            raise RefusedError("KV-GATE-053", f"there are no records up to {upto} yet", fix="name one that was read")
        removed, files = 0, self.files()
        for boot, part, path in files:
            if boot == self.boot and part == self._part:
                continue
            last = max((record["counter"] for record in lines(path)), default=0)
            if (boot, last) <= (upto.boot, upto.counter):
                path.unlink()
                removed += 1
        return removed


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole records of a file; a power cut may have left half a one at the end."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield msgspec.json.decode(line)
