"""Moves between tiers that run and that ran: how far each is, and the word that stops one.

What a move came to is kept beside its journal, so that a restart knows which were cut short.
"""

import contextlib
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from kvctl.store.files import write_whole
from kvctl.store.move import Tally
from kvctl.types.errors import LockedError, UsageError

KNOWN = 1000  # moves that are listed; the oldest are forgotten first
SUFFIX = ".status"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A move as its file has it. `state`: running (a file that says so was cut short), done, stopped, failed."""

    id: str
    source: str
    target: str
    state: str
    chosen: int = 0  # chunks, when it began
    moved: int = 0
    bytes: int = 0
    skipped: dict[str, int] = {}
    failed: dict[str, int] = {}
    ended: str = ""
    why: str = ""
    began_at: float = 0.0  # Unix seconds
    ended_at: float | None = None


@dataclass(slots=True)
class Running:
    """A move of this process."""

    id: str
    source: str
    target: str
    began_at: float
    chosen: int = 0
    tally: Tally = field(default_factory=Tally)
    cancelled: bool = False
    state: str = "running"
    why: str = ""
    ended_at: float | None = None

    def status(self) -> Status:
        tally = self.tally
        return Status(
            id=self.id, source=self.source, target=self.target, state=self.state, chosen=self.chosen,
            moved=tally.moved, bytes=tally.bytes, skipped=dict(tally.skipped), failed=dict(tally.failed),
            ended=tally.ended, why=self.why, began_at=self.began_at, ended_at=self.ended_at,
        )  # fmt: skip

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = msgspec.to_builtins(self.status())
        return row


class Moves:
    """Below `directory`; every method may be called from any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = Lock()
        self._running: dict[str, Running] = {}
        self._over: OrderedDict[str, Status] = OrderedDict()
        for file in sorted(directory.glob(f"*{SUFFIX}"), key=lambda one: one.stat().st_mtime):
            self._remember(_read(file))

    def journal(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"

    @contextlib.contextmanager
    def run(self, name: str, source: str, target: str) -> Iterator[Running]:
        """A move for the time of the block. LockedError KV-STORE-027 when one of this name runs already."""
        running = Running(name, source, target, time.time())
        with self._lock:
            if name in self._running:
                raise LockedError(
                    "KV-STORE-027", "a move of this name runs already", where=name,
                    fix="look at /v1/moves; wait for its end, or cancel it",
                )  # fmt: skip
            self._running[name] = running
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(running)
            yield running
        except BaseException as failed:
            running.state, running.why = "failed", str(failed)
            raise
        else:
            running.state = (
                "stopped" if running.tally.ended == "stopped" else "failed" if running.tally.ended else "done"
            )
        finally:
            self._end(running)

    def cancel(self, name: str) -> dict[str, Any]:
        """Have a running move stop behind the chunk that it is at. UsageError KV-STORE-028 when none runs."""
        with self._lock:
            running = self._running.get(name)
        if running is None:
            raise UsageError("KV-STORE-028", "no move of this name runs", where=name, fix="see /v1/moves")
        running.cancelled = True
        return running.row()

    def rows(self) -> list[dict[str, Any]]:
        """Running ones first, then those that are over, the latest first."""
        with self._lock:
            found = [one.status() for one in self._running.values()] + list(reversed(self._over.values()))
        return [msgspec.to_builtins(one) for one in found]

    def _end(self, running: Running) -> None:
        running.ended_at = time.time()
        with self._lock:
            del self._running[running.id]
        self._remember(running.status())
        self._write(running)

    def _remember(self, status: Status) -> None:
        with self._lock:
            self._over.pop(status.id, None)
            self._over[status.id] = status
            while len(self._over) > KNOWN:
                self._over.popitem(last=False)

    def _write(self, running: Running) -> None:
        write_whole(self._directory / f"{running.id}{SUFFIX}", msgspec.json.encode(running.status()))


def _read(file: Path) -> Status:
    """A status; one that says "running" is of a process that ended: asked for again, the move goes on."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Status)
    except (OSError, msgspec.DecodeError) as bad:
        return Status(id=file.stem, source="", target="", state="unknown", why=str(bad))
    return msgspec.structs.replace(found, state="interrupted") if found.state == "running" else found
