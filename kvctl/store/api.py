"""How the parts of the store see each other: a tier holds sealed chunks; the store is tiers, RAM and rules over them.

Every method may be called from any thread. None of them opens a chunk: bytes are sealed, and a checksum over the sealed
bytes (xxh3-128) tells whether they are what was written.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self

from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import Meta, Scope, TierName

CHECKSUM_BYTES = 16


@dataclass(frozen=True, slots=True)
class Record:
    """What a tier knows about a chunk that it holds."""

    key: bytes
    length: int  # of the sealed bytes
    checksum: bytes  # xxh3-128 of the sealed bytes
    stored_at: int  # Unix seconds; never a file time
    meta: Meta


@dataclass(frozen=True, slots=True)
class Usage:
    """What a scope holds in a tier: sealed bytes (padding apart) and chunks."""

    size: int = 0
    chunks: int = 0


class Buffer(Protocol):
    """Memory for one chunk, aligned to 4096, counted: it goes back to its pool when the last holder releases it."""

    @property
    def head(self) -> memoryview: ...  # 4096 bytes in front of the body, for a tier's record header

    @property
    def body(self) -> memoryview: ...  # as long as was asked for; the memory goes on to the next multiple of 4096

    @property
    def whole(self) -> memoryview: ...  # head, body and padding: one aligned write

    @property
    def size(self) -> int: ...  # bytes of memory that it takes of its pool

    def retain(self) -> Self: ...

    def release(self) -> None: ...

    def wipe(self) -> None: ...  # zero the memory when the last holder lets go: the chunk was erased


class Reading(Protocol):
    """A chunk being read. Bytes come in pieces so that sending one goes on while the next is fetched.

    A piece is valid until the next one is asked for or the reading is closed. A piece that cannot be read raises
    `ReadError` (the session then closes: part of the chunk may be on its way already, and the client's seal tells).
    """

    @property
    def length(self) -> int: ...

    @property
    def tier(self) -> str: ...  # "ram" or a TierName

    def pieces(self) -> Iterator[memoryview]: ...

    def close(self) -> None: ...


class ReadError(Exception):
    """The medium did not give a chunk's bytes (EIO, a mount that is gone), or gave others than were written."""


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """What reading everything again showed."""

    chunks: int = 0
    size: int = 0
    bad: tuple[tuple[Scope, bytes], ...] = ()  # quarantined: they answer MISS from now on


@dataclass(frozen=True, slots=True)
class TierStat:
    name: TierName
    capacity: int  # bytes that chunks may take
    used: int  # bytes taken, padding and headers included
    chunks: int
    writable: bool
    places: tuple["PlaceStat", ...] = ()  # mounts, or the bucket
    counters: dict[str, int] = field(default_factory=dict)  # quarantined, punched_bytes, read_errors, ...


@dataclass(frozen=True, slots=True)
class PlaceStat:
    name: str  # the mount's directory, or the bucket
    state: str  # "ok", "full", "read-only", "failed"
    why: str
    capacity: int
    used: int


Done = Callable[[PutStatus], None]


class Why(StrEnum):
    """Why a chunk left a tier."""

    EVICTED = "evicted"
    EXPIRED = "expired"
    ERASED = "erased"
    REMOVED = "removed"  # by its name, for another reason than erasure
    MOVED = "moved"  # another tier has it
    QUARANTINED = "quarantined"  # its bytes are not what was written
    LOST = "lost"  # the medium failed, or never took it


@dataclass(slots=True)
class Removal:
    """Why chunks are to go, for a tier; afterwards also which went and which a hold kept."""

    why: Why
    told: bool = True  # each is a delta; False: the caller tells of all at once
    release: bool = False  # held ones go as well: another tier has them for certain
    gone: list[tuple[Scope, Record]] = field(default_factory=list)
    held: set[tuple[Scope, bytes]] = field(default_factory=set)


class State(StrEnum):
    """What a tier has of a chunk, readable or not."""

    LIVE = "live"
    EXPIRED = "expired"  # answers MISS; the next sweep removes it
    QUARANTINED = "quarantined"
    DELETING = "deleting"  # forgotten; its object is still to be deleted


@dataclass(frozen=True, slots=True)
class Found:
    record: Record
    state: State


class Tier(Protocol):
    """One medium's chunks: segments on mounts, or objects in a bucket."""

    @property
    def name(self) -> TierName: ...

    def has(self, scope: Scope, keys: Sequence[bytes]) -> list[bool]:
        """Which chunks can be read, pending writes included; expired ones cannot."""

    def record(self, scope: Scope, key: bytes) -> Record | None: ...

    def found(self, scope: Scope, key: bytes) -> Found | None:
        """A chunk whether it can be read or not; None: nothing of it is here. Raises KvctlError when that is not known.

        Places that could not be opened are not asked: `stat` shows them as failed.
        """

    def read(self, scope: Scope, key: bytes) -> Reading | None:
        """Start reading; None when it is not here. Does not wait for the medium."""

    def fetch(self, scope: Scope, key: bytes) -> int:
        """Begin to bring a chunk into RAM; its bytes. 0: it is not here, or it would not stay there.

        Does not wait for the medium. Raises NoRoomError.
        """

    def write(self, scope: Scope, record: Record, buffer: Buffer, *, durable: bool, done: Done) -> None:
        """Take a sealed chunk. Readable by `has`, `record` and `read` from now on.

        Retains the buffer until it is written; `done` is called once, from another thread, when the write is complete
        (durable: when it survives a power cut). Anything but STORED means that nothing of it is kept.
        """

    def touch(self, scope: Scope, keys: Sequence[bytes]) -> None:
        """Remember that chunks were asked for; written down now and then."""

    def by_recency(self) -> Iterator[tuple[Scope, Record]]:
        """Every chunk, the one least recently asked for first."""

    def expire(self, limit: int) -> list[tuple[Scope, Record]]:
        """Remove chunks whose end has come, about `limit` at most; which they were. Held ones stay, and answer MISS."""

    def remove(self, scope: Scope, keys: Sequence[bytes], removal: Removal | None = None) -> int:
        """Forget chunks and give their space back (punched, for segments); how many went. Held ones stay."""

    def erase_keys(self, scope: Scope, keys: Sequence[bytes], removal: Removal | None = None) -> int:
        """Remove chunks so that neither bytes nor index values remain in files; how many went. Held ones stay."""

    def walk(self, scope: Scope | None = None, after: bytes = b"") -> Iterator[tuple[Scope, Record]]:
        """Every chunk, or one scope's in key order behind `after`."""

    def scopes(self) -> dict[Scope, Usage]: ...

    def known(self) -> set[Scope]:
        """Scopes of which its files may hold anything, if only values in freed pages: erasures go by these."""

    def erase_subject(self, scope: Scope, subject: bytes, removal: Removal | None = None) -> int:
        """As `erase_keys`, of every chunk of a subject."""

    def erase_scope(self, scope: Scope, removal: Removal | None = None) -> int:
        """As `erase_keys`, of everything of a scope. Its key is destroyed elsewhere: this frees the space."""

    def scrub(self, stop: Callable[[], bool]) -> Scrubbed:
        """Read every chunk and compare its checksum; a wrong one is quarantined."""

    def stat(self) -> TierStat: ...

    def flush(self) -> None:
        """Return when everything taken so far is durable."""

    def close(self) -> None:
        """Flush and let go of every file."""
