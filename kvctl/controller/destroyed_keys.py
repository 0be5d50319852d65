"""Keys that were destroyed, by the names of their files, as a control log tells it: no backup brings them back.

A restore replaces the log that tells it. So all that was known goes into the log that takes its place, as events of the
kind LEFT_OUT, and the restore after it knows as much.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvctl.controller.books import read_entry
from kvctl.controller.keystore import root_file, subject_file
from kvctl.ledger.reader import read_note
from kvctl.ledger.tail import read_segment, segment_paths
from kvctl.ledger.tiles import TileFiles
from kvctl.ledger.tree import WIDTH
from kvctl.state.governance import Connection, rows
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError
from kvctl.types.events import Event, Recorded

logger = logging.getLogger(__name__)
LEFT_OUT = "backup.keys-left-out"
AT_ONCE = 200  # keys in one event: an entry of the log has at most 64 KiB
# File of the key store -> fingerprints of keys; None where a log does not have it. They matter for pseudonyms: when a
# log is put back from before a tenant was taken in, another tenant may be taken in under the same name.
Keys = dict[str, set[str | None]]


@dataclass(slots=True)
class Told:
    """What a log tells of keys."""

    made: dict[str, str | None] = field(default_factory=dict)  # file -> fingerprint
    gone: Keys = field(default_factory=dict)  # from the moment that their destruction began

    def take(self, event: Recorded) -> None:
        tenant, data = event.tenant or "", event.data
        if event.kind == "tenant.created":
            self.made[subject_file(tenant)] = data.get("subject_fingerprint")
        elif event.kind == "epoch.created":
            self.made[_root(event)] = data.get("fingerprint")
        elif event.kind in ("epoch.destroying", "epoch.destroyed"):
            self._is_gone(_root(event))
        elif event.kind in ("tenant.offboarding", "tenant.offboarded"):
            self._is_gone(subject_file(tenant))
        elif event.kind == LEFT_OUT:
            self.leave_out(data)

    def leave_out(self, data: Mapping[str, Any]) -> None:
        for key in data["keys"]:
            self.gone.setdefault(str(key["file"]), set()).add(key["fingerprint"])

    def _is_gone(self, file: str) -> None:
        self.gone.setdefault(file, set()).add(self.made.get(file))


def _root(event: Recorded) -> str:
    return root_file(Scope(event.tenant or "", str(event.data["domain"]), bytes.fromhex(str(event.data["epoch"]))))


def is_among(file: str, fingerprint: str | None, keys: Keys) -> bool:
    """Whether the key is one of these. A fingerprint that is not known tells no two keys apart."""
    known = keys.get(file, set())
    return bool(known) and (fingerprint is None or not known.isdisjoint({None, fingerprint}))


def events(told: Told, log: Told, backup: str) -> list[Event]:
    """What goes on record of keys that are gone, as far as the log itself does not tell it."""
    of_tenant: dict[str, list[dict[str, str | None]]] = {}
    for file, prints in sorted(told.gone.items()):
        new = sorted(prints - log.gone.get(file, set()), key=str)
        of_tenant.setdefault(file.split(".")[0], []).extend({"file": file, "fingerprint": one} for one in new)
    return [
        Event(LEFT_OUT, {"backup": backup, "keys": keys[at : at + AT_ONCE]}, tenant)
        for tenant, keys in of_tenant.items()
        for at in range(0, len(keys), AT_ONCE)
    ]


def left_out(db: Connection) -> Keys:
    """What restores left out, as far as it is on record."""
    told = Told()
    for row in rows(db, "SELECT data FROM events WHERE kind = ?", [LEFT_OUT]):
        told.leave_out(json.loads(str(row["data"])))
    return told.gone


def entries(log: Path) -> Iterator[bytes | None]:
    """Every entry that is on the medium, also those of a process that was killed before a checkpoint covered them.

    None for one that cannot be read, and for each part of which nobody can tell what it had.
    """
    size, journal, faults = 0, dict[int, bytes](), 0
    try:
        size = int(read_note(log).split("\n")[1])
    except (KvctlError, ValueError, IndexError) as error:
        logger.warning("%s has no checkpoint that can be read: %s", log, error)
        faults += 1
    for path in segment_paths(log):
        try:
            segment = read_segment(path)
        except KvctlError as error:
            logger.warning("%s", error)
            faults += 1
            continue
        journal.update(enumerate(segment.entries, segment.first))
        faults += segment.fault is not None and not segment.fault.torn
    files = TileFiles(log)
    for start in range(0, size, WIDTH):
        width = min(WIDTH, size - start)
        try:
            yield from files.entries(start // WIDTH, width)
        except KvctlError as error:
            logger.warning("%s", error)
            yield from (journal.get(index) for index in range(start, start + width))
    yield from (journal.get(index) for index in range(size, max(journal, default=-1) + 1))
    yield from [None] * faults


@dataclass(slots=True)
class Replaced:
    """A log that another takes the place of."""

    size: int = 0
    common: int = 0  # entries that the other has as well, from the first one on
    unread: int = 0


def read(log: Path, told: Told, other: Iterable[bytes] = ()) -> Replaced:
    """Take what a log tells, and compare it with another's entries."""
    found, others, same = Replaced(), iter(other), True
    for index, entry in enumerate(entries(log)):
        beside = next(others, None)
        same = same and beside is not None and entry in (None, beside)
        found.size += 1
        found.common += same
        found.unread += not _take(told, index, entry)
    return found


def _take(told: Told, index: int, entry: bytes | None) -> bool:
    """Whether it could be read."""
    if entry is None:
        return False
    try:
        told.take(read_entry(index, entry))
    except (KvctlError, KeyError, ValueError, TypeError) as error:
        logger.warning("entry %d tells nothing of keys: %s", index, error)
        return False
    return True
