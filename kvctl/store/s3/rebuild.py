"""Make the index again from the bucket."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from kvctl.store.api import Record
from kvctl.store.s3.objects import Objects
from kvctl.store.s3.rows import Entry, State, from_header

BATCH = 512


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What a comparison of bucket and index found."""

    kept: int = 0  # rows that have their object
    added: int = 0  # objects that had no row
    gone: int = 0  # rows whose object is not there: they are dropped
    foreign: int = 0  # objects without a record that fits them: left alone

    def __add__(self, other: "Reindexed") -> "Reindexed":
        return Reindexed(
            self.kept + other.kept, self.added + other.added, self.gone + other.gone, self.foreign + other.foreign
        )


def run(objects: Objects) -> Reindexed:
    """Raises obstore's BaseError or OSError when the endpoint fails; what was done until then stays done."""
    digests = {*objects.index.holdings(), *objects.bucket.digests()}
    with ThreadPoolExecutor(objects.bucket.settings.readers, "s3-reindex") as pool:
        return sum((one_scope(objects, digest, pool) for digest in sorted(digests)), Reindexed())


def one_scope(objects: Objects, digest: bytes, pool: ThreadPoolExecutor) -> Reindexed:
    # Rows first: an object written from now on is listed or not, but its row is not in here.
    rows = {entry.record.key: entry for _, entry in objects.index.every(digest)}
    found = Reindexed()
    for batch in batches(objects.bucket.listing(digest)):
        new = [(key, size) for key, size in batch if rows.pop(key, None) is None]
        found += Reindexed(kept=len(batch) - len(new))
        for record in pool.map(lambda item: look(objects, digest, *item), new):
            found += Reindexed(foreign=1) if record is None else add(objects, digest, record)
    return found + Reindexed(gone=drop(objects, digest, rows.values()))


def look(objects: Objects, digest: bytes, key: bytes, size: int) -> Record | None:
    try:
        size, header = objects.bucket.head(objects.bucket.name(digest, key))
    except FileNotFoundError:
        return None
    return from_header(key, header, size)


def add(objects: Objects, digest: bytes, record: Record) -> Reindexed:
    """A row for an object, unless a write made one meanwhile."""
    added = objects.index.insert(digest, record, State.LIVE)
    return Reindexed(added=1) if added else Reindexed(kept=1)


def drop(objects: Objects, digest: bytes, rows: Iterable[Entry]) -> int:
    return sum(entry.state is State.LIVE and objects.index.change(digest, entry.record, None) for entry in rows)


def batches(items: Iterable[tuple[bytes, int]]) -> Iterator[list[tuple[bytes, int]]]:
    left = iter(items)
    while batch := list(islice(left, BATCH)):
        yield batch
