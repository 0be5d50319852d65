"""Moving chunks between two tiers on disk."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from xxhash import xxh3_128_digest

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Record
from kvctl.store.buffers import BufferPool
from kvctl.store.journal import Journal
from kvctl.store.move import Moved, move
from kvctl.store.ram import RamTier
from kvctl.store.segments.mount import MountConfig
from kvctl.store.segments.tier import SegmentsTier
from kvctl.types.chunks import Meta, Scope, TierName
from kvctl.types.errors import LockedError, UsageError
from tests.store.s3.made import MIB, NOW, OTHER, SCOPE, chunk, get, put


class Pair:
    """A flash and a disk tier, and a move between them."""

    def __init__(self, root: Path) -> None:
        self.now = NOW
        self.pool = BufferPool(64 * MIB)
        self.journal = root / "journal"
        self.flash = self._tier(TierName.FLASH, root / "flash")
        self.disk = self._tier(TierName.DISK, root / "disk")

    def _tier(self, name: TierName, path: Path, capacity: int = 256 * MIB) -> SegmentsTier:
        path.mkdir()
        ram = RamTier(0, lambda: self.now)
        return SegmentsTier(
            name, [MountConfig(path, capacity)], self.pool, ram, lambda: self.now, segment_size=16 * MIB, promote=False
        )

    def filled(self, count: int, scope: Scope = SCOPE, **meta: int) -> list[tuple[Record, bytes]]:
        made = [chunk(number, 20_000, **meta) for number in range(count)]
        for record, data in made:
            assert put(self.flash, record, data, scope) is PutStatus.STORED
        return made

    def move(
        self, chunks: list[tuple[Record, bytes]], stop: Callable[[], bool] = lambda: False, **more: object
    ) -> Moved:
        names = [(SCOPE, record.key) for record, _ in chunks]
        return move(
            self.flash, self.disk, names, journal=self.journal, stop=stop, pool=self.pool,
            clock=lambda: self.now, **more,  # type: ignore[arg-type]
        )  # fmt: skip

    def where(self, chunks: list[tuple[Record, bytes]]) -> list[str]:
        keys = [record.key for record, _ in chunks]
        places = zip(self.flash.has(SCOPE, keys), self.disk.has(SCOPE, keys), strict=True)
        return ["".join(name for name, there in zip("fd", pair, strict=True) if there) for pair in places]

    def left_open(self) -> int:
        book = Journal(self.journal, TierName.FLASH, TierName.DISK)
        book.close()
        return len(book.open)

    def close(self) -> None:
        self.flash.close()
        self.disk.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.close()


def test_chunks_change_their_tier_with_all_that_is_known_of_them(pair: Pair) -> None:
    chunks = pair.filled(6, subject=b"s" * 16, model=b"m" * 16, position=3, recompute_us=9)
    told: list[bytes] = []

    done = pair.move(chunks[:4], on_settled=lambda scope, key: told.append(key))

    assert done == Moved(4, 80_000)
    assert pair.where(chunks) == ["d"] * 4 + ["f"] * 2
    assert told == [record.key for record, _ in chunks[:4]]
    for record, data in chunks[:4]:
        assert pair.disk.record(SCOPE, record.key) == record
        assert get(pair.disk, record.key) == data
    assert pair.left_open() == 0


def test_a_second_run_finds_nothing_to_do(pair: Pair) -> None:
    chunks = pair.filled(3)
    pair.move(chunks)
    assert pair.move(chunks) == Moved(skipped={"moved before": 3})
    assert pair.where(chunks) == ["d"] * 3


def test_leased_chunks_stay_and_go_later(pair: Pair) -> None:
    chunks = pair.filled(3)
    leased = chunks[1][0].key

    assert pair.move(chunks, may_remove=lambda scope, key: key != leased) == Moved(2, 40_000, {"leased": 1})
    assert pair.where(chunks) == ["d", "f", "d"]
    assert pair.move(chunks).moved == 1


def test_a_lease_taken_during_the_copy_keeps_the_chunk_in_the_source(pair: Pair) -> None:
    chunks = pair.filled(1)
    answers = iter([True, False])

    assert pair.move(chunks, may_remove=lambda scope, key: next(answers)) == Moved(skipped={"leased": 1})

    assert pair.where(chunks) == ["fd"]
    assert pair.left_open() == 1
    assert pair.move([]) == Moved(1, 20_000)
    assert pair.where(chunks) == ["d"]


def during_copy(pair: Pair, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen once, right after a copy was written."""
    write, acted = pair.disk.write, []

    def written(scope, record, buffer, *, durable, done):  # type: ignore[no-untyped-def]
        def answered(status: PutStatus) -> None:
            if not acted:
                acted.append(act())
            done(status)

        write(scope, record, buffer, durable=durable, done=answered)

    monkeypatch.setattr(pair.disk, "write", written)


