"""LFU in constant time: one queue for each number of uses (Shah, Mitra, Matani 2010)."""

from collections import OrderedDict
from typing import Generic

from kvctl.sizing.policies.entry import Entry, K, refusal


class LFU(Generic[K]):
    """Least often used; among equals the one whose last use is longest ago. Nothing ages."""

    def __init__(self) -> None:
        self.used = 0
        self._entries: dict[K, Entry] = {}
        self._queues: dict[int, OrderedDict[K, Entry]] = {}  # uses -> keys, oldest use first; no empty queue
        self._fewest = 1  # no queue lies below it

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def add(self, key: K, size: int = 1, *, cost: float | None = None, position: int = 0) -> Entry:
        if size <= 0 or key in self._entries:
            raise refusal(size)
        entry = self._entries[key] = Entry(size, position, cost, uses=1)
        self._append(key, entry)
        self._fewest = 1
        self.used += size
        return entry

    def touch(self, key: K) -> Entry | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._leave(key, entry)
            entry.uses += 1
            self._append(key, entry)
        return entry

    def remove(self, key: K) -> Entry | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(key, entry)
            self.used -= entry.size
        return entry

    def evict(self) -> tuple[K, Entry] | None:
        if not self._entries:
            return None
        if self._fewest not in self._queues:
            self._fewest = min(self._queues)
        key = next(iter(self._queues[self._fewest]))
        entry = self.remove(key)
        assert entry is not None
        return key, entry

    def _append(self, key: K, entry: Entry) -> None:
        queue = self._queues.get(entry.uses)
        if queue is None:
            queue = self._queues[entry.uses] = OrderedDict()
        queue[key] = entry

    def _leave(self, key: K, entry: Entry) -> None:
        queue = self._queues[entry.uses]
        del queue[key]
        if not queue:
            del self._queues[entry.uses]
