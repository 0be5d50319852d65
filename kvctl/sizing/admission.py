"""Whether a chunk that is not resident may come in. Filters have a bounded memory and are told how full the tier is."""

from collections.abc import Hashable
from typing import Protocol

from kvctl.sizing.policies.queues import LRU


class Admission(Protocol):
    def admits(self, key: Hashable, *, fill: float, common: bool = False) -> bool:
        """`fill`: used bytes / capacity before the chunk. `common`: a prompt registered as common comes in at once."""


class Always:
    """Everything comes in."""

    def admits(self, key: Hashable, *, fill: float, common: bool = False) -> bool:
        return True


class SecondTouch:
    """A key comes in when it is asked for a second time: a prompt that is asked once is never written.

    `remember`: how many keys at most are remembered (about 100 bytes each), None: all, which only a simulator can have.
    The memory is two generations of hashes; when the young one is full the old one is dropped, so at least the last
    half of `remember` keys are known. A hash that collides admits a key too early, which harms nobody.
    """

    def __init__(self, remember: int | None) -> None:
        if remember is not None and remember < 2:
            raise ValueError(f"remember at least 2 keys, not {remember}")
        self._most = None if remember is None else remember // 2
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def admits(self, key: Hashable, *, fill: float, common: bool = False) -> bool:
        return self.seen(key) or common

    def seen(self, key: Hashable) -> bool:
        """Whether it was seen before; from now on it was."""
        name = hash(key)
        if name in self._young:
            return True
        known = name in self._old
        if self._most is not None and len(self._young) >= self._most:
            self._old, self._young = self._young, set()
        self._young.add(name)
        return known


class UnderPressure:
    """Second touch once the tier is filled to `threshold` (0 to 1); everything before that."""

    def __init__(self, threshold: float, second: SecondTouch) -> None:
        if not 0 <= threshold <= 1:
            raise ValueError(f"a threshold is 0 to 1, not {threshold}")
        self._threshold = threshold
        self._second = second

    def admits(self, key: Hashable, *, fill: float, common: bool = False) -> bool:
        # Remembered while there is room too: a chunk that left and comes back has been asked for twice.
        seen = self._second.seen(key)
        return seen or common or fill < self._threshold


class Shadow:
    """What a small LRU cache over a sample of keys would hit behind one door."""

    def __init__(self, keys: int, door: Admission) -> None:
        self._cache: LRU[int] = LRU()
        self._keys, self._door = keys, door

    def __len__(self) -> int:
        return len(self._cache)

    def asked(self, name: int) -> bool:
        if self._cache.touch(name) is not None:
            return True
        if self._door.admits(name, fill=1.0):
            while self._cache.used >= self._keys:
                self._cache.evict()
            self._cache.add(name, 1)
        return False


class Duel:
    """Under pressure, whichever hits more on a sample of the keys: admit everything, or on second touch.

    Second touch hits more while a tier is small for its work, and less where there is room for what returns; a full
    tier looks the same in both. So two shadow caches over one key in `sample` play it out (set dueling: Qureshi et al.,
    ISCA 2007), older results weighing half after `HALF` sampled keys. While neither is ahead, second touch: it writes
    less. `keys`: how many chunks the tier holds when full; the shadows take about 350 bytes for each `sample` of them.
    """

    HALF = 2000
    SHADOW_KEYS = 128  # at least, or chance decides

    def __init__(self, threshold: float, keys: int, second: SecondTouch) -> None:
        self._pressure = UnderPressure(threshold, second)
        self._sample = max(1, min(64, keys // self.SHADOW_KEYS))
        size = max(2, keys // self._sample)
        self._all, self._twice = Shadow(size, Always()), Shadow(size, SecondTouch(2 * size))
        self._keep = 0.5 ** (1 / self.HALF)
        self._ahead = 0.0  # hits that admitting everything has more

    def __len__(self) -> int:
        return len(self._all) + len(self._twice)

    def asked(self, key: Hashable) -> None:
        """A key was looked up, resident or not. Once a request: a HAS counts, the PUT that follows it does not."""
        name = hash(key)
        if ((name * 0x9E3779B97F4A7C15) >> 32) % self._sample == 0:  # Fibonacci hashing: small ints are spread too
            self._ahead = self._ahead * self._keep + self._all.asked(name) - self._twice.asked(name)

    def admits(self, key: Hashable, *, fill: float, common: bool = False) -> bool:
        return self._pressure.admits(key, fill=fill, common=common) or self._ahead > 0
