"""Checks a log's directory: everything is computed again from the entries and compared with every file.

What this cannot show: that who holds the log's key did not write the whole log anew. An earlier checkpoint that was
kept elsewhere, or a witness, shows that.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kvctl.ledger.counters import Counters
from kvctl.ledger.note import Checkpoint, NoteError, open_note
from kvctl.ledger.report import Problem, Report
from kvctl.ledger.snapshot import Snapshot, Stray, strays, take
from kvctl.ledger.tail import Segment
from kvctl.ledger.tiles import ENTRIES, Kind, TileFiles, encode_bundle, tile_path
from kvctl.ledger.tree import WIDTH, leaf_hash
from kvctl.ledger.walk import Walk
from kvctl.types.errors import KvctlError, UsageError

__all__ = ["Problem", "Report", "verify"]


def verify(
    directory: Path,
    origin: str,
    public: bytes,
    since: str | Sequence[str] | None = None,
    *,
    counters: bool = True,
) -> Report:
    """Compute a log again from its entries; `problems` names every place that is not as it was written.

    `since`: earlier checkpoints (signed notes) that the log must continue. `counters=False`: the entries are not
    numbered by source. The log may be growing meanwhile. UsageError KV-LEDGER-009 when there is no such directory.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise UsageError("KV-LEDGER-009", "the log cannot be opened", where=str(directory), why="no such directory")
    snapshot = take(directory)
    problems = list(snapshot.problems)
    checkpoint = _checkpoint(snapshot, origin, public, problems)
    size = checkpoint.size if checkpoint else _estimate(snapshot)
    left, unknown = strays(directory, snapshot.names, size)
    earlier = _earlier([since] if isinstance(since, str) else since or (), origin, public, problems)
    numbers = Counters() if counters else None
    files = TileFiles(directory)
    walk = Walk(files, size, checkpoint.root if checkpoint else None, [one.size for one in earlier], numbers)
    walk.run()
    root = walk.edge.root() if walk.edge else None
    problems += walk.problems
    if checkpoint and root not in (None, checkpoint.root):
        what = f"its root is not that of the {size} entries that are there"
        problems.append(Problem("checkpoint", what, 0 if size else None))
    problems += _continued(earlier, size, walk)
    beyond, found = check_journal(snapshot.segments, files, size, walk.blamed, not snapshot.problems)
    problems += [*found, *unknown, *check_strays(left, files, size, walk, beyond)]
    return Report(origin, size, root, problems, len(beyond), numbers.last if numbers else {})


def _checkpoint(snapshot: Snapshot, origin: str, public: bytes, problems: list[Problem]) -> Checkpoint | None:
    try:
        if snapshot.note is None:
            raise NoteError("there is no such file")
        return open_note(snapshot.note.decode(), origin, public)
    except (NoteError, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, NoteError) else "it is not UTF-8"
        problems.append(Problem("checkpoint", f"this is no checkpoint of {origin}: {why}"))
        return None


def _estimate(snapshot: Snapshot) -> int:
    """How many entries there are, without a checkpoint to say so."""
    if snapshot.segments:
        return snapshot.segments[-1].stop
    return WIDTH * sum(name.startswith(f"tile/{ENTRIES}/") and ".p/" not in name for name in snapshot.names)


def _earlier(notes: Sequence[str], origin: str, public: bytes, problems: list[Problem]) -> list[Checkpoint]:
    found = []
    for note in notes:
        try:
            found.append(open_note(note, origin, public))
        except NoteError as error:
            problems.append(Problem("the earlier checkpoint", f"this is no checkpoint of {origin}: {error}"))
    return sorted(found, key=lambda one: one.size)


def _continued(earlier: Sequence[Checkpoint], size: int, walk: Walk) -> Iterator[Problem]:
    """The earlier checkpoints that the entries do not lead to."""
    good = 0
    for one in earlier:
        if one.size > size:
            what = f"entries {size} to {one.size - 1} are gone: an earlier checkpoint covers {one.size} entries"
            yield Problem(f"entries {size} to {one.size - 1}", what, size)
        elif one.size not in walk.roots:
            what = f"too much is missing to compare with the earlier checkpoint of {one.size} entries"
            yield Problem(f"entries {good} to {one.size - 1}", what, good)
        elif walk.roots[one.size] != one.root:
            what = f"the log was rewritten: the earlier checkpoint of {one.size} entries has another root"
            yield Problem(f"entries {good} to {max(good, one.size - 1)}", what, good)
        else:
            good = one.size


