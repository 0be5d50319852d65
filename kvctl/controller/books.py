"""The books of a site: the control log, which is the truth, and the tables that are made from it.

A change is an event in the log (durable first), then rows. A process that dies between the two loses nothing: the next
one applies what the tables do not have yet.
"""

import json
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvctl.connector.keys import Identity
from kvctl.controller.clock import now
from kvctl.controller.datalog import DataLog
from kvctl.ledger.log import Log
from kvctl.state.appliers import APPLIERS
from kvctl.state.governance import Connection, GovernanceState
from kvctl.types.errors import KvctlError, UsageError
from kvctl.types.events import Event, Recorded
from kvctl.types.principals import Principal

RESERVE = 64 << 20  # bytes of free disk below which nothing is changed any more: DuckDB at its end loses its footing
BATCH = 10_000  # events applied in one transaction when the tables are behind


class Books:
    """Open for as long as this object lives, by one process. LockedError KV-LEDGER-nnn when another one has them."""

    def __init__(self, directory: Path, site: str) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory
        self.site = site
        self.identity = site_identity(directory / "site.key")
        self.on_commit: list[Callable[[Sequence[Recorded]], None]] = []  # told after each commit; quick, never raising
        self._lock = threading.RLock()
        self.log = Log.open(directory / "ledger" / "control", f"kvctl.{site}/control", self.identity)
        try:
            self.state = GovernanceState(directory / "governance.duckdb", APPLIERS)
            self.catch_up()
        except BaseException:
            self.log.close()
            raise
        self.data = DataLog(directory, site, self.identity)

    def catch_up(self) -> int:
        """Apply what the log has and the tables do not. How many events that were."""
        with self._lock:
            applied = self.state.applied()
            if applied > self.log.size:
                raise KvctlError(
                    "KV-CTL-001", "the tables hold more events than the control log",
                    where=str(self.directory), why=f"{applied} applied, {self.log.size} in the log",
                    fix="the log was cut or an older one was put back: kvctl audit verify; then kvctl audit reindex",
                )  # fmt: skip
            done = 0
            for batch in _batches(self.recorded(applied), BATCH):
                self.state.apply(batch)
                done += len(batch)
            return done

    def recorded(self, start: int, stop: int | None = None) -> Iterator[Recorded]:
        """Events of the control log from the index `start` on."""
        end = self.log.size if stop is None else min(stop, self.log.size)
        for index, entry in enumerate(self.log.read(start, end), start):
            yield read_entry(index, entry)

    def commit(self, who: Principal, events: Sequence[Event]) -> list[Recorded]:
        """Record events and apply them, all or none. When this returns they are durable.

        The tables take them first, in a transaction that ends after the log has them: what the tables refuse must not
        be in the log, from which they are made again. UsageError KV-CTL-076 for that; KV-CTL-002 when the disk is
        nearly full; what the log raises when it cannot be written: then nothing happened.
        """
        if not events:
            return []
        with self._lock:
            self._have_room()
            if self.state.applied() != self.log.size:
                self.catch_up()  # the log took events that the tables then refused, as on a full disk
            at, first = now(), self.log.size
            entries = [entry_of(self.site, first + i, at, who, event) for i, event in enumerate(events)]
            done = [read_entry(first + i, entry) for i, entry in enumerate(entries)]
            with self.state.applying(done):
                self.log.append(entries)
        for told in tuple(self.on_commit):
            told(done)
        return done

    def _have_room(self) -> None:
        free = os.statvfs(self.directory)
        if free.f_bavail * free.f_frsize < RESERVE:
            raise KvctlError(
                "KV-CTL-002", "the disk under the controller's state is full: nothing was changed",
                where=str(self.directory), why=f"less than {RESERVE >> 20} MiB are free; reads go on",
                fix="make room; no restart is needed",
            )  # fmt: skip

    @contextmanager
    def deciding(self) -> Iterator[Connection]:
        """Reads whose outcome decides a change: nobody else commits until the end of the block."""
        with self._lock, self.state.reading() as db:
            yield db

    def reindex(self) -> int:
        """Empty the tables and apply the whole log again. How many events that were."""
        with self._lock:
            self.state.empty()
            return self.catch_up()

    def close(self) -> None:
        with self._lock:
            self.data.close()
            self.state.close()
            self.log.close()


def entry_of(site: str, index: int, at: str, who: Principal, event: Event) -> bytes:
    """One leaf. The bytes written are the bytes hashed. The nonce keeps a leaf from being guessed out of its hash."""
    document = {
        "v": 1, "nonce": secrets.token_hex(16), "source": site, "seq": index + 1, "at": at, "kind": event.kind,
        "actor": who.name, "actor_tenant": who.tenant, "tenant": event.tenant, "outcome": event.outcome,
        "data": dict(event.data),
    }  # fmt: skip
    try:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # NaN, Infinity, half a surrogate pair: no other reader of the log would take them
        raise UsageError(
            "KV-CTL-076", "this cannot be put on record: nothing was changed", where=event.kind, why=str(error)
        ) from error


def read_entry(index: int, entry: bytes) -> Recorded:
    """KV-CTL-003 for a leaf that is not an event of a version that this kvctl knows."""
    try:
        d: dict[str, Any] = json.loads(entry)
        if d["v"] != 1:
            raise ValueError(f"version {d['v']}")
        return Recorded(index, d["at"], d["actor"], d["actor_tenant"], d["kind"], d["tenant"], d["outcome"], d["data"])
    except (ValueError, KeyError, TypeError) as error:
        raise KvctlError(
            "KV-CTL-003", f"entry {index} of the control log cannot be read", why=str(error),
            fix="kvctl audit verify names what was changed; a newer kvctl may have written it",
        ) from error  # fmt: skip


def site_identity(path: Path) -> Identity:
    """The key that signs the site's checkpoints, snapshots and capabilities; made when there is none."""
    if not path.exists():
        Identity.generate().save(path)
    return Identity.load(path)


def _batches(events: Iterable[Recorded], size: int) -> Iterator[list[Recorded]]:
    batch: list[Recorded] = []
    for event in events:
        batch.append(event)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
