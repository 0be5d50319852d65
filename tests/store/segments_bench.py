"""What the tests of the segments tier share: a tier in a directory, chunks, and a ledger of answers."""

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from xxhash import xxh3_128_digest

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Record
from kvctl.store.buffers import BufferPool
from kvctl.store.ram import RamTier
from kvctl.store.segments.mount import Mount, MountConfig
from kvctl.store.segments.tier import SegmentsTier
from kvctl.types.chunks import Meta, Scope, TierName

ACME = Scope("acme", "prod", b"epoch of acme 01")
ZEN = Scope("zen", "prod", b"epoch of zen 001")
ALICE = b"pseudonym-alice!"
BOB = b"pseudonym-bob!!!"
NOW = 1_700_000_000


def key(number: int) -> bytes:
    return hashlib.sha256(b"key %d" % number).digest()


def body(number: int, length: int) -> bytes:
    return hashlib.shake_256(b"body %d" % number).digest(length)


class Bench:
    """A tier over directories `m0`, `m1`, ... below `root`, opened and reopened at will."""

    def __init__(self, root: Path, *, mounts: int = 1, capacity: int = 1 << 30, segment_size: int = 1 << 20) -> None:
        self.now = float(NOW)
        self.steady = 0.0
        self.root = root
        self.configs = [MountConfig(root / f"m{number}", capacity) for number in range(mounts)]
        for config in self.configs:
            config.path.mkdir(parents=True, exist_ok=True)
        self.segment_size = segment_size
        self.pool = BufferPool(64 << 20)
        self.ram = RamTier(0, lambda: self.now)
        self.open()

    def open(self, *, ram: int = 0, promote: bool = True) -> None:
        self.ram = RamTier(ram, lambda: self.now)
        self.tier = SegmentsTier(
            TierName.FLASH,
            self.configs,
            self.pool,
            self.ram,
            lambda: self.now,
            steady=lambda: self.steady,
            segment_size=self.segment_size,
            promote=promote,
        )

    def close(self) -> None:
        self.tier.close()
        self.ram.close()
        assert self.pool.in_use == 0

    def reopen(self) -> None:
        self.close()
        self.open()

    @property
    def mount(self) -> Mount:
        return self.tier._mounts[0]

    def put(
        self,
        number: int,
        length: int = 10_000,
        *,
        scope: Scope = ACME,
        durable: bool = True,
        subject: bytes = bytes(16),
        expires_at: int = 0,
    ) -> PutStatus:
        """Write a chunk and wait for the answer."""
        data = body(number, length)
        buffer = self.pool.take(length, timeout=10)
        assert buffer is not None
        buffer.body[:] = data
        meta = Meta(expires_at=expires_at, subject=subject, position=number, recompute_us=7)
        record = Record(key(number), length, xxh3_128_digest(data), int(self.now), meta)
        answers: list[PutStatus] = []
        answered = threading.Event()

        def done(status: PutStatus) -> None:
            answers.append(status)
            answered.set()

        try:
            self.tier.write(scope, record, buffer, durable=durable, done=done)
        finally:
            buffer.release()
        assert answered.wait(20)
        return answers[0]

    def get(self, number: int, scope: Scope = ACME) -> bytes | None:
        reading = self.tier.read(scope, key(number))
        if reading is None:
            return None
        with closing(reading):
            data = b"".join(bytes(piece) for piece in reading.pieces())
            assert len(data) == reading.length
            return data

    def has(self, *numbers: int, scope: Scope = ACME) -> list[bool]:
        return self.tier.has(scope, [key(number) for number in numbers])

    def remove(self, *numbers: int, scope: Scope = ACME) -> int:
        return self.tier.remove(scope, [key(number) for number in numbers])

    def files_hold(self, *needles: bytes) -> list[bytes]:
        """Which of the needles the mounts' files hold, whatever the file."""
        found = set()
        for config in self.configs:
            for path in config.path.rglob("*"):
                data = path.read_bytes() if path.is_file() else b""
                found |= {needle for needle in needles if needle in data}
        return sorted(found)


@contextlib.contextmanager
def opened(root: Path, **options: int) -> Iterator[Bench]:
    bench = Bench(root, **options)
    try:
        yield bench
    finally:
        bench.close()
