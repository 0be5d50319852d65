"""Read every object again and compare it with what was written."""

from collections.abc import Callable, Iterator

from kvctl.store.api import ReadError, Record, Scrubbed
from kvctl.store.buffers import BufferPool, NoRoomError
from kvctl.store.s3.bucket import scope_digest
from kvctl.store.s3.objects import Objects
from kvctl.types.chunks import Scope

ROOM_SECONDS = 30.0


def run(
    objects: Objects, chunks: Iterator[tuple[Scope, Record]], pool: BufferPool, stop: Callable[[], bool]
) -> Scrubbed:
    """Raises ReadError when an object could not be had, NoRoomError when there is no memory for one."""
    seen, size, bad = 0, 0, []
    for scope, record in chunks:
        if stop():
            break
        good = is_good(objects, scope, record, pool)
        seen += good is not None
        size += record.length if good is not None else 0
        if good is False:
            bad.append((scope, record.key))
    return Scrubbed(seen, size, tuple(bad))


def is_good(objects: Objects, scope: Scope, record: Record, pool: BufferPool) -> bool | None:
    """Whether the object is what was written; None: it was removed or replaced meanwhile."""
    digest = scope_digest(scope)
    buffer = pool.take(record.length, ROOM_SECONDS)
    if buffer is None:
        raise NoRoomError("no memory to read a chunk into")
    try:
        objects.fetch(digest, record, buffer.body, lambda _: None)
    except ReadError:
        entry = objects.index.get(digest, record.key)
        if entry is not None and entry.record == record and entry.state.is_bad:
            return False
        if entry is None or entry.record != record:
            return None
        raise
    finally:
        buffer.release()
    return True
