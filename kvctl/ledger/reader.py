"""A log as its checkpoint and tiles show it, without a lock and beside a writer."""

from collections.abc import Iterator
from pathlib import Path

from kvctl.ledger.note import Checkpoint, check_name, open_checkpoint
from kvctl.ledger.proof import out_of_range, prove
from kvctl.ledger.tiles import TileFiles
from kvctl.ledger.tree import WIDTH, Hash, Proofs
from kvctl.types.errors import UsageError


def read_note(directory: Path) -> str:
    """The text of a log's checkpoint. UsageError KV-LEDGER-009 when there is none."""
    path = directory / "checkpoint"
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(
            "KV-LEDGER-009",
            "the log cannot be opened",
            where=str(path),
            why=why,
            fix="give the directory of a log: one that has a file `checkpoint`",
        ) from error


class Reader:
    """What the last checkpoint covers. `refresh` looks for a newer one.

    UsageError KV-LEDGER-009 when there is no log, RefusedError KV-LEDGER-005 when its checkpoint is not signed by
    `public` (32 bytes, Ed25519) as `origin`.
    """

    def __init__(self, directory: Path, origin: str, public: bytes) -> None:
        self.directory = Path(directory)
        self.origin = check_name(origin)
        self.public = public
        self._files = TileFiles(self.directory)
        self.refresh()

    def refresh(self) -> None:
        note = read_note(self.directory)
        self._open: Checkpoint = open_checkpoint(note, self.origin, self.public, str(self.directory / "checkpoint"))
        self._note = note

    @property
    def size(self) -> int:
        return self._open.size

    def root(self) -> Hash:
        return self._open.root

    def checkpoint(self) -> str:
        return self._note

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Entries `start` to `stop`, the last one not among them. UsageError KV-LEDGER-007 outside of the log."""
        if not 0 <= start <= stop <= self.size:
            raise out_of_range(f"there are no entries {start} to {stop}", self.size)
        return read_bundles(self._files, start, stop)

    def prove(self, index: int) -> str:
        """The `.tlog-proof` of an entry, below the checkpoint."""
        return prove(self._files, self._note, self._open, index)

    def consistency(self, old_size: int) -> list[Hash]:
        """RFC 6962, 2.1.2, from a tree of `old_size` to the checkpoint's."""
        if not 0 <= old_size <= self.size:
            raise out_of_range(f"there was no tree of {old_size} entries", self.size)
        return Proofs(self._files.hashes).consistency(old_size, self.size)


def read_bundles(files: TileFiles, start: int, stop: int) -> Iterator[bytes]:
    while start < stop:
        bundle, offset = divmod(start, WIDTH)
        end = min(WIDTH, stop - bundle * WIDTH)
        yield from files.entries(bundle, end)[offset:]
        start = bundle * WIDTH + end
