"""Telling the stores which chunks a user's request used, so that the user's erasure reaches those of others too."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvctl.connector.keys import KeyLease
from kvctl.connector.pool import Pool
from kvctl.connector.tier_counts import Counts
from kvctl.connector.tier_restore import Restore
from kvctl.types.chunks import NO_SUBJECT

WITHIN = 2.0  # seconds for the chunks of one request
TRIES = 10
WAITING = 4096  # requests whose stores could not be told yet, at most


@dataclass(frozen=True, slots=True)
class Use:
    lease: KeyLease
    subject: bytes
    chain: Sequence[bytes]
    positions: Sequence[int]
    tries: int = 0


class Lineage:
    """Thread-safe. What no store could note at once is told again by `retry`, up to TRIES times; then it is counted."""

    def __init__(self, pool: Pool, counts: Counts) -> None:
        self._pool = pool
        self._counts = counts
        self._waiting: deque[Use] = deque()

    def used(self, restore: Restore, group: int, positions: Sequence[int]) -> None:
        """A request's user has used these chunks: they were loaded, or are the same as what was computed."""
        grant = restore.grant
        if grant is not None and grant.meta.subject != NO_SUBJECT and positions:
            chain = restore.chain(group, max(positions) + 1)
            there = [position for position in positions if position < len(chain)]
            self._tell(Use(grant.lease, grant.meta.subject, chain, there))

    def retry(self) -> None:
        for _ in range(len(self._waiting)):
            self._tell(self._waiting.popleft())

    def _tell(self, use: Use) -> None:
        until = time.monotonic() + WITHIN
        left = self._pool.lineage(use.lease, use.subject, use.chain, use.positions, until)
        if not left:
            return
        if use.tries < TRIES and len(self._waiting) < WAITING:
            self._waiting.append(replace(use, tries=use.tries + 1))
        else:
            self._counts.add("kvctl_tier_unnoted_chunks", left)
