"""The writer of a log: group commit into the journal, tiles and a signed checkpoint from it about once a second."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from kvctl.ledger.files import Lock, Stage
from kvctl.ledger.note import Checkpoint, Signer, check_name, open_checkpoint, sign
from kvctl.ledger.proof import out_of_range, prove
from kvctl.ledger.reader import read_bundles
from kvctl.ledger.recover import recover
from kvctl.ledger.tiles import DIRECTORY_MODE, ENTRIES, TileFiles, check_entry, encode_bundle, tile_path
from kvctl.ledger.tree import WIDTH, Edge, Hash, Proofs, Tile, leaf_hash
from kvctl.types.errors import KvctlError, UsageError

PUBLISH_SECONDS = 1.0
SLICE = 32 * WIDTH  # entries that a checkpoint covers more than the one before, at most
MAX_PENDING = 1 << 16  # entries that wait for their tiles in memory


class Group:
    """Entries of several callers that go to the medium together."""

    __slots__ = ("entries", "error", "first", "payloads", "written")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.payloads: list[bytes] = []
        self.written = threading.Lock()  # held until the group is: who waits for it wakes the next one
        self.written.acquire()
        self.first = 0
        self.error: KvctlError | None = None


class Log:
    """A log that this process alone writes. Every method may be called from any thread."""

    @classmethod
    def open(
        cls,
        directory: Path,
        origin: str,
        identity: Signer,
        *,
        exclusive: bool = True,
        publish_seconds: float | None = PUBLISH_SECONDS,
    ) -> "Log":
        """Open a log, or begin one; what a crash left half written is cut off.

        `exclusive=False` takes no lock: for a caller that holds one of its own over the directory. The checkpoint
        follows the entries after `publish_seconds`; None: only on request and on close.

        LockedError KV-LEDGER-001 while another has it; UsageError KV-LEDGER-009 and -011 for a directory or origin
        that does not do; KvctlError KV-LEDGER-004 for a damaged log, RefusedError KV-LEDGER-005 for another's.
        """
        directory = Path(directory)
        check_name(origin)
        try:
            directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            lock = Lock(directory) if exclusive else None
        except OSError as error:
            raise _unusable(directory, error) from error
        try:
            return cls(directory, origin, identity, lock, publish_seconds)
        except BaseException as error:
            if lock:
                lock.release()
            if isinstance(error, OSError):
                raise _unusable(directory, error) from error
            raise

    def __init__(
        self, directory: Path, origin: str, signer: Signer, lock: Lock | None, publish_seconds: float | None
    ) -> None:
        """By way of `Log.open`."""
        self.directory, self.origin = directory, origin
        self.trouble: KvctlError | None = None  # why the checkpoint could not follow the entries, while it cannot
        self._signer, self._lock_file = signer, lock
        self._files, self._stage = TileFiles(directory), Stage(directory)
        found = recover(directory, origin, signer, self._stage)
        self._note, self._published, self._edge = found.note, found.published, found.edge
        self._kept, self._pending, self._tail = found.kept, found.pending, found.tail
        self._guard = threading.Lock()  # over _pending, _kept, _group and _closed; held for moments
        self._committing = threading.Lock()  # over the journal
        self._publishing = threading.Lock()  # over the tiles, the checkpoint, and the edge
        self._group = Group()
        self._closed = False
        self.checkpoint()
        self._start(publish_seconds)

    def _start(self, seconds: float | None) -> None:
        self._news, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._follow, args=(seconds,), name="ledger", daemon=True)
        if seconds is not None:
            self._thread.start()

    @property
    def size(self) -> int:
        """Entries on the medium."""
        with self._guard:
            return self._kept + len(self._pending)

    def append(self, entries: Sequence[bytes]) -> int:
        """Put entries on the medium, in one piece and in this order; the index of the first.

        Calls at the same time share one fsync. UsageError KV-LEDGER-003 for an entry of more than 65,535 bytes;
        KvctlError KV-LEDGER-002 when they could not be written: then none was kept, and a later call may succeed;
        KV-LEDGER-008 when the log is closed.
        """
        for entry in entries:
            check_entry(entry)
        if not entries:
            return self.size
        payload = encode_bundle(entries)
        with self._guard:
            group = self._group
            position = len(group.entries)
            group.entries += entries
            group.payloads.append(payload)
        if position:
            with group.written:
                pass
        else:
            self._commit()
        if group.error:
            raise group.error
        return group.first + position

    def _commit(self) -> None:
        """Write the open group, by its first caller; others join it while the group before is being written."""
        with self._committing:
            with self._guard:
                group, self._group = self._group, Group()
                group.first = self._kept + len(self._pending)
            try:
                self._write(group)
            except KvctlError as error:
                group.error = error
            except BaseException as error:
                group.error = _not_written(self.directory, error)
                raise
            finally:
                group.written.release()

    def _write(self, group: Group) -> None:
        if self._closed:
            raise UsageError("KV-LEDGER-008", "the log is closed", where=str(self.directory))
        if len(self._pending) > MAX_PENDING:
            self._advance()
        try:
            self._tail.write(group.first, len(group.entries), b"".join(group.payloads))
        except OSError as error:
            raise _not_written(self.directory, error) from error
        with self._guard:
            self._pending += group.entries
        self._news.set()

    def _follow(self, seconds: float) -> None:
        """Publish some time after entries came, until the log is closed."""
        while self._news.wait() and not self._stop.wait(seconds if len(self._pending) < SLICE else 0):
            self._news.clear()
            try:
                self._advance()
            except KvctlError as error:
                self.trouble = error
                self._stop.wait(seconds)
            if self.size > self._published.size:
                self._news.set()

    def checkpoint(self) -> str:
        """The signed note of all entries on the medium; it is in `<directory>/checkpoint`, and so are its tiles.

        KvctlError KV-LEDGER-006 when they could not be written: the entries are safe.
        """
        size = self.size
        with self._publishing:
            while self._edge.size < size:
                self._publish()
            return self._note

    def _advance(self) -> None:
        """Publish one slice: neither those who append nor those who ask for a checkpoint wait for more."""
        with self._publishing:
            self._publish()

    def _publish(self) -> None:
        """Write the tiles of some entries more, then the checkpoint that covers them."""
        start, entries = self._unpublished()
        edge = self._edge.copy()
        try:
            self._stage.put(grown(edge, start, entries))
            published = Checkpoint(self.origin, edge.size, edge.root())
            note = sign(published, self._signer)
            self._stage.put([("checkpoint", note.encode())])
        except OSError as error:
            raise _not_published(self.directory, error) from error
        before, self._edge, self._note, self._published = self._edge, edge, note, published
        with self._guard:
            self._kept = edge.size - edge.size % WIDTH
            del self._pending[: self._kept - start]
        self._tidy(before.size, edge.size)
        self.trouble = None

    def _unpublished(self) -> tuple[int, list[bytes]]:
        """Entries that are in no full tile, SLICE at most, and the index of the first."""
        with self._guard:
            return self._kept, self._pending[:SLICE]

    def _tidy(self, before: int, size: int) -> None:
        """Remove what the new checkpoint made needless; only now, for a reader may have held the one before."""
        level = 0
        while before >> (8 * level):
            index, width = divmod(size >> (8 * level), WIDTH)
            old = before >> (8 * (level + 1))
            keep = width if width and old == index else None
            self._files.drop_partials(level, old, keep)
            if level == 0:
                self._files.drop_partials(ENTRIES, old, keep)
            level += 1
        self._tail.drop(self._kept)

    def root(self) -> Hash:
        """The root over all entries on the medium."""
        with self._publishing:
            with self._guard:
                new = self._pending[self._edge.size - self._kept :]
            edge = self._edge.copy()
            edge.extend([leaf_hash(entry) for entry in new])
            return edge.root()

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Entries `start` to `stop`, the last one not among them. UsageError KV-LEDGER-007 outside of the log."""
        with self._guard:
            kept, size = self._kept, self._kept + len(self._pending)
            recent = self._pending[max(0, start - kept) : max(0, stop - kept)] if 0 <= start <= stop <= size else None
        if recent is None:
            raise out_of_range(f"there are no entries {start} to {stop}", size)
        return self._read(start, min(stop, kept), recent)

    def _read(self, start: int, stop: int, recent: list[bytes]) -> Iterator[bytes]:
        yield from read_bundles(self._files, start, stop)
        yield from recent

    def prove(self, index: int, size: int | None = None, *, checkpoint: str | None = None) -> str:
        """The `.tlog-proof` of an entry: below the published checkpoint, one of `size`, or `checkpoint`.

        The last is for an earlier note that others have cosigned. UsageError KV-LEDGER-007 for an entry or size that
        there is not, RefusedError KV-LEDGER-005 for a checkpoint that is not this log's.
        """
        note = checkpoint or self._note
        found = open_checkpoint(note, self.origin, self._signer.public, "checkpoint")
        if checkpoint is None and (size or index + 1) > found.size:
            note = self.checkpoint()
            found = open_checkpoint(note, self.origin, self._signer.public, "checkpoint")
        if found.size > self._published.size or (size or 0) > found.size:
            raise out_of_range(f"there is no tree of {max(found.size, size or 0)} entries", self._published.size)
        if size is not None and size != found.size:
            found = Checkpoint(self.origin, size, Proofs(self._files.hashes).root(size))
            note = sign(found, self._signer)
        return prove(self._files, note, found, index)

    def consistency(self, old_size: int, new_size: int | None = None) -> list[Hash]:
        """RFC 6962, 2.1.2, from the tree of `old_size` to that of `new_size`, by default the present one.

        UsageError KV-LEDGER-007 for sizes that there never were.
        """
        if new_size is None or new_size > self._published.size:
            self.checkpoint()
        new = self._published.size if new_size is None else new_size
        if not 0 <= old_size <= new <= self._published.size:
            raise out_of_range(f"there were no trees of {old_size} and {new} entries", self._published.size)
        return Proofs(self._files.hashes).consistency(old_size, new)

    def close(self) -> None:
        """Publish, and let another open the log. KV-LEDGER-006 as `checkpoint`; it is closed all the same."""
        with self._committing:
            if self._closed:
                return
            self._closed = True
        self._stop.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self.checkpoint()
        finally:
            self._tail.close()
            if self._lock_file:
                self._lock_file.release()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def grown(edge: Edge, start: int, entries: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """Grow the edge by the entries, which start at a multiple of 256; the files of what came to be, one by one.

    Hashing goes with the writing: done in one go it would keep the interpreter from those who append.
    """
    for at in range(0, len(entries), WIDTH):
        bundle = entries[at : at + WIDTH]
        yield tile_path(ENTRIES, (start + at) // WIDTH, len(bundle)), encode_bundle(bundle)
        for tile in edge.extend([leaf_hash(entry) for entry in bundle[max(0, edge.size - start - at) :]]):
            yield tile_file(tile)
    for tile in edge.partials():
        yield tile_file(tile)


def tile_file(tile: Tile) -> tuple[str, bytes]:
    return tile_path(tile.level, tile.index, len(tile.hashes)), b"".join(tile.hashes)


def _unusable(directory: Path, error: OSError) -> UsageError:
    return UsageError(
        "KV-LEDGER-009",
        "the log cannot be opened",
        where=str(error.filename or directory),
        why=error.strerror or str(error),
        fix="give a directory that this user can write, on a drive with room",
    )


def _not_written(directory: Path, error: BaseException) -> KvctlError:
    return KvctlError(
        "KV-LEDGER-002",
        "entries could not be written to the log; none of them was kept",
        where=str(directory),
        why=getattr(error, "strerror", None) or str(error),
        fix="make room or mend the drive; the log goes on by itself with the next entry",
    )


def _not_published(directory: Path, error: OSError) -> KvctlError:
    return KvctlError(
        "KV-LEDGER-006",
        "the log's tiles and checkpoint could not be written; its entries are safe in the journal",
        where=str(error.filename or directory),
        why=error.strerror or str(error),
        fix="make room or mend the drive; the checkpoint follows by itself",
    )
