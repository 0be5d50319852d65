"""ARC (Megiddo and Modha, FAST'03) over bytes: a queue for keys used once, one for the others, and what left either."""

from collections import OrderedDict
from typing import Generic

from kvctl.sizing.policies.entry import Entry, K, refusal
from kvctl.sizing.policies.ghosts import Ghosts


class ARC(Generic[K]):
    """The paper moves its target before it makes room for a key; here room is made first, as the store does it."""

    def __init__(self) -> None:
        self.used = 0
        self._once: OrderedDict[K, Entry] = OrderedDict()
        self._often: OrderedDict[K, Entry] = OrderedDict()
        self._once_used = 0
        self._target = 0.0  # bytes that `_once` should have
        self._left_once: Ghosts[K] = Ghosts()
        self._left_often: Ghosts[K] = Ghosts()

    def __len__(self) -> int:
        return len(self._once) + len(self._often)

    def __contains__(self, key: object) -> bool:
        return key in self._often or key in self._once

    def add(self, key: K, size: int = 1, *, cost: float | None = None, position: int = 0) -> Entry:
        if size <= 0 or key in self:
            raise refusal(size)
        entry = Entry(size, position, cost)
        self.used += size
        if self._adapt(key, size):
            self._often[key] = entry
        else:
            self._once[key] = entry
            self._once_used += size
        return entry

    def touch(self, key: K) -> Entry | None:
        entry = self._often.get(key)
        if entry is not None:
            self._often.move_to_end(key)
            return entry
        entry = self._once.pop(key, None)
        if entry is not None:
            self._once_used -= entry.size
            self._often[key] = entry
        return entry

    def remove(self, key: K) -> Entry | None:
        entry = self._once.pop(key, None)
        if entry is not None:
            self._once_used -= entry.size
        else:
            entry = self._often.pop(key, None)
        if entry is not None:
            self.used -= entry.size
        self._left_once.pop(key)
        self._left_often.pop(key)
        return entry

    def evict(self) -> tuple[K, Entry] | None:
        full = self.used
        if self._once and (self._once_used > self._target or not self._often):
            queue, ghosts = self._once, self._left_once
        elif self._often:
            queue, ghosts = self._often, self._left_often
        else:
            return None
        key, entry = queue.popitem(last=False)
        if queue is self._once:
            self._once_used -= entry.size
        self.used -= entry.size
        ghosts.add(key, entry.size)
        self._left_once.trim(full - self._once_used, len(self) + 1)
        self._left_often.trim(full - self._left_once.used, len(self) + 1)
        return key, entry

    def _adapt(self, key: K, size: int) -> bool:
        """Whether the key left not long ago; the queue that it left gets more room."""
        once, often = self._left_once.used, self._left_often.used
        if self._left_once.pop(key) is not None:
            self._target = min(float(self.used), self._target + size * max(1.0, often / once))
            return True
        if self._left_often.pop(key) is not None:
            self._target = max(0.0, self._target - size * max(1.0, once / often))
            return True
        return False
