"""S3-FIFO (SOSP'23): a small queue that most keys pass once, a main queue with second chances, a ghost list."""

from collections import OrderedDict
from typing import Generic

from kvctl.sizing.policies.entry import Entry, K, refusal
from kvctl.sizing.policies.ghosts import Ghosts

MOST_USES = 3


class S3FIFO(Generic[K]):
    """`small` is the share of the resident bytes that the small queue may have when something must leave."""

    def __init__(self, small: float = 0.1) -> None:
        self.used = 0
        self._share = small
        self._small: OrderedDict[K, Entry] = OrderedDict()
        self._main: OrderedDict[K, Entry] = OrderedDict()
        self._small_used = 0
        self._ghosts: Ghosts[K] = Ghosts()

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def __contains__(self, key: object) -> bool:
        return key in self._main or key in self._small

    def add(self, key: K, size: int = 1, *, cost: float | None = None, position: int = 0) -> Entry:
        if size <= 0 or key in self:
            raise refusal(size)
        entry = Entry(size, position, cost)
        if self._ghosts.pop(key) is not None:
            self._main[key] = entry
        else:
            self._small[key] = entry
            self._small_used += size
        self.used += size
        return entry

    def touch(self, key: K) -> Entry | None:
        entry = self._main.get(key) or self._small.get(key)
        if entry is not None and entry.uses < MOST_USES:
            entry.uses += 1
        return entry

    def remove(self, key: K) -> Entry | None:
        entry = self._small.pop(key, None)
        if entry is not None:
            self._small_used -= entry.size
        else:
            entry = self._main.pop(key, None)
        if entry is not None:
            self.used -= entry.size
        self._ghosts.pop(key)
        return entry

    def evict(self) -> tuple[K, Entry] | None:
        limit = max(1, int(self.used * self._share))
        if self._small_used < limit and self._main:
            return self._from_main()
        return self._from_small(self.used - limit) or self._from_main()

    def _from_small(self, remembered: int) -> tuple[K, Entry] | None:
        while self._small:
            key, entry = self._small.popitem(last=False)
            self._small_used -= entry.size
            if entry.uses <= 1:
                self._ghosts.add(key, entry.size)
                self._ghosts.trim(max(1, remembered), len(self) + 1)
                self.used -= entry.size
                return key, entry
            entry.uses = 0
            self._main[key] = entry
        return None

    def _from_main(self) -> tuple[K, Entry] | None:
        while self._main:
            key, entry = self._main.popitem(last=False)
            if not entry.uses:
                self.used -= entry.size
                return key, entry
            entry.uses -= 1
            self._main[key] = entry
        return None
