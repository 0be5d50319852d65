"""What is dear to compute again stays, unless it has not been used for long: GDSF with newcomers and a ghost list.

Worth = age + value. The age is the worth of the last key that left, so what is not used any more is overtaken by what
came later (GreedyDual-Size-Frequency, Cherkasova 1998; Marconi, arXiv 2411.19379, scores prefixes by recency and
recompute per byte alike). Value = cost per byte against the average x uses / position, where
- uses is 1 + log2 of the uses since the key came back for the first time, and `newcomer` for a key never seen again:
  most prompts are asked once, so they must not push out those that return;
- position divides by 1 + position / `FLATTEN`: tails leave before heads, although computing a tail costs more.
"""

import heapq
from math import log2
from typing import Generic

from kvctl.sizing.policies.entry import Entry, K, refusal
from kvctl.sizing.policies.ghosts import Ghosts

FLATTEN = 256.0  # chunks; attention makes the cost of a chunk grow with its position, more slowly than this
CHEAP, DEAR = 1 / 8, 8.0  # a writer's word about cost moves a chunk this far and no further
SMOOTH = 1 / 1024  # weight of one more key in the average cost per byte
LOOK = 256  # rows put back in one eviction at most; then the least of those seen leaves: no call takes long
RECENT = 1e-9  # worth of one operation's time: among equals, what was used last stays


class CostAware(Generic[K]):
    """A key whose cost is not known is taken as average."""

    def __init__(self, newcomer: float = 0.25) -> None:
        self.used = 0
        self._newcomer = newcomer
        self._age = 0.0
        self._dearness = 0.0  # average cost per byte; 0: no cost was ever given
        self._tick = 0
        self._entries: dict[K, Entry] = {}
        # A key has one live row: (worth when it was put there, tick, key, entry). Use only raises an entry's worth, so
        # a row that is too low goes back to its place when it comes up, and use costs no heap operation.
        self._heap: list[tuple[float, int, K, Entry]] = []
        self._ghosts: Ghosts[K] = Ghosts()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def add(self, key: K, size: int = 1, *, cost: float | None = None, position: int = 0) -> Entry:
        if size <= 0 or key in self._entries:
            raise refusal(size)
        entry = self._entries[key] = Entry(size, position, cost)
        self._average(entry)
        entry.uses = 0 if self._ghosts.pop(key) is None else 1
        entry.worth = self._worth(entry)
        heapq.heappush(self._heap, (entry.worth, self._tick, key, entry))
        self.used += size
        return entry

    def touch(self, key: K) -> Entry | None:
        entry = self._entries.get(key)
        if entry is not None:
            entry.uses += 1
            entry.worth = max(entry.worth, self._worth(entry))
        return entry

    def remove(self, key: K) -> Entry | None:
        self._ghosts.pop(key)
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.used -= entry.size
            self._compact()
        return entry

    def evict(self) -> tuple[K, Entry] | None:
        least: tuple[K, Entry] | None = None
        looked = 0
        while self._heap and looked < LOOK:
            worth, _, key, entry = self._heap[0]
            if self._entries.get(key) is not entry:
                heapq.heappop(self._heap)
            elif entry.worth > worth:
                self._tick += 1  # keys need not be comparable
                heapq.heapreplace(self._heap, (entry.worth, self._tick, key, entry))
                looked += 1
                if least is None or entry.worth < least[1].worth:
                    least = key, entry
            else:
                heapq.heappop(self._heap)
                return self._leave(key, entry)
        return self._leave(*least) if least else None

    def _leave(self, key: K, entry: Entry) -> tuple[K, Entry]:
        del self._entries[key]
        self._ghosts.add(key, entry.size)
        self._ghosts.trim(self.used, len(self._entries) + 1)
        self.used -= entry.size
        self._age = max(self._age, entry.worth)
        self._compact()
        return key, entry

    def _worth(self, entry: Entry) -> float:
        self._tick += 1
        value = 1.0 + log2(entry.uses) if entry.uses else self._newcomer
        if entry.cost is not None and self._dearness:
            value *= min(DEAR, max(CHEAP, entry.cost / entry.size / self._dearness))
        return self._age + RECENT * self._tick + value / (1.0 + entry.position / FLATTEN)

    def _average(self, entry: Entry) -> None:
        if entry.cost is not None:
            dear = entry.cost / entry.size
            self._dearness += (SMOOTH if self._dearness else 1.0) * (dear - self._dearness)

    def _compact(self) -> None:
        """Rows of removed keys lie in the heap until they come up: never more of them than of the others."""
        if len(self._heap) > 2 * len(self._entries) + 64:
            self._heap = [row for row in self._heap if self._entries.get(row[2]) is row[3]]
            heapq.heapify(self._heap)
