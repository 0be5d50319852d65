"""LRU and FIFO: one queue."""

from collections import OrderedDict
from typing import Generic

from kvctl.sizing.policies.entry import Entry, K, refusal


class FIFO(Generic[K]):
    """First in, first out: use changes nothing."""

    def __init__(self) -> None:
        self.used = 0
        self._queue: OrderedDict[K, Entry] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, key: object) -> bool:
        return key in self._queue

    def add(self, key: K, size: int = 1, *, cost: float | None = None, position: int = 0) -> Entry:
        if size <= 0 or key in self._queue:
            raise refusal(size)
        entry = self._queue[key] = Entry(size, position, cost)
        self.used += size
        return entry

    def touch(self, key: K) -> Entry | None:
        return self._queue.get(key)

    def remove(self, key: K) -> Entry | None:
        entry = self._queue.pop(key, None)
        if entry is not None:
            self.used -= entry.size
        return entry

    def evict(self) -> tuple[K, Entry] | None:
        if not self._queue:
            return None
        key, entry = self._queue.popitem(last=False)
        self.used -= entry.size
        return key, entry


class LRU(FIFO[K]):
    """Least recently used."""

    def touch(self, key: K) -> Entry | None:
        entry = self._queue.get(key)
        if entry is not None:
            self._queue.move_to_end(key)
        return entry
