"""What every eviction policy keeps about a key, and what every policy can do."""

from collections.abc import Hashable
from typing import Protocol, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


class Entry(msgspec.Struct, gc=False):
    """One resident key. A struct without garbage collection: a million of them cost the collector nothing."""

    size: int  # bytes; 1 for a simulator that counts blocks
    position: int = 0  # ordinal in its prompt, from 0
    cost: float | None = None  # of computing it again, in any one unit; None: not known
    uses: int = 0  # what it counts is the policy's own affair
    stamp: int = 0  # left to the caller: when it was last used, on the caller's own clock
    worth: float = 0.0  # CostAware: its place in the order


class Policy(Protocol[K]):
    """Which key leaves next. It has no capacity: the caller evicts until what it wants to add fits.

    No method is thread-safe; the caller holds one lock. Every method costs a few microseconds at a million keys, on
    average: one eviction of SIEVE or S3-FIFO passes all keys that were used since the hand came by.
    """

    used: int  # bytes of all resident keys

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...

    def add(self, key: K, size: int = 1, *, cost: float | None = None, position: int = 0) -> Entry:
        """Take in a key that is not resident. ValueError when it is, or when its size is not above 0.

        `cost`: of computing it again, in any one unit; None: not known. `position`: ordinal in its prompt, from 0.
        """

    def touch(self, key: K) -> Entry | None:
        """The key was used; None when it is not resident (nothing changes then)."""

    def remove(self, key: K) -> Entry | None:
        """Forget a key for a reason of the caller's: no trace of it stays in a ghost list."""

    def evict(self) -> tuple[K, Entry] | None:
        """The next key to leave, already forgotten but for ghost lists; None when nothing is resident."""


def refusal(size: int) -> ValueError:
    """Why an `add` cannot be."""
    return ValueError("the key is resident already: touch it" if size > 0 else f"a size is above 0, not {size}")
