"""Opening a log's directory for writing: what a crash left is cut off, and what is damaged is refused."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvctl.ledger.files import Stage
from kvctl.ledger.note import Checkpoint, Signer, open_checkpoint, sign
from kvctl.ledger.reader import read_note
from kvctl.ledger.tail import Segment, Tail, read_segment, segment_paths
from kvctl.ledger.tiles import ENTRIES, Kind, TileFiles, damaged
from kvctl.ledger.tree import EMPTY_ROOT, WIDTH, Edge, leaf_hash, partial_tiles


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log as it was found: the published tree, and the entries from `kept` on, which are in no full tile."""

    note: str
    published: Checkpoint
    edge: Edge
    kept: int
    pending: list[bytes]
    tail: Tail


def recover(directory: Path, origin: str, signer: Signer, stage: Stage) -> Recovered:
    """KV-LEDGER-004 and -005 when the directory is not what a crash could have left; OSError."""
    stage.clear()
    note = _note(directory, origin, signer, stage)
    published = open_checkpoint(note, origin, signer.public, str(directory / "checkpoint"))
    files = TileFiles(directory)
    edge = Edge.read(published.size, files.hashes)
    if edge.root() != published.root:
        raise damaged(directory / "tile", f"the tiles do not lead to the root of the checkpoint of {published.size}")
    kept = published.size - published.size % WIDTH
    segments = _segments(directory, kept, published.size)
    pending = [entry for one in segments for entry in one.entries[max(0, kept - one.first) :]]
    _compare(directory, kept, pending, edge)
    _tidy(files, published.size)
    return Recovered(note, published, edge, kept, pending, Tail(directory, stage, segments))


def _note(directory: Path, origin: str, signer: Signer, stage: Stage) -> str:
    """The checkpoint's text; a new directory gets that of the empty tree, so that one is never missing later."""
    if (directory / "checkpoint").exists():
        return read_note(directory)
    if (directory / "tile").exists() or segment_paths(directory):
        raise damaged(directory / "checkpoint", "there is no checkpoint, but there are entries")
    note = sign(Checkpoint(origin, 0, EMPTY_ROOT), signer)
    stage.put([("checkpoint", note.encode())])
    return note


def _segments(directory: Path, kept: int, size: int) -> list[Segment]:
    """The journal from the segment that has entry `kept`; a torn end is cut off."""
    found = [read_segment(path) for path in segment_paths(directory)]
    while len(found) > 1 and found[1].first <= kept:
        found.pop(0).path.unlink()
    if not found and size == 0:
        return []
    if not found or found[0].first > kept:
        raise damaged(directory / "tail", f"the journal does not have entry {kept}")
    for one, after in zip(found, [*found[1:], None], strict=True):
        _judge(one, after)
    if found[-1].stop < size:
        why = f"the journal ends before entry {found[-1].stop}; the checkpoint covers {size} entries"
        raise damaged(found[-1].path, why)
    if found[-1].fault:
        _cut(found[-1])
    return found


def _judge(one: Segment, after: Segment | None) -> None:
    if one.fault and not (one.fault.torn and after is None):
        raise damaged(one.path, f"byte {one.fault.offset}, entry {one.fault.index}: {one.fault.why}")
    if after and after.first != one.stop:
        raise damaged(after.path, f"it begins with entry {after.first}, but {one.stop} is next")


def _cut(segment: Segment) -> None:
    descriptor = os.open(segment.path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, segment.end)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _compare(directory: Path, kept: int, pending: Sequence[bytes], edge: Edge) -> None:
    """The journal and the published tree must agree where both have an entry."""
    known = edge.levels[0] if edge.levels else []
    for index, (entry, known_hash) in enumerate(zip(pending, known, strict=False), kept):
        if leaf_hash(entry) != known_hash:
            raise damaged(directory / "tail", f"entry {index} is not the one that was published")


def _tidy(files: TileFiles, size: int) -> None:
    """Remove the unfinished tiles that a crash kept from being removed."""
    for level, index, width in partial_tiles(size):
        kinds: tuple[Kind, ...] = (level, ENTRIES) if level == 0 else (level,)
        for kind in kinds:
            files.drop_partials(kind, index, width or None)
            if index:
                files.drop_partials(kind, index - 1)
