"""Fills a store with tiny chunks: `python -m kvctl.bench.store.fill CONFIG LEASE COUNT`.

It writes to the flash tier of a kvstored that does not run. Segments and index get what they always get; sockets,
admission and the look for an older chunk of the same name are left out, which would take most of the time.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from xxhash import xxh3_128_digest

from kvctl.bench.store.jobs import chunk
from kvctl.connector.keys import load_lease
from kvctl.connector.wire import PutStatus
from kvctl.store.api import Record, Tier
from kvctl.store.buffers import BufferPool
from kvctl.store.build import open_tier
from kvctl.store.config import load
from kvctl.store.guard import Guard
from kvctl.store.ram import RamTier
from kvctl.types.chunks import Meta, Scope, TierName

LABEL = "tiny"
SIZE = 512  # bytes of a chunk; its header and padding make it 8 KiB in a segment
MEMORY = 256 << 20
PATIENCE = 60.0  # seconds that writes may take to give memory back


class Failures:
    """Counts what `Tier.write` reports from its own thread."""

    def __init__(self) -> None:
        self.seen: list[PutStatus] = []

    def done(self, status: PutStatus) -> None:
        if status is not PutStatus.STORED:
            self.seen.append(status)


def fill(tier: Tier, pool: BufferPool, scope: Scope, count: int) -> float:
    """Write chunks 0 to `count` - 1, durable at the end; seconds it took. RuntimeError when one is refused."""
    body, failures, begun = bytes(SIZE), Failures(), time.perf_counter()
    checksum, now = xxh3_128_digest(body), int(time.time())
    for at in range(count):
        buffer = pool.take(SIZE, PATIENCE)
        if buffer is None:
            raise RuntimeError(f"chunk {at}: writes gave no memory back in {PATIENCE:.0f} s")
        buffer.body[:] = body
        record = Record(chunk(LABEL, SIZE, at).key, SIZE, checksum, now, Meta())
        tier.write(scope, record, buffer, durable=False, done=failures.done)
        buffer.release()
    tier.flush()
    if failures.seen:
        raise RuntimeError(f"{len(failures.seen)} chunks were refused, the first as {failures.seen[0].name}")
    return time.perf_counter() - begun


def main(argv: Sequence[str]) -> None:
    config, lease, count = load(Path(argv[0])), load_lease(Path(argv[1])), int(argv[2])
    assert config.tiers.flash is not None
    pool = BufferPool(MEMORY)
    tier = open_tier(config, TierName.FLASH, config.tiers.flash, pool, RamTier(0, time.time), Guard())
    try:
        seconds = fill(tier, pool, lease.scope, count)
    finally:
        tier.close()
    sys.stdout.write(f"{seconds}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
