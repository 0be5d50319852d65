"""Erasure, scrubbing and compaction of one mount."""

import errno
import logging
import mmap
import os
from collections.abc import Callable, Iterator
from threading import Event

from xxhash import xxh3_128_digest

from kvctl.store.api import Removal, Scrubbed
from kvctl.store.buffers import HEAD, PAGE, Buffer, BufferPool
from kvctl.store.segments.change import Change
from kvctl.store.segments.chosen import Chosen
from kvctl.store.segments.layout import Entry, Place, record_size
from kvctl.store.segments.linux import data_ranges
from kvctl.store.segments.mount import Mount
from kvctl.store.segments.replay import PIECE, checksum, read_header
from kvctl.store.segments.writer import Write
from kvctl.types.chunks import Scope

log = logging.getLogger(__name__)

SPARSE = 0.25  # live share of a segment, below which its chunks move together elsewhere


def erase(mount: Mount, scope: Scope, chosen: Chosen, removal: Removal) -> int:
    """Remove a scope's chunks that are chosen, and every trace of them in the mount's files. Raises OSError.

    Removal is committed before anything is punched: no crash brings a chunk back. Then the index is written anew,
    because pages that LMDB has freed keep the old values. Held chunks stay, those in quarantine as well.
    """
    mount.drain()
    total = 0
    while gone := sum(mount.remove(scope, keys, removal, wipe=True) for keys in chosen.names(mount, scope)):
        total += gone  # and again: some may have come in behind the look
    total += _drop_bad(mount, scope, chosen, removal)
    freed = set(mount.index.holes())  # earlier ones included: they may hold the same subject's bytes
    mount.holes.punch()
    mount.commit(lambda made: None)
    if freed & set(mount.index.holes()):
        raise OSError(errno.EIO, "freed ranges could not be punched")
    mount.drop_empty()
    mount.index.compact()
    return total


def _drop_bad(mount: Mount, scope: Scope, chosen: Chosen, removal: Removal) -> int:
    """What of the chosen is in quarantine goes too; the scope's names with its last chunk."""
    bad = [entry for entry in mount.index.quarantined(scope) if chosen.takes(entry)]
    with mount.guard.deciding() as held:
        kept = {entry.record.key for entry in bad if held(scope, entry.record.key, entry.record.meta)}

        def finish(made: Change) -> int:
            dropped = sum(made.drop_quarantined(scope, one.record.key) for one in bad if one.record.key not in kept)
            if chosen.whole and not kept:
                made.drop_scope(scope)
            return dropped

        dropped = mount.commit(finish)
    removal.held.update((scope, key) for key in kept)
    return dropped


def scrub(mount: Mount, stop: Callable[[], bool]) -> Scrubbed:
    """Read every chunk; a wrong checksum, twice, puts it into quarantine. Ends early when reads fail or `stop` says."""
    chunks = size = 0
    bad: list[tuple[Scope, bytes]] = []
    try:
        mount.drain()
        with mmap.mmap(-1, PIECE) as memory, memoryview(memory) as view:
            for entry in _everything(mount):
                if stop() or not mount.health.readable:
                    break
                good = _check(mount, entry, view)
                if good is None:
                    continue
                chunks += 1
                size += entry.record.length
                if not good and mount.quarantine(entry):
                    bad.append((entry.scope, entry.record.key))
    except OSError as failed:  # the index: what was seen so far counts, and the other mounts are read
        mount.health.read_failed(failed)
    return Scrubbed(chunks, size, tuple(bad))


def sparse_segments(mount: Mount) -> list[int]:
    """Sealed segments of which little is alive, the emptiest first."""
    limit = SPARSE * mount.log.segment_size
    found = [
        (size, number)
        for number, (size, chunks) in mount.index.segments().items()
        if chunks and size < limit and number < mount.log.tail.segment
    ]
    return [number for _, number in sorted(found)]


def compact_segment(mount: Mount, pool: BufferPool, segment: int) -> int:
    """Move a segment's live chunks to the end of the log and drop it; 1 when it is gone. Raises OSError.

    A copy is a record like any other: until it is in the index, the old one is what counts.
    """
    whole = Place(segment, -1)
    mount.holes.pin(whole)  # the file stays while it is looked through
    try:
        if mount.index.segments().get(segment, (0, 0))[1]:
            _move_all(mount, pool, segment)
    finally:
        mount.holes.unpin(whole)
    mount.drain()
    return int(segment not in mount.index.segments())


def _everything(mount: Mount) -> Iterator[Entry]:
    for scope in list(mount.index.numbers):
        yield from mount.index.walk(scope)


def _check(mount: Mount, entry: Entry, view: memoryview) -> bool | None:
    """Whether a chunk's bytes are what was written; None when it is gone by now or cannot be read."""
    mount.holes.pin(entry.place)
    try:
        for _ in range(2):
            found = mount.index.get(entry.scope, entry.record.key)
            if found is None or found.place != entry.place:
                return None
            fd = mount.log.fd(entry.place.segment)
            if checksum(fd, entry.place.offset, entry.record.length, view) == entry.record.checksum:
                mount.health.read()
                return True
        return False
    except OSError as failed:
        mount.health.read_failed(failed)
        return None
    finally:
        mount.holes.unpin(entry.place)


def _live(mount: Mount, segment: int, view: memoryview) -> Iterator[Entry]:
    """Chunks that the index finds in a segment, by the headers in it."""
    fd = mount.log.fd(segment)
    at = 0
    for begin, end in data_ranges(fd, 0, os.fstat(fd).st_size):
        at = max(at, begin)
        while at < end:
            header = read_header(fd, at, mount.volume.number, view)
            if header is None:
                at += PAGE
                continue
            entry = mount.index.get(header.scope, header.record.key)
            if entry is not None and entry.place == Place(segment, at):
                yield entry
            at += record_size(header.record.length)


def _move_all(mount: Mount, pool: BufferPool, segment: int) -> None:
    with mmap.mmap(-1, HEAD) as memory, memoryview(memory) as view:
        for entry in _live(mount, segment, view):
            mount.holes.pin(entry.place)
            try:
                _move(mount, pool, entry)
            finally:
                mount.holes.unpin(entry.place)


def _move(mount: Mount, pool: BufferPool, entry: Entry) -> None:
    buffer = pool.take(entry.record.length, timeout=1.0)
    if buffer is None:
        log.info("compaction of segment %d waits: no memory is free", entry.place.segment)
        return
    try:
        if _fill(mount, entry, buffer):
            done = Event()
            write = Write(entry.scope, entry.record, buffer, False, lambda status: done.set(), entry.used, moved=True)
            if mount.move(entry, write):
                done.wait()
    finally:
        buffer.release()


def _fill(mount: Mount, entry: Entry, buffer: Buffer) -> bool:
    """Read a record's body; False, and quarantined, when it is not what was written. Raises OSError."""
    fd = mount.log.fd(entry.place.segment)
    got = os.preadv(fd, [buffer.whole[HEAD:]], entry.place.offset + HEAD)
    if got >= entry.record.length and xxh3_128_digest(buffer.body) == entry.record.checksum:
        return True
    mount.quarantine(entry)
    return False
