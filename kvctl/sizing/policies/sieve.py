"""SIEVE (NSDI'24): a hand sweeps a queue from old to new; what was used since its last pass stays where it is."""

from collections import OrderedDict
from typing import Generic

from kvctl.sizing.policies.entry import Entry, K, refusal


class SIEVE(Generic[K]):
    """The paper's list, cut in two at the hand: `_passed` is older than the hand, `_ahead` begins at it.

    Passing a key moves it from the front of one to the end of the other, so the order by age never changes.
    """

    def __init__(self) -> None:
        self.used = 0
        self._passed: OrderedDict[K, Entry] = OrderedDict()
        self._ahead: OrderedDict[K, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._passed) + len(self._ahead)

    def __contains__(self, key: object) -> bool:
        return key in self._ahead or key in self._passed

    def add(self, key: K, size: int = 1, *, cost: float | None = None, position: int = 0) -> Entry:
        if size <= 0 or key in self:
            raise refusal(size)
        entry = self._ahead[key] = Entry(size, position, cost)
        self.used += size
        return entry

    def touch(self, key: K) -> Entry | None:
        entry = self._ahead.get(key) or self._passed.get(key)
        if entry is not None:
            entry.uses = 1
        return entry

    def remove(self, key: K) -> Entry | None:
        entry = self._ahead.pop(key, None) or self._passed.pop(key, None)
        if entry is not None:
            self.used -= entry.size
            self._wrap()
        return entry

    def evict(self) -> tuple[K, Entry] | None:
        while self._ahead:
            key, entry = self._ahead.popitem(last=False)
            if not entry.uses:
                self.used -= entry.size
                self._wrap()
                return key, entry
            entry.uses = 0
            self._passed[key] = entry
            self._wrap()
        return None

    def _wrap(self) -> None:
        """At the newest key the hand goes back to the oldest, before anything newer comes in."""
        if not self._ahead:
            self._ahead, self._passed = self._passed, self._ahead
