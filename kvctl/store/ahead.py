"""Chunks that a reader is about to ask for, read into memory before it does.

HAS with a lease says which: between it and the first GET a drive would be idle, and within a GET each connection reads
one chunk ahead at most. What is read in vain is bounded: it counts until somebody asks for it, or for SECONDS.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from kvctl.store.api import Tier
from kvctl.store.buffers import NoRoomError
from kvctl.store.ram import RamTier
from kvctl.types.chunks import Scope

MOST = 64 << 20  # bytes on their way or unasked for, of all readers together
SHARE = 4  # and at most this part of the memory for chunks
CHUNKS = 16  # on their way or unasked for: small ones are not worth that the answer to HAS waits for more look-ups
SECONDS = 10.0

Name = tuple[Scope, bytes]


class Ahead:
    """Thread-safe. `most`: bytes; none: MOST, or less where memory is small."""

    def __init__(self, ram: RamTier, most: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._ram = ram
        self._most = min(MOST, ram.capacity // SHARE) if most is None else most
        self._clock = clock
        self._lock = Lock()
        self._unasked: OrderedDict[Name, tuple[float, int]] = OrderedDict()  # -> until when it counts, and its bytes
        self._bytes = 0
        self._begun_count = self._asked_count = 0

    def read(self, scope: Scope, places: Iterable[tuple[Tier, bytes]]) -> None:
        """Begin to read those that memory does not have, in their order, as far as there is room for them."""
        for tier, key in places:
            name = (scope, key)
            if not self._room():
                return
            if name in self._unasked or self._ram.holds(scope, key):
                continue
            try:
                size = tier.fetch(scope, key)
            except NoRoomError:
                return
            if size:
                self._begun(name, size)

    def asked(self, scope: Scope, key: bytes) -> bool:
        """Whether a chunk that is asked for now was read ahead for that."""
        with self._lock:
            found = self._drop((scope, key))
            self._asked_count += found
            return found

    def counters(self) -> dict[str, int]:
        """Chunks read ahead since the start, and those of them that were asked for: the others were read in vain."""
        with self._lock:
            return {"read_ahead": self._begun_count, "read_ahead_asked": self._asked_count}

    def _begun(self, name: Name, size: int) -> None:
        with self._lock:
            self._drop(name)
            self._unasked[name] = self._clock() + SECONDS, size
            self._bytes += size
            self._begun_count += 1

    def _room(self) -> bool:
        now = self._clock()
        with self._lock:
            while self._unasked and next(iter(self._unasked.values()))[0] <= now:
                self._drop(next(iter(self._unasked)))
            return self._bytes < self._most and len(self._unasked) < CHUNKS

    def _drop(self, name: Name) -> bool:
        held = self._unasked.pop(name, None)
        self._bytes -= 0 if held is None else held[1]
        return held is not None