def check_journal(
    segments: Sequence[Segment], files: TileFiles, size: int, blamed: set[int], complete: bool
) -> tuple[list[bytes], list[Problem]]:
    """The entries that no checkpoint covers, and what is wrong with the journal."""
    problems, beyond = [], []
    due = size - size % WIDTH
    if complete and not segments:
        problems.append(Problem("tail", "there is no journal", due))
    for number, one in enumerate(segments):
        name = f"tail/{one.path.name}"
        if one.first > due:
            what = f"entries {due} to {one.first - 1} are gone from the journal; its next file is {one.path.name}"
            problems.append(Problem("tail", what, due))
        elif number and one.first < due:
            problems.append(Problem(name, f"it begins with entry {one.first} where {due} is next", one.first))
        due = one.stop
        if one.fault:
            what = f"byte {one.fault.offset}, entry {one.fault.index}: {one.fault.why}"
            problems.append(Problem(name, what, one.fault.index))
        problems += _journal_differs(name, one, files, size, blamed)
        beyond += one.entries[max(0, size - one.first) :]
    if segments and due < size:
        what = f"entries {due} to {size - 1} are gone from the journal; its last file is {segments[-1].path.name}"
        problems.append(Problem("tail", what, due))
    return beyond, problems


def _journal_differs(name: str, one: Segment, files: TileFiles, size: int, blamed: set[int]) -> Iterator[Problem]:
    at = one.first
    stop = min(one.stop, size)
    while at < stop:
        number, offset = divmod(at, WIDTH)
        end = min(stop, (number + 1) * WIDTH)
        if number not in blamed:
            bundle = files.entries(number, end - number * WIDTH)[offset:]
            for index, (journal, tile) in enumerate(zip(one.entries[at - one.first :], bundle, strict=False), at):
                if journal != tile:
                    yield Problem(name, f"entry {index} is not the one in {tile_path(ENTRIES, number)}", index)
        at = end


def check_strays(
    left: Sequence[Stray], files: TileFiles, size: int, walk: Walk, beyond: Sequence[bytes]
) -> Iterator[Problem]:
    """Tiles that the checkpoint does not ask for must still be those of the entries."""
    later = _later(files, size, walk, beyond)
    for one in left:
        want = _wanted(one, files, size, later)
        if want is None:
            yield Problem(one.name, "neither the checkpoint nor the journal has what this tile is of")
        elif one.data != want:
            yield Problem(one.name, "it is not of the entries", one.index * WIDTH if one.kind in (0, ENTRIES) else None)


def _later(files: TileFiles, size: int, walk: Walk, beyond: Sequence[bytes]) -> dict[tuple[Kind, int], list[bytes]]:
    """Hashes and entries of the tiles that reach beyond the checkpoint."""
    if walk.edge is None:
        return {}
    edge = walk.edge.copy()
    number, rest = divmod(size, WIDTH)
    try:
        entries = [*(files.entries(number, rest) if rest else []), *beyond]
    except KvctlError:  # the walk has named it
        return {}
    found: dict[tuple[Kind, int], list[bytes]] = {
        (ENTRIES, number + at // WIDTH): entries[at : at + WIDTH] for at in range(0, len(entries), WIDTH)
    }
    tiles = [*edge.extend([leaf_hash(entry) for entry in beyond]), *edge.partials()]
    return found | {(tile.level, tile.index): list(tile.hashes) for tile in tiles}


def _wanted(one: Stray, files: TileFiles, size: int, later: dict[tuple[Kind, int], list[bytes]]) -> bytes | None:
    parts = later.get((one.kind, one.index))
    each = WIDTH**one.kind if isinstance(one.kind, int) else 1
    try:
        if parts is None and (one.index + 1) * WIDTH * each <= size:
            whole = one.kind == ENTRIES
            parts = files.entries(one.index) if whole else list(files.hashes(int(one.kind), one.index, WIDTH))
    except KvctlError:  # the walk has named it
        return None
    if parts is None or len(parts) < one.width:
        return None
    return encode_bundle(parts[: one.width]) if one.kind == ENTRIES else b"".join(parts[: one.width])
