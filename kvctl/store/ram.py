"""The RAM in front of all tiers: whole sealed chunks, evicted by S3-FIFO.

S3-FIFO (Yang et al., SOSP 2023): newcomers enter a small queue; only those asked for again move on to the main one, so
a long prompt that is read once does not push out what many prompts share. A chunk seen again soon after it left
(its name is in the ghost list) enters the main queue at once. Sizes count in bytes, because chunks differ.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from kvctl.store.api import Buffer, Record
from kvctl.types.chunks import Scope

SMALL = 0.1  # of the capacity: the queue of newcomers
MOST = 3  # hits that a chunk can save up
Name = tuple[Scope, bytes]


class RamReading:
    """A chunk that is in memory already: one piece."""

    def __init__(self, buffer: Buffer, tier: str = "ram") -> None:
        self.length = len(buffer.body)
        self.tier = tier
        self._buffer: Buffer | None = buffer.retain()

    def pieces(self) -> Iterator[memoryview]:
        if self._buffer is None:
            raise ValueError("the reading is closed")
        yield self._buffer.body

    def close(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            buffer.release()


class _Held:
    __slots__ = ("buffer", "hits", "record")

    def __init__(self, record: Record, buffer: Buffer) -> None:
        self.record = record
        self.buffer = buffer
        self.hits = 0


class RamTier:
    """At most `capacity` bytes of buffers. `clock` gives Unix seconds: an expired chunk is absent at once."""

    def __init__(self, capacity: int, clock: Callable[[], float]) -> None:
        self.capacity = capacity
        self._clock = clock
        self._lock = Lock()
        self._small: OrderedDict[Name, _Held] = OrderedDict()
        self._main: OrderedDict[Name, _Held] = OrderedDict()
        self._ghosts: OrderedDict[Name, int] = OrderedDict()
        self._small_bytes = 0
        self._bytes = 0
        self._ghost_bytes = 0
        self.hits = 0
        self.misses = 0
        self.evicted = 0

    def get(self, scope: Scope, key: bytes, *, first: bool = False) -> RamReading | None:
        """A reading of the chunk, or None. Counts as a hit or a miss.

        `first`: it was brought here for this reader, so that it is a miss, and not yet one that is asked for again.
        """
        name = (scope, key)
        with self._lock:
            held = self._main.get(name) or self._small.get(name)
            if held is None or self._expired(held.record):
                self.misses += 1
                return None
            if first:
                self.misses += 1
            else:
                self.hits += 1
                held.hits = min(held.hits + 1, MOST)
            return RamReading(held.buffer)

    def has(self, scope: Scope, key: bytes) -> bool:
        return self.record(scope, key) is not None

    def holds(self, scope: Scope, key: bytes) -> bool:
        """Whether memory has a chunk, expired or not."""
        with self._lock:
            return (scope, key) in self._main or (scope, key) in self._small

    def record(self, scope: Scope, key: bytes) -> Record | None:
        name = (scope, key)
        with self._lock:
            held = self._main.get(name) or self._small.get(name)
            return None if held is None or self._expired(held.record) else held.record

    def insert(self, scope: Scope, record: Record, buffer: Buffer) -> bool:
        """Keep a whole chunk (retains the buffer); False when it is too large or already here."""
        name = (scope, record.key)
        with self._lock:
            if buffer.size > self.capacity or name in self._small or name in self._main:
                return False
            while self._bytes + buffer.size > self.capacity:
                self._evict_one()
            held = _Held(record, buffer.retain())
            remembered = self._ghosts.pop(name, 0)
            self._ghost_bytes -= remembered
            if remembered:
                self._main[name] = held
            else:
                self._small[name] = held
                self._small_bytes += buffer.size
            self._bytes += buffer.size
            return True

    def evict(self, size: int) -> int:
        """Let go of chunks that take `size` bytes or more; how many bytes it was. For BufferPool.on_pressure."""
        with self._lock:
            before = self._bytes
            while self._bytes and before - self._bytes < size:
                self._evict_one()
            return before - self._bytes

    def remove(self, scope: Scope, keys: Sequence[bytes], *, wipe: bool = False) -> int:
        """Forget chunks; `wipe` zeroes their memory when the last reading of them ends."""
        with self._lock:
            return sum(self._drop((scope, key), wipe) for key in keys)

    def remove_scope(self, scope: Scope) -> int:
        """Forget a scope and zero its memory."""
        with self._lock:
            names = [name for queue in (self._small, self._main) for name in queue if name[0] == scope]
            return sum(self._drop(name, True) for name in names)

    def remove_subject(self, tenant: str, domain: str | None, subject: bytes) -> int:
        """Forget a subject's chunks in one domain of a tenant or in all, and zero their memory."""
        with self._lock:
            names = [
                name
                for queue in (self._small, self._main)
                for name, held in queue.items()
                if held.record.meta.subject == subject and name[0].tenant == tenant and domain in (None, name[0].domain)
            ]
            return sum(self._drop(name, True) for name in names)

    def counters(self) -> dict[str, int]:
        with self._lock:
            chunks = len(self._small) + len(self._main)
            return {
                "ram_capacity": self.capacity,
                "ram_bytes": self._bytes,
                "ram_chunks": chunks,
                "ram_hits": self.hits,
                "ram_misses": self.misses,
                "ram_evicted": self.evicted,
            }

    def close(self) -> None:
        with self._lock:
            for name in [*self._small, *self._main]:
                self._drop(name, False)

    def _expired(self, record: Record) -> bool:
        return 0 < record.meta.expires_at <= self._clock()

    def _evict_one(self) -> None:
        """One chunk leaves, or several move from the small to the main queue and then one leaves."""
        while True:
            if self._small and (self._small_bytes > self.capacity * SMALL or not self._main):
                name, held = self._small.popitem(last=False)
                self._small_bytes -= held.buffer.size
                if held.hits and not self._expired(held.record):
                    held.hits = 0
                    self._main[name] = held
                    continue
                self._remember(name, held.buffer.size)
            else:
                name, held = self._main.popitem(last=False)
                if held.hits and not self._expired(held.record):
                    held.hits -= 1
                    self._main[name] = held
                    continue
            self._let_go(held)
            self.evicted += 1
            return

    def _remember(self, name: Name, size: int) -> None:
        """The names of as many bytes as the RAM holds, to know who comes back."""
        self._ghosts[name] = size
        self._ghost_bytes += size
        while self._ghost_bytes > self.capacity:
            self._ghost_bytes -= self._ghosts.popitem(last=False)[1]

    def _drop(self, name: Name, wipe: bool) -> int:
        self._ghost_bytes -= self._ghosts.pop(name, 0)
        held = self._small.pop(name, None)
        if held is not None:
            self._small_bytes -= held.buffer.size
        else:
            held = self._main.pop(name, None)
        if held is None:
            return 0
        if wipe:
            held.buffer.wipe()
        self._let_go(held)
        return 1

    def _let_go(self, held: _Held) -> None:
        self._bytes -= held.buffer.size
        held.buffer.release()
