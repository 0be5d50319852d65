"""What a mount's segments hold behind the index's watermark: read again after a crash."""

import mmap
import os
from dataclasses import dataclass, field

from xxhash import xxh3_128

from kvctl.store.buffers import HEAD, PAGE, padded
from kvctl.store.segments.layout import Entry, Header, Place, record_size, unpack_header
from kvctl.store.segments.linux import ZEROS, data_ranges
from kvctl.store.segments.segment_log import SegmentLog

PIECE = 4 << 20


@dataclass(slots=True)
class Replayed:
    """Whole records in log order, ranges that hold none, and where appending goes on."""

    tail: Place
    sequence: int  # of the next record
    entries: list[Entry] = field(default_factory=list)
    torn: dict[Place, int] = field(default_factory=dict)


def replay(log: SegmentLog, volume: bytes, mark: Place, sequence: int) -> Replayed:
    """Read the tail of the log from `mark` on. Raises OSError when a segment cannot be read."""
    segments = [number for number in log.existing() if number >= mark.segment]
    found = Replayed(Place(0, 0), sequence)
    with mmap.mmap(-1, PIECE) as memory, memoryview(memory) as view:
        for segment in segments:
            start = mark.offset if segment == mark.segment else 0
            _scan(log.fd(segment), segment, start, volume, view, found)
    return found


def _scan(fd: int, segment: int, start: int, volume: bytes, view: memoryview, found: Replayed) -> None:
    end = padded(os.fstat(fd).st_size)
    at = tail = start
    for begin, stop in data_ranges(fd, start, end):
        at = max(at, begin)
        while at < stop:
            header = read_header(fd, at, volume, view)
            if header is not None and header.sequence >= found.sequence and _whole(fd, at, header, view):
                found.entries.append(Entry(header.scope, header.record, Place(segment, at), header.record.stored_at))
                found.sequence = header.sequence + 1
                at = tail = at + record_size(header.record.length)
            else:
                if view[:PAGE] != ZEROS[:PAGE]:
                    _tear(found.torn, segment, at)
                    tail = at + PAGE
                at += PAGE
    found.tail = Place(segment, tail)


def read_header(fd: int, offset: int, volume: bytes, view: memoryview) -> Header | None:
    """The record header at an offset, or None when there is none. Raises OSError."""
    page = view[:HEAD]
    return unpack_header(page, volume) if os.preadv(fd, [page], offset) == HEAD else None


def checksum(fd: int, offset: int, length: int, view: memoryview) -> bytes:
    """xxh3-128 of a record's sealed bytes; of fewer when the file ends early. Raises OSError."""
    digest = xxh3_128()
    at = 0
    while at < length:
        size = min(len(view), padded(length - at))
        got = os.preadv(fd, [view[:size]], offset + HEAD + at)
        if got <= 0:
            break
        digest.update(view[: min(got, length - at)])
        at += got
    return digest.digest()


def _whole(fd: int, offset: int, header: Header, view: memoryview) -> bool:
    return checksum(fd, offset, header.record.length, view) == header.record.checksum


def _tear(torn: dict[Place, int], segment: int, at: int) -> None:
    """Note a page that belongs to no whole record; neighbours make one range."""
    last = next(reversed(torn), None)
    if last is not None and last.segment == segment and last.offset + torn[last] == at:
        torn[last] += PAGE
    else:
        torn[Place(segment, at)] = PAGE
