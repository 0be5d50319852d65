"""A row of the object tier's index, as bytes; the same bytes travel with the object, in a header."""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from kvctl.store.api import Record
from kvctl.types.chunks import NEVER, Kind, Meta

VERSION = 1
# version, state, kind, position, cost, length, stored, expires, checksum, subject, model, asked for (0: never)
VALUE = Struct("<BBBxIIQQQ16s16s16sQ")
STATE_AT, EXPIRES_AT, EXPIRES = 1, 28, Struct("<Q").unpack_from


class State(IntEnum):
    LIVE = 0
    PENDING = 1  # its PUT is under way
    QUARANTINED = 2  # other bytes than were written: answers MISS, a new PUT replaces it
    DOOMED = 3  # removed here; its object is still to be deleted

    @property
    def is_bad(self) -> bool:
        return self in (State.QUARANTINED, State.DOOMED)

    @property
    def is_unsettled(self) -> bool:
        return self in (State.PENDING, State.DOOMED)


@dataclass(frozen=True, slots=True)
class Entry:
    record: Record
    state: State
    asked: int = 0  # Unix seconds, when it was asked for last

    @property
    def recency(self) -> int:
        return max(self.asked, self.record.stored_at)


def pack(entry: Entry) -> bytes:
    record, meta = entry.record, entry.record.meta
    return VALUE.pack(
        VERSION, entry.state, meta.kind, meta.position, meta.recompute_us, record.length, record.stored_at,
        meta.expires_at, record.checksum, meta.subject, meta.model, entry.asked,
    )  # fmt: skip


def unpack(key: bytes | memoryview, value: bytes | memoryview) -> Entry:
    """Raises ValueError for a value that is none of ours."""
    if len(value) != VALUE.size or value[0] != VERSION:
        raise ValueError("not a row of version 1")
    _, state, kind, position, cost, length, stored, expires, checksum, subject, model, asked = VALUE.unpack(value)
    meta = Meta(expires, subject, model, Kind(kind), position, cost)
    return Entry(Record(bytes(key), length, checksum, stored, meta), State(state), asked)


def is_readable(value: bytes | memoryview | None, now: float) -> bool:
    """Whether a row is live and not expired. Looks at two fields alone: a HAS asks it a thousand times."""
    if value is None or value[STATE_AT] != State.LIVE:
        return False
    (expires,) = EXPIRES(value, EXPIRES_AT)
    return expires == NEVER or bool(expires > now)


def as_header(record: Record) -> str:
    """A record as an object's header carries it."""
    return b64encode(pack(Entry(record, State.LIVE))).decode("ascii")


def from_header(key: bytes, text: str | None, size: int) -> Record | None:
    """The record of an object; None when it has none, or one that does not fit its size."""
    try:
        record = unpack(key, b64decode(text or "", validate=True)).record
    except ValueError:
        return None
    return record if record.length == size else None