def test_what_is_erased_during_the_copy_is_in_neither_tier(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = pair.filled(2)
    during_copy(pair, lambda: pair.flash.erase_scope(SCOPE), monkeypatch)

    done = pair.move(chunks)

    assert (done.moved, sum(done.skipped.values())) == (0, 2)
    assert pair.where(chunks) == ["", ""]
    assert pair.left_open() == 0


def test_what_is_replaced_during_the_copy_stays_in_the_source(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = pair.filled(1)
    record = chunks[0][0]
    new = bytes(20_000)

    def replaced() -> None:
        pair.flash.remove(SCOPE, [record.key])
        put(pair.flash, Record(record.key, len(new), xxh3_128_digest(new), NOW + 1, Meta()), new)

    during_copy(pair, replaced, monkeypatch)

    assert pair.move(chunks) == Moved(skipped={"changed meanwhile": 1})
    assert pair.where(chunks) == ["f"]
    assert get(pair.flash, record.key) == new


def test_expired_and_unknown_chunks_are_not_moved(pair: Pair) -> None:
    chunks = pair.filled(2, expires_at=NOW + 10)
    pair.now = NOW + 10
    unknown = chunk(77)

    done = pair.move([*chunks, unknown])

    assert (done.moved, sum(done.skipped.values()), dict(done.failed)) == (0, 3, {})
    assert pair.where(chunks) == ["", ""]


def test_a_bad_copy_is_not_trusted(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = pair.filled(1)
    read = pair.disk.read

    def spoiled(scope: Scope, key: bytes):  # type: ignore[no-untyped-def]
        reading = read(scope, key)
        assert reading is not None
        pieces = reading.pieces
        monkeypatch.setattr(type(reading), "pieces", lambda self: (bytes(len(piece)) for piece in pieces()))
        return reading

    monkeypatch.setattr(pair.disk, "read", spoiled)

    assert pair.move(chunks) == Moved(failed={"copy differs": 1})
    monkeypatch.undo()
    assert "f" in pair.where(chunks)[0]


def test_a_full_target_ends_the_run(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = pair.filled(4)
    monkeypatch.setattr(pair.disk, "write", lambda *_, durable, done: done(PutStatus.FULL))

    assert pair.move(chunks) == Moved(failed={"target full": 1}, ended="target full")
    monkeypatch.undo()
    assert pair.where(chunks) == ["f"] * 4
    assert pair.move(chunks).moved == 4


def test_a_target_that_fails_is_left_alone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = pair.filled(9)
    monkeypatch.setattr(pair.disk, "write", lambda *_, durable, done: done(PutStatus.FAILED))

    done = pair.move(chunks)

    assert (dict(done.failed), done.ended) == ({"target failed": 5}, "failures")
    assert pair.where(chunks) == ["f"] * 9


def test_a_busy_target_is_asked_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = pair.filled(1)
    write, waits = pair.disk.write, []

    def busy_twice(*given, durable, done):  # type: ignore[no-untyped-def]
        if len(waits) < 2:
            done(PutStatus.BUSY)
        else:
            write(*given, durable=durable, done=done)

    monkeypatch.setattr(pair.disk, "write", busy_twice)
    assert pair.move(chunks, wait=waits.append).moved == 1
    assert len(waits) == 2


def test_a_stop_is_obeyed_between_chunks(pair: Pair) -> None:
    chunks = pair.filled(5)
    told: list[bytes] = []

    done = pair.move(chunks, stop=lambda: len(told) == 2, on_settled=lambda scope, key: told.append(key))

    assert done == Moved(2, 40_000, ended="stopped")
    assert pair.move(chunks).moved == 3


def test_the_pace_is_kept(pair: Pair) -> None:
    chunks = pair.filled(3)
    waits: list[float] = []
    waited = iter([True] * 1000)

    pair.move(chunks, pace_bytes_per_second=20_000 / 5, wait=waits.append, stop=lambda: not next(waited, False))

    assert waits
    assert max(waits) <= 0.2


def test_two_runs_of_one_journal_do_not_meet(pair: Pair) -> None:
    chunks = pair.filled(2)
    refused: list[str] = []

    def second(scope: Scope, key: bytes) -> None:
        with pytest.raises(LockedError) as error:
            pair.move(chunks)
        refused.append(error.value.code)

    assert pair.move(chunks, on_settled=second).moved == 2
    assert refused == ["KV-STORE-320"] * 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"kvctl-move":1,"source":"disk","target":"flash"}\n', "KV-STORE-321"),
        (b'{"kvctl-move":2,"source":"flash","target":"disk"}\n', "KV-STORE-322"),
        (b"hello\n", "KV-STORE-322"),
        (b'{"kvctl-move":1,"source":"flash","target":"disk"}\n{"n":1,"step":"copied"}\n', "KV-STORE-322"),
        (b'{"kvctl-move":1,"source":"flash","target":"disk"}\n{"n":1}\n', "KV-STORE-322"),
    ],
)
def test_another_file_is_no_journal(pair: Pair, text: bytes, code: str) -> None:
    pair.journal.write_bytes(text)
    with pytest.raises(UsageError) as refused:
        pair.move([])
    assert refused.value.code == code
    assert pair.journal.read_bytes() == text


def test_a_run_may_end_at_any_line(pair: Pair) -> None:
    """A journal cut at any byte, with the chunk where it was then: the next run finishes, and nothing is lost."""
    source = random.Random(1)
    for number in range(12):
        made = chunk(1000 + number, 20_000)
        put(pair.flash, *made)
        step = number % 3
        if step == 2:
            pair.move([made])
            lines = pair.journal.read_bytes().splitlines(keepends=True)
            pair.journal.write_bytes(b"".join(lines[:-1]) + lines[-1][: source.randrange(len(lines[-1]))])
        elif step == 1:
            answers = iter([True, False])
            pair.move([made], may_remove=lambda scope, key, answers=answers: next(answers))
        assert pair.where([made])[0]
        pair.move([made])
        assert pair.where([made]) == ["d"]
        assert get(pair.disk, made[0].key) == made[1]
        assert pair.left_open() == 0


def test_scopes_are_kept(pair: Pair) -> None:
    chunks = pair.filled(1, OTHER)
    move(
        pair.flash, pair.disk, [(OTHER, chunks[0][0].key)], journal=pair.journal, stop=lambda: False, pool=pair.pool,
        clock=lambda: NOW,
    )  # fmt: skip
    assert get(pair.disk, chunks[0][0].key, OTHER) == chunks[0][1]
    assert pair.disk.has(SCOPE, [chunks[0][0].key]) == [False]
