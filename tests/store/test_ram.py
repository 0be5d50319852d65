"""RamTier: what is hot stays, what is erased is zero."""

from contextlib import closing

from kvctl.store.api import Record
from kvctl.store.buffers import BufferPool, class_size
from kvctl.store.ram import RamTier
from kvctl.types.chunks import Meta, Scope

SCOPE = Scope("acme", "prod", bytes(16))
OTHER = Scope("zen", "prod", bytes(16))
BODY = 4096
SIZE = class_size(4096 + BODY)


class Ram:
    def __init__(self, chunks: int, spare: int = 4) -> None:
        self.now = 1000.0
        self.pool = BufferPool((chunks + spare) * SIZE)
        self.tier = RamTier(chunks * SIZE, lambda: self.now)
        self.pool.on_pressure(self.tier.evict)

    def put(self, number: int, scope: Scope = SCOPE, expires_at: int = 0) -> bool:
        buffer = self.pool.take(BODY)
        assert buffer is not None
        buffer.body[:] = bytes([number % 256]) * BODY
        kept = self.tier.insert(scope, Record(key(number), BODY, b"", 0, Meta(expires_at=expires_at)), buffer)
        buffer.release()
        return kept

    def get(self, number: int, scope: Scope = SCOPE) -> bytes | None:
        reading = self.tier.get(scope, key(number))
        if reading is None:
            return None
        with closing(reading):
            assert reading.tier == "ram"
            assert reading.length == BODY
            return b"".join(reading.pieces())


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_what_is_kept_reads_back_and_counts() -> None:
    ram = Ram(4)
    assert ram.put(1)
    assert ram.get(1) == b"\1" * BODY
    assert ram.get(2) is None
    assert ram.get(1, OTHER) is None
    found = ram.tier.counters()
    assert (found["ram_hits"], found["ram_misses"], found["ram_chunks"], found["ram_bytes"]) == (1, 2, 1, SIZE)


def test_a_long_scan_does_not_push_out_what_is_asked_for_again() -> None:
    ram = Ram(100)
    for number in range(50):
        ram.put(number)
        ram.get(number)
    for number in range(1000, 3000):
        ram.put(number)
    assert sum(ram.get(number) is not None for number in range(50)) >= 45


def test_who_comes_back_soon_is_no_newcomer() -> None:
    ram = Ram(20)
    for number in range(20):
        ram.put(number)
        ram.get(number)
    for number in range(100, 110):
        ram.put(number)
    assert ram.get(100) is None
    ram.put(100)  # left lately: its name is known
    for number in range(200, 205):
        ram.put(number)
    assert [ram.get(number) is not None for number in (100, 200, 201)] == [True, False, False]


def test_the_share_is_never_exceeded() -> None:
    ram = Ram(5)
    for number in range(50):
        ram.put(number)
        assert ram.tier.counters()["ram_bytes"] <= 5 * SIZE
    assert not Ram(1, spare=0).tier.insert(
        SCOPE, Record(key(1), 1, b"", 0, Meta()), BufferPool(1 << 20).take(500_000) or ram.pool.take(1)
    )  # type: ignore[arg-type]


def test_pool_presses_ram() -> None:
    ram = Ram(4, spare=0)
    for number in range(4):
        ram.put(number)
    big = ram.pool.take(3 * BODY)
    assert big is not None
    assert ram.tier.counters()["ram_chunks"] < 4


def test_expired_chunks_are_absent_at_once() -> None:
    ram = Ram(4)
    ram.put(1, expires_at=1001)
    assert ram.get(1) is not None
    ram.now = 1001
    assert ram.get(1) is None
    assert not ram.tier.has(SCOPE, key(1))


def test_an_erased_scope_is_zeroed_behind_its_last_reading() -> None:
    ram = Ram(4, spare=0)
    ram.put(7)
    ram.put(8, OTHER)
    reading = ram.tier.get(SCOPE, key(7))
    assert reading is not None
    assert ram.tier.remove_scope(SCOPE) == 1
    assert ram.get(7) is None
    assert b"".join(reading.pieces()) == b"\7" * BODY
    reading.close()
    assert ram.get(8, OTHER) is not None
    buffer = ram.pool.take(BODY)
    assert buffer is not None
    assert bytes(buffer.body) == bytes(BODY)


def test_remove_counts_and_gives_memory_back() -> None:
    ram = Ram(4)
    for number in range(3):
        ram.put(number)
    assert ram.tier.remove(SCOPE, [key(0), key(2), key(9)]) == 2
    ram.tier.close()
    assert ram.pool.in_use == 0
