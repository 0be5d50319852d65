"""What a log's directory holds beside the tree of its checkpoint, read at one moment of a log that may be growing."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvctl.ledger.report import Problem
from kvctl.ledger.tail import Segment, read_segment, segment_paths
from kvctl.ledger.tiles import ENTRIES, Kind
from kvctl.ledger.tree import HEIGHT, WIDTH
from kvctl.types.errors import KvctlError

TRIES = 200
TORN_TRIES = 5
TILE = re.compile(r"tile/(entries|0|[1-9][0-9]?)/((?:x\d{3}/)*)(\d{3})(?:\.p/([1-9]\d{0,2}))?")
OURS = re.compile(r"lock|checkpoint|tail/\d{16}|tmp/.*")


@dataclass(frozen=True, slots=True)
class Stray:
    """A tile that the tree of the checkpoint does not ask for: left by a crash, or from after the checkpoint."""

    name: str
    kind: Kind
    index: int
    width: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`note` is the checkpoint as it was read; None when there is none."""

    note: bytes | None
    segments: list[Segment]
    names: list[str]
    problems: list[Problem]


def take(directory: Path) -> Snapshot:
    """Read until nothing was dropped in between: no segment is missing, or the checkpoint is still the same.

    The order matters: what lies beyond the checkpoint when names are listed is in the journal when that is read.
    """
    for _ in range(TRIES):
        note = _read(directory / "checkpoint")
        names = sorted(_names(directory))
        segments, problems = _segments(directory)
        if (not problems and _reaches_back(segments, note)) or note == _read(directory / "checkpoint"):
            break
    return Snapshot(note, segments, names, problems)


def _reaches_back(segments: list[Segment], note: bytes | None) -> bool:
    """Whether the journal begins before the first entry that is in no full tile of the checkpoint."""
    lines = (note or b"").split(b"\n")
    if not segments or len(lines) < 2 or not lines[1].isdigit():
        return False
    return segments[0].first <= int(lines[1]) // WIDTH * WIDTH


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or str(error)
        fix = "read the log as a user who may, on a drive that works"
        raise KvctlError(
            "KV-LEDGER-014", "a file of the log cannot be read", where=str(path), why=why, fix=fix
        ) from error


def _names(directory: Path) -> Iterator[str]:
    for place, _, names in os.walk(directory):
        yield from (str((Path(place) / name).relative_to(directory)) for name in names)


def _segments(directory: Path) -> tuple[list[Segment], list[Problem]]:
    found: list[Segment] = []
    problems = []
    for path in segment_paths(directory):
        try:
            found.append(_settled(path))
        except KvctlError as error:
            problems.append(Problem(f"tail/{path.name}", error.why))
    return found, problems


def _settled(path: Path) -> Segment:
    """A frame that is being written looks torn for a moment; one that was torn stays so."""
    segment = read_segment(path)
    for _ in range(TORN_TRIES):
        if not segment.fault:
            break
        segment = read_segment(path)
    return segment


def parse_name(name: str) -> tuple[Kind, int, int] | None:
    """Kind, index and width of a tile's path; None for another path."""
    match = TILE.fullmatch(name)
    if not match:
        return None
    kind, high, low, width = match.groups()
    index = int("".join(part[1:] for part in high.split("/")) + low)
    return (ENTRIES if kind == ENTRIES else int(kind)), index, int(width) if width else WIDTH


def strays(directory: Path, names: list[str], size: int) -> tuple[list[Stray], list[Problem]]:
    """The files that a log of `size` entries does not ask for, and the problem that some of them are."""
    found, problems = [], []
    for name in names:
        tile = parse_name(name)
        if tile is None:
            if not OURS.fullmatch(name):
                problems.append(Problem(name, "this is no file of a log"))
        elif not asked_for(*tile, size):
            data = _read(directory / name)
            if data is not None:
                found.append(Stray(name, *tile, data))
    return found, problems


def asked_for(kind: Kind, index: int, width: int, size: int) -> bool:
    whole, rest = divmod(size >> (HEIGHT * kind) if isinstance(kind, int) else size, WIDTH)
    return index < whole if width == WIDTH else (index, width) == (whole, rest)
