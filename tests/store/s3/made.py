"""Chunks, and tiers over the test cluster."""

import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import obstore
import xxhash

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Record, Tier
from kvctl.store.buffers import Buffer, BufferPool
from kvctl.store.s3 import S3Tier, Settings
from kvctl.store.s3.bucket import scope_digest
from kvctl.types.chunks import Meta, Scope, TierName
from tests.store.seaweed import Cluster

MIB = 1 << 20
SCOPE = Scope("tenant-of-test", "domain-of-test", bytes(range(16)))
OTHER = Scope("other-tenant", "domain-of-test", bytes(range(16)))
NOW = 1_800_000_000
WITHIN = 20.0


def is_soon(condition: Callable[[], bool], seconds: float = WITHIN) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Opener:
    """Call it for a tier; the keyword arguments are Settings' own, besides `capacity`, `clock` and `pool`."""

    def __init__(self, cluster: Cluster, path: Path, test: str) -> None:
        self.cluster = cluster
        self.path = path
        self.prefix = "t/" + re.sub(r"[^A-Za-z0-9]+", "-", test).strip("-")
        self.open: list[S3Tier] = []

    def settings(self, *, identity: str = "store", **more: Any) -> Settings:
        chosen = {
            "bucket": self.cluster.bucket,
            "endpoint": self.cluster.endpoint,
            "credentials": self.cluster.credentials(self.path / f"{identity}.json", identity),
            "prefix": self.prefix,
            "request_seconds": 10.0,
            "probe_seconds": 0.1,
            "sweep_seconds": 0.2,
        }
        return Settings(**(chosen | more))  # type: ignore[arg-type]

    def __call__(
        self, *, capacity: int = 1 << 40, clock: Any = lambda: NOW, pool: BufferPool | None = None, **more: Any
    ) -> S3Tier:
        tier = S3Tier(
            self.settings(**more),
            TierName.OBJECT,
            capacity,
            self.path / "tier",
            pool or BufferPool(256 * MIB),
            clock,
            map_bytes=64 * MIB,
        )
        self.open.append(tier)
        return tier

    def name(self, key: bytes, scope: Scope = SCOPE) -> str:
        return f"{self.prefix}/{scope_digest(scope).hex()}/{key.hex()}"

    def objects(self) -> set[str]:
        """Every object below this test's prefix, as the administrator sees it."""
        found = obstore.list(self.cluster.client(), self.prefix).collect()
        return {meta["path"] for meta in found}

    def close(self) -> None:
        for tier in self.open:
            tier.close()


def chunk(number: int, size: int = 256 << 10, **meta: Any) -> tuple[Record, bytes]:
    """The record and the bytes of a chunk; the same number gives the same chunk."""
    source = random.Random(f"{number} {size}")
    data = source.randbytes(size)
    key = source.randbytes(32)
    return Record(key, size, xxhash.xxh3_128(data).digest(), NOW, Meta(**meta)), data


def in_buffer(data: bytes, pool: BufferPool) -> Buffer:
    buffer = pool.take(len(data))
    assert buffer is not None
    buffer.body[:] = data
    return buffer


class Answer:
    """What `done` was called with, and from which thread."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[PutStatus] = SimpleQueue()
        self.thread: threading.Thread | None = None

    def __call__(self, status: PutStatus) -> None:
        self.thread = threading.current_thread()
        self._answers.put(status)

    def wait(self, seconds: float = 30) -> PutStatus:
        return self._answers.get(timeout=seconds)

    def given(self) -> bool:
        return not self._answers.empty()


def begin(tier: Tier, record: Record, data: bytes, scope: Scope = SCOPE) -> Answer:
    answer = Answer()
    buffer = in_buffer(data, BufferPool(2 * len(data) + 2 * MIB))
    tier.write(scope, record, buffer, durable=True, done=answer)
    buffer.release()
    return answer


def put(tier: Tier, record: Record, data: bytes, scope: Scope = SCOPE) -> PutStatus:
    return begin(tier, record, data, scope).wait()


def get(tier: Tier, key: bytes, scope: Scope = SCOPE) -> bytes | None:
    reading = tier.read(scope, key)
    if reading is None:
        return None
    with closing(reading):
        return b"".join(bytes(piece) for piece in reading.pieces())
