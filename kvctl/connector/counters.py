"""Numbers about one client of one store, for metrics; only ever growing."""

from collections import Counter
from collections.abc import Mapping
from threading import Lock

NAMES = (
    "hits",  # chunks received and, with a key, opened
    "miss",  # misses by reason: the store has none,
    "corrupt",  # what came is not the chunk,
    "deadline",  # the store had no time for it,
    "late",  # it did not come in time,
    "busy",  # the store had no room,
    "lost",  # the connection ended before its turn
    "read_bytes",  # sealed bytes of hits
    "written_bytes",  # sealed bytes of chunks that were stored
    "puts_stored",
    "puts_exists",
    "puts_refused",  # every other status
    "connects",
    "reconnects",  # a kept connection turned out to be dead
    "failures",  # requests that the store did not answer
    "refusals",
)
KNOWN = frozenset(NAMES)


class Counters:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers: Counter[str] = Counter()

    def add(self, more: Mapping[str, int]) -> None:
        """Add under names of NAMES; KeyError for another."""
        if not KNOWN.issuperset(more):
            raise KeyError(*(set(more) - KNOWN))
        with self._lock:
            for name, number in more.items():  # Counter.update takes five times as long for two names
                self._numbers[name] += number

    def snapshot(self) -> dict[str, int]:
        with self._lock:
            return {name: self._numbers[name] for name in NAMES}
