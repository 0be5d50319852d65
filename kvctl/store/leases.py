"""Leases: chunks that a reader is about to ask for are not evicted until it had the time to."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from threading import Lock

from kvctl.types.chunks import Scope

MOST = 1 << 20  # leases held at once; beyond it new ones are not given, and reads still work
LONGEST = 600.0  # seconds

Name = tuple[Scope, bytes]


class Leases:
    """Each lease has an end, so a reader that died holds nothing for long. `clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float], most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._lock = Lock()
        self._until: dict[Name, float] = {}
        self._ends: list[tuple[float, Name]] = []
        self.refused = 0

    def take(self, scope: Scope, keys: Sequence[bytes], seconds: float) -> None:
        """Protect chunks for so long, at most LONGEST; a longer lease that stands already is kept."""
        now = self._clock()
        until = now + min(seconds, LONGEST)
        with self._lock:
            self._forget(now)
            for key in keys:
                name = (scope, key)
                if name not in self._until and len(self._until) >= self._most:
                    self.refused += 1
                elif self._until.get(name, 0.0) < until:
                    self._until[name] = until
                    heappush(self._ends, (until, name))

    def held(self, scope: Scope, key: bytes) -> bool:
        with self._lock:
            return self._until.get((scope, key), 0.0) > self._clock()

    def drop_scope(self, scope: Scope) -> None:
        with self._lock:
            for name in [name for name in self._until if name[0] == scope]:
                del self._until[name]

    def __len__(self) -> int:
        with self._lock:
            self._forget(self._clock())
            return len(self._until)

    def _forget(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            until, name = heappop(self._ends)
            if self._until.get(name) == until:
                del self._until[name]
