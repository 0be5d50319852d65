"""Sealing the host tier's rows and sending them to the stores."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from kvctl.connector.pool import Pool
from kvctl.connector.tier_counts import Counts
from kvctl.connector.tier_grants import Grant
from kvctl.connector.tier_jobs import Done
from kvctl.connector.tier_learning import Learning
from kvctl.connector.tier_lineage import Lineage
from kvctl.connector.tier_restore import Chunk, Restore
from kvctl.types.chunks import MODEL_BYTES, Ack, Meta


class Storer:
    """Thread-safe. `within`: seconds for one job, from when it was given, so that a hung store holds rows no longer."""

    def __init__(self, pool: Pool, lineage: Lineage, learning: Learning, counts: Counts, within: float) -> None:
        self._pool = pool
        self._lineage = lineage
        self._learning = learning
        self._counts = counts
        self._within = within

    def store(self, number: int, restore: Restore, grant: Grant, chunks: Sequence[Chunk], begun: float) -> Done:
        """Send what no store has yet; a chunk that is not stored is a later miss, and nothing else."""
        until = begun + self._within
        ordered = sorted(chunks, key=lambda chunk: (chunk.spot.group, chunk.spot.position))
        stored = 0
        for group, run in groupby(ordered, key=lambda chunk: chunk.spot.group):
            stored += self._run(restore, grant, group, list(run), until)
        size = stored * restore.shape.row
        return Done(number, stored == len(chunks), None, time.monotonic() - begun, size)

    def _run(self, restore: Restore, grant: Grant, group: int, run: Sequence[Chunk], until: float) -> int:
        """How many of a group's chunks are with a store now."""
        chain = restore.chain(group, run[-1].spot.position + 1)
        run = [chunk for chunk in run if chunk.spot.position < len(chain)]
        if not run:
            return 0
        first = run[0].spot.position
        there = self._pool.has(grant.lease, chain, first, 0, until)
        new = [chunk for chunk in run if not there[chunk.spot.position - first]]
        items = [(chunk.spot.position, chunk.row, self._meta(restore, grant, chunk)) for chunk in new]
        results = self._pool.put(grant.lease, chain, items, Ack.VISIBLE, until) if items else []
        stored = sum(result.there > 0 for result in results)
        self._counts.add("kvctl_tier_known_chunks", len(run) - len(new))
        self._counts.add("kvctl_tier_stored_chunks", stored)
        self._counts.add("kvctl_tier_stored_bytes", stored * restore.shape.row)
        self._counts.add("kvctl_tier_unstored_chunks", len(new) - stored, "refused")
        self._lineage.used(restore, group, [chunk.spot.position for chunk in run if there[chunk.spot.position - first]])
        return len(run) - len(new) + stored

    def _meta(self, restore: Restore, grant: Grant, chunk: Chunk) -> Meta:
        tokens = restore.shape.tokens[chunk.spot.group]
        first = chunk.spot.position * tokens
        cost = self._learning.between(first, first + tokens)
        return replace(
            grant.meta,
            model=restore.shape.fingerprint[:MODEL_BYTES],
            position=chunk.spot.position,
            recompute_us=min(int(cost * 1e6), 0xFFFFFFFF),
        )
