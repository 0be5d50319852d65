"""The names of a mount's chunks in memory: what HAS asks for, a thousand at a time, without a walk through the index.

About 100 bytes a chunk. Empty until `load` has read the index once; look-ups go to the index until then.
"""

from collections.abc import Iterable, Sequence

from kvctl.types.chunks import NEVER


class Known:
    """By scope number: keys without an end, and keys with one. Changed by one thread, asked by any."""

    def __init__(self) -> None:
        self.complete = False
        self._endless: dict[int, set[bytes]] = {}
        self._ending: dict[int, dict[bytes, int]] = {}

    def load(self, rows: Iterable[tuple[int, bytes, int]]) -> None:
        """Take in (scope number, key, when it ends) of every chunk. Nothing may change the index meanwhile."""
        for number, key, end in rows:
            self._put(number, key, end)
        self.complete = True

    def follow(self, moves: Iterable[tuple[int, bytes, int | None]]) -> None:
        """Apply a commit's (scope number, key, when it ends; None: it is gone) in their order."""
        if not self.complete:
            return
        for number, key, end in moves:
            self._endless.get(number, set()).discard(key)
            self._ending.get(number, {}).pop(key, None)
            if end is not None:
                self._put(number, key, end)

    def present(self, number: int, keys: Sequence[bytes], now: float) -> set[bytes]:
        """Which of the keys are there and have not ended."""
        endless, ending = self._endless.get(number), self._ending.get(number)
        found = endless.intersection(keys) if endless else set()
        if ending:
            found |= {key for key in keys if ending.get(key, 0) > now}
        return found

    def _put(self, number: int, key: bytes, end: int) -> None:
        if end == NEVER:
            self._endless.setdefault(number, set()).add(key)
        else:
            self._ending.setdefault(number, {})[key] = end
