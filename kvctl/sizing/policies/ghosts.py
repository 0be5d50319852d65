"""Keys that left not long ago: a bounded memory of sizes, no bytes."""

from collections import OrderedDict
from typing import Generic

from kvctl.sizing.policies.entry import K


class Ghosts(Generic[K]):
    """Key -> size, oldest first."""

    def __init__(self) -> None:
        self.used = 0
        self._sizes: OrderedDict[K, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, key: object) -> bool:
        return key in self._sizes

    def add(self, key: K, size: int) -> None:
        self._sizes[key] = size
        self.used += size

    def pop(self, key: K) -> int | None:
        size = self._sizes.pop(key, None)
        if size is not None:
            self.used -= size
        return size

    def trim(self, size: int, count: int) -> None:
        """Forget the oldest until at most `size` bytes and `count` keys are remembered."""
        while self._sizes and (self.used > size or len(self._sizes) > count):
            self.used -= self._sizes.popitem(last=False)[1]
