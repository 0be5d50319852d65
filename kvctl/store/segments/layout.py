"""The bytes on a mount: record headers in segments, values in the index. docs/store-format.md shows them.

All integers are little-endian, except in index keys: big-endian there, so that they sort as numbers.
"""

from dataclasses import dataclass
from struct import Struct

from xxhash import xxh3_64_intdigest

from kvctl.store.api import Record
from kvctl.store.buffers import HEAD, padded
from kvctl.types.chunks import KEY_BYTES, NEVER, SUBJECT_BYTES, Kind, Meta, Scope

MAGIC = b"KVCTLREC"
VERSION = 1
VOLUME_BYTES = 16
RECORD = Struct("<8sHHHBx16sQ16s32sQQQ16s16sII16s")
SEAL = Struct("<Q")  # xxh3-64 of the page up to here: its last 8 bytes
SEALED = HEAD - SEAL.size
VALUE = Struct("<IQIQQ16s16sBIIQ16s")
EXPIRY_AT = Struct("<IQIQ").size  # where `expires_at` lies in a VALUE
USED_AT = Struct("<IQIQQ16s16sBII").size
NUMBER_BYTES = 4
U64 = Struct("<Q")
NO_END = U64.pack(NEVER)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a record begins: a segment's number and a byte offset in it."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk on a mount: where it is, what it is, when it was last asked for (Unix seconds)."""

    scope: Scope
    record: Record
    place: Place
    used: int

    @property
    def size(self) -> int:
        """Bytes it takes in its segment: header, sealed bytes, padding."""
        return record_size(self.record.length)

    def expired(self, now: float) -> bool:
        return 0 < self.record.meta.expires_at <= now


@dataclass(frozen=True, slots=True)
class Header:
    """A record's header as it was found in a segment."""

    scope: Scope
    record: Record
    sequence: int


def check_names(scope: Scope) -> None:
    """Raises ValueError when the tenant's and domain's names do not fit into a record's header."""
    if RECORD.size + len(scope.tenant.encode()) + len(scope.domain.encode()) > SEALED:
        raise ValueError("the names of tenant and domain are too long for a record's header")


def record_size(length: int) -> int:
    return HEAD + padded(length)


def pack_header(page: memoryview, volume: bytes, sequence: int, scope: Scope, record: Record) -> None:
    """Fill a record's header page; `check_names` has passed."""
    tenant, domain = scope.tenant.encode(), scope.domain.encode()
    end = RECORD.size + len(tenant) + len(domain)
    meta = record.meta
    RECORD.pack_into(
        page, 0, MAGIC, VERSION, len(tenant), len(domain), meta.kind, volume, sequence, scope.epoch, record.key,
        record.length, record.stored_at, meta.expires_at, meta.subject, meta.model, meta.position, meta.recompute_us,
        record.checksum,
    )  # fmt: skip
    page[RECORD.size : end] = tenant + domain
    page[end:SEALED] = bytes(SEALED - end)
    SEAL.pack_into(page, SEALED, xxh3_64_intdigest(page[:SEALED]))


def unpack_header(page: memoryview, volume: bytes) -> Header | None:
    """The header in a page, or None when the page is none of this volume.

    The volume's secret number is what tells a header from a client's bytes that were made to look like one.
    """
    magic, version, tenant, domain, kind, found, sequence, epoch, key, length, stored, expires, *rest = (
        RECORD.unpack_from(page)
    )
    if magic != MAGIC or version != VERSION or found != volume:
        return None
    if SEAL.unpack_from(page, SEALED)[0] != xxh3_64_intdigest(page[:SEALED]):
        return None
    subject, model, position, cost, checksum = rest
    names = bytes(page[RECORD.size : RECORD.size + tenant + domain])
    scope = Scope(names[:tenant].decode(), names[tenant:].decode(), epoch)
    meta = Meta(expires, subject, model, Kind(kind), position, cost)
    return Header(scope, Record(key, length, checksum, stored, meta), sequence)


def pack_entry(entry: Entry) -> bytes:
    record, meta = entry.record, entry.record.meta
    return VALUE.pack(
        entry.place.segment, entry.place.offset, record.length, record.stored_at, meta.expires_at, meta.subject,
        meta.model, meta.kind, meta.position, meta.recompute_us, entry.used, record.checksum,
    )  # fmt: skip


def unpack_entry(scope: Scope, key: bytes, value: bytes) -> Entry:
    segment, offset, length, stored, expires, subject, model, kind, position, cost, used, checksum = VALUE.unpack(value)
    meta = Meta(expires, subject, model, Kind(kind), position, cost)
    return Entry(scope, Record(key, length, checksum, stored, meta), Place(segment, offset), used)


def expires_at(value: bytes) -> int:
    """`expires_at` of a packed entry, without unpacking the rest."""
    at: int = U64.unpack_from(value, EXPIRY_AT)[0]
    return at


def number_key(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")


def subject_key(number: int, subject: bytes, key: bytes) -> bytes:
    return number_key(number) + subject + key


def expiry_key(at: int, number: int, key: bytes) -> bytes:
    return at.to_bytes(8, "big") + number_key(number) + key


def split_expiry(name: bytes) -> tuple[int, int, bytes]:
    """(expires_at, scope number, chunk key)."""
    return int.from_bytes(name[:8], "big"), int.from_bytes(name[8:12], "big"), name[12:]


def place_key(place: Place) -> bytes:
    return place.segment.to_bytes(4, "big") + place.offset.to_bytes(8, "big")


def split_place(name: bytes) -> Place:
    return Place(int.from_bytes(name[:4], "big"), int.from_bytes(name[4:], "big"))


SUBJECT_KEY = NUMBER_BYTES + SUBJECT_BYTES + KEY_BYTES


def pack_scope(scope: Scope, size: int, chunks: int) -> bytes:
    tenant, domain = scope.tenant.encode(), scope.domain.encode()
    return scope.epoch + Struct("<QQH").pack(size, chunks, len(tenant)) + tenant + domain


def unpack_scope(value: bytes) -> tuple[Scope, int, int]:
    """(scope, sealed bytes, chunks)."""
    size, chunks, tenant = Struct("<QQH").unpack_from(value, 16)
    names = value[34:]
    return Scope(names[:tenant].decode(), names[tenant:].decode(), value[:16]), size, chunks
