"""The appendable journal of the entries that are not in full tiles yet: `tail/<first index>`, one file after the other.

A segment begins with a header of 36 bytes: `KVTAIL1\\n`, first index u64, salt 16, CRC-32 u32 of the 32 bytes before.
Then one frame a group commit: `KVG1`, length u32, first index u64, entries u32, CRC-32 u32 of the salt, the 20 bytes
before and the payload; the payload is entries as in a bundle. Integers are big-endian.
"""

import contextlib
import os
import secrets
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.ledger.files import Stage, write_all
from kvctl.ledger.tiles import damaged, decode_bundle

SEGMENT = struct.Struct(">8sQ16sI")
FRAME = struct.Struct(">4sIQII")
MAGIC = b"KVTAIL1\n"
GROUP = b"KVG1"
SALT_BYTES = 16
CHECKED = FRAME.size - 4  # bytes of a frame's header that its CRC covers
ROLL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a segment stops making sense; `torn` when nothing whole follows, as after a crash."""

    offset: int
    index: int  # of the entry that was expected there
    why: str
    torn: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """What one file holds. `end` is the offset behind the last whole frame."""

    path: Path
    first: int
    salt: bytes
    entries: list[bytes]
    end: int
    fault: Fault | None

    @property
    def stop(self) -> int:
        return self.first + len(self.entries)


def segment_name(first: int) -> str:
    return f"tail/{first:016}"


def segment_paths(directory: Path) -> list[Path]:
    """The segments, oldest first."""
    place = directory / "tail"
    return sorted(place.iterdir(), key=lambda path: path.name) if place.is_dir() else []


def parse_header(path: Path, data: bytes) -> tuple[int, bytes]:
    """First index and salt. KV-LEDGER-004 for a file that does not begin as a segment of that name."""
    if len(data) < SEGMENT.size:
        raise damaged(path, f"it has {len(data)} bytes, fewer than a header")
    magic, first, salt, crc = SEGMENT.unpack_from(data)
    if magic != MAGIC or crc != zlib.crc32(data[: SEGMENT.size - 4]):
        raise damaged(path, "byte 0: this is not the header of a journal")
    if path.name != Path(segment_name(first)).name:
        raise damaged(path, f"byte 8: the header says that it begins with entry {first}")
    return first, salt


def encode_header(first: int, salt: bytes) -> bytes:
    head = SEGMENT.pack(MAGIC, first, salt, 0)[:-4]
    return head + zlib.crc32(head).to_bytes(4, "big")


def encode_frame(salt: bytes, first: int, count: int, payload: bytes) -> bytes:
    head = FRAME.pack(GROUP, len(payload), first, count, 0)[:CHECKED]
    crc = zlib.crc32(payload, zlib.crc32(head, zlib.crc32(salt)))
    return b"".join((head, crc.to_bytes(4, "big"), payload))


def parse_frame(salt: bytes, data: bytes, at: int) -> tuple[int, list[bytes], int] | str:
    """First index, entries, and the offset behind them; or why there is no frame."""
    if len(data) - at < FRAME.size:
        return f"{len(data) - at} bytes are too few for a frame"
    magic, length, first, count, crc = FRAME.unpack_from(data, at)
    start, end = at + FRAME.size, at + FRAME.size + length
    if magic != GROUP:
        return "no frame begins here"
    if end > len(data):
        return f"the frame of {length} bytes is cut short"
    payload = data[start:end]
    if crc != zlib.crc32(payload, zlib.crc32(data[at : at + CHECKED], zlib.crc32(salt))):
        return "the frame's checksum is wrong"
    try:
        entries = decode_bundle(payload)
    except ValueError as error:
        return str(error)
    return (first, entries, end) if len(entries) == count else f"it holds {len(entries)} entries and says {count}"


def read_segment(path: Path) -> Segment:
    """KV-LEDGER-004 when the file cannot be read or has no header; other faults are in what is returned."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    first, salt = parse_header(path, data)
    entries: list[bytes] = []
    at = SEGMENT.size
    fault = None
    while at < len(data):
        frame = parse_frame(salt, data, at)
        index = first + len(entries)
        if not isinstance(frame, str) and frame[0] != index:
            frame = f"the frame says entry {frame[0]} where {index} is next"
        if isinstance(frame, str):
            fault = Fault(at, index, frame, torn=not any(_later_frames(salt, data, at)))
            break
        entries += frame[1]
        at = frame[2]
    return Segment(path, first, salt, entries, at, fault)


def _later_frames(salt: bytes, data: bytes, after: int) -> Iterator[bool]:
    """A whole frame behind a broken one: then no crash broke it, for a frame is begun after the one before is safe."""
    at = after
    while (at := data.find(GROUP, at + 1)) != -1:
        yield not isinstance(parse_frame(salt, data, at), str)


class Tail:
    """The writer of the journal. One thread at a time writes; another may drop old segments meanwhile."""

    def __init__(self, directory: Path, stage: Stage, segments: Sequence[Segment]) -> None:
        self._directory = directory
        self._stage = stage
        self._firsts = [one.first for one in segments]
        self._dirty = False
        if segments:
            last = segments[-1]
            self._use(last.path, last.salt, last.end)
        else:
            self._begin(0)

    def _begin(self, first: int) -> None:
        salt = secrets.token_bytes(SALT_BYTES)
        name = segment_name(first)
        self._stage.put([(name, encode_header(first, salt))])
        self._use(self._directory / name, salt, SEGMENT.size)
        self._firsts.append(first)

    def _use(self, path: Path, salt: bytes, end: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._salt = salt
        self._end = end

    def write(self, first: int, count: int, payload: bytes) -> None:
        """Put a group of entries on the medium. On OSError nothing of it is kept, or the next write fails too."""
        if self._dirty:
            self._cut()
        if self._end >= ROLL_BYTES:
            before = self._descriptor
            self._begin(first)
            os.close(before)
        frame = encode_frame(self._salt, first, count, payload)
        try:
            write_all(self._descriptor, frame)
            os.fdatasync(self._descriptor)
        except OSError:
            self._dirty = True
            with contextlib.suppress(OSError):  # the next write cuts before it writes
                self._cut()
            raise
        self._end += len(frame)

    def _cut(self) -> None:
        """Take away what a failed write may have left, on the medium."""
        os.ftruncate(self._descriptor, self._end)
        os.fsync(self._descriptor)
        self._dirty = False

    def drop(self, kept: int) -> None:
        """Remove the segments whose entries are all below `kept`; never the one that is written to."""
        while len(self._firsts) > 1 and self._firsts[1] <= kept:
            (self._directory / segment_name(self._firsts[0])).unlink(missing_ok=True)
            self._firsts.pop(0)

    def close(self) -> None:
        os.close(self._descriptor)
