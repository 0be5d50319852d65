"""The segments tier as the store sees it: write, read, forget, erase, survive."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kvctl.connector.wire import PutStatus
from kvctl.store.api import Usage
from kvctl.store.buffers import NoRoomError
from kvctl.types.errors import KvctlError, LockedError
from tests.store.faults.rig import await_that
from tests.store.segments_bench import ACME, ALICE, BOB, NOW, ZEN, Bench, body, key, opened


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        yield made


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("length", [1, 4095, 4096, 4097, 300_000, 9_000_000])
def test_a_chunk_reads_back_before_and_after_its_commit(bench: Bench, length: int, durable: bool) -> None:
    assert bench.put(1, length, durable=durable) is PutStatus.STORED
    assert bench.get(1) == body(1, length)
    bench.tier.flush()
    assert bench.get(1) == body(1, length)
    record = bench.tier.record(ACME, key(1))
    assert record is not None
    assert (record.length, record.stored_at, record.meta.position, record.meta.recompute_us) == (length, NOW, 1, 7)


def test_scopes_do_not_see_each_other(bench: Bench) -> None:
    bench.put(1)
    assert bench.get(1, ZEN) is None
    bench.put(1, 5000, scope=ZEN)
    assert (bench.get(1), bench.get(1, ZEN)) == (body(1, 10_000), body(1, 5000))
    bench.tier.flush()
    assert bench.tier.scopes() == {ACME: Usage(10_000, 1), ZEN: Usage(5000, 1)}


def test_an_existing_chunk_is_left_alone(bench: Bench) -> None:
    bench.put(1)
    assert bench.put(1, 20) is PutStatus.EXISTS
    assert bench.put(1, 20, durable=False) is PutStatus.EXISTS
    assert bench.get(1) == body(1, 10_000)


def test_everything_is_there_after_reopening(bench: Bench) -> None:
    for number in range(50):
        bench.put(number, 100_000, durable=False)
    bench.remove(*range(10))
    bench.reopen()
    assert bench.has(*range(50)) == [False] * 10 + [True] * 40
    assert [record.key for _, record in bench.tier.walk(ACME)] == sorted(key(number) for number in range(10, 50))
    assert bench.get(20) == body(20, 100_000)
    assert bench.mount.counters["replayed"] == 0


def test_walk_goes_on_behind_a_key_over_all_mounts(tmp_path: Path) -> None:
    with opened(tmp_path, mounts=3) as bench:
        for number in range(40):
            bench.put(number, 3000, scope=ACME if number % 2 else ZEN)
        assert all(mount.log.tail.offset for mount in bench.tier._mounts)  # each took its part
        keys = sorted(key(number) for number in range(1, 40, 2))
        assert [record.key for _, record in bench.tier.walk(ACME, keys[7])] == keys[8:]
        assert len(list(bench.tier.walk())) == 40


def test_expired_chunks_are_absent_at_once_and_swept_later(bench: Bench) -> None:
    bench.put(1, expires_at=NOW + 10)
    bench.put(2, expires_at=NOW + 99)
    bench.tier.flush()
    bench.now = NOW + 10
    assert bench.has(1, 2) == [False, True]
    assert (bench.get(1), bench.tier.record(ACME, key(1))) == (None, None)
    assert len(bench.tier.expire(100)) == 1
    assert [record.key for _, record in bench.tier.walk()] == [key(2)]
    bench.put(1)
    assert bench.has(1) == [True]


def test_an_expired_chunk_can_be_stored_anew(bench: Bench) -> None:
    bench.put(1, expires_at=NOW + 10)
    bench.now = NOW + 10
    assert bench.put(1, 500) is PutStatus.STORED
    bench.reopen()
    assert bench.get(1) == body(1, 500)
    assert bench.tier.scopes() == {ACME: Usage(500, 1)}


def test_touch_is_written_with_a_later_commit(bench: Bench) -> None:
    bench.put(1)
    bench.put(2)
    bench.now = NOW + 500
    bench.tier.touch(ACME, [key(2), key(3)])
    bench.reopen()
    assert {entry.record.key: entry.used - NOW for entry in bench.tier.entries()} == {key(1): 0, key(2): 500}


def test_removed_space_comes_back(bench: Bench) -> None:
    for number in range(30):
        bench.put(number, 100_000)
    bench.tier.flush()
    blocks = disk_bytes(bench)
    bench.remove(*range(0, 30, 2))
    bench.tier.flush()
    assert blocks - disk_bytes(bench) >= 15 * 100_000
    bench.remove(*range(30))
    bench.tier.flush()
    assert len(bench.mount.log.existing()) == 1  # whole empty segments are gone
    assert bench.tier.stat().used == 0


def test_compaction_moves_what_is_left_of_a_segment(bench: Bench) -> None:
    for number in range(30):
        bench.put(number, 100_000, subject=ALICE)
    bench.remove(*(number for number in range(30) if number % 9))
    before = bench.mount.log.existing()
    bench.now = NOW + 5
    while bench.tier.compact():
        pass
    assert set(before) - set(bench.mount.log.existing())
    for number in range(0, 30, 9):
        assert bench.get(number) == body(number, 100_000)
    bench.reopen()
    assert [number for number in range(30) if bench.has(number)[0]] == [0, 9, 18, 27]
    assert bench.tier.scopes() == {ACME: Usage(400_000, 4)}
    assert bench.tier.erase_subject(ACME, ALICE) == 4


def test_erasing_a_subject_leaves_no_trace_in_any_file(bench: Bench) -> None:
    for number in range(40):
        bench.put(number, 30_000, subject=ALICE if number % 3 == 0 else BOB)
    bench.tier.flush()
    bench.put(42, 30_000, subject=ALICE, durable=False)
    mine = [*range(0, 40, 3), 42]
    needles = [ALICE] + [key(number) for number in mine] + [body(number, 30_000)[9000:9032] for number in mine]
    assert bench.files_hold(*needles) == sorted(needles)
    assert bench.tier.erase_subject(ACME, ALICE) == len(mine)
    assert bench.files_hold(*needles) == []
    bench.reopen()
    assert bench.files_hold(*needles) == []
    assert bench.get(1) == body(1, 30_000)
    assert sum(bench.has(*range(43))) == 26


def test_erasing_a_scope_leaves_no_trace_and_no_name(bench: Bench) -> None:
    for number in range(20):
        bench.put(number, 20_000)
        bench.put(number, 15_000, scope=ZEN)
    needles = [b"acme", ACME.epoch] + [key(number) for number in range(20)] + [body(3, 20_000)[5000:5032]]
    bench.tier.erase_scope(ZEN)
    assert bench.tier.erase_scope(ACME) == 20
    assert bench.files_hold(*needles, b"zen") == []
    bench.reopen()
    assert bench.tier.scopes() == {}
    bench.put(1)
    assert bench.get(1) == body(1, 10_000)


def test_erasure_zeroes_ram(tmp_path: Path) -> None:
    with opened(tmp_path) as bench:
        bench.close()
        bench.open(ram=8 << 20)
        bench.put(1, subject=ALICE)
        assert bench.ram.has(ACME, key(1))
        bench.tier.erase_subject(ACME, ALICE)
        assert not bench.ram.has(ACME, key(1))
        buffer = bench.pool.take(10_000)
        assert buffer is not None
        assert bytes(buffer.body) == bytes(10_000)
        buffer.release()


def test_reads_are_promoted_to_ram_and_writes_too(tmp_path: Path) -> None:
    with opened(tmp_path) as bench:
        bench.put(1)
        bench.close()
        bench.open(ram=8 << 20)
        bench.get(1)
        bench.put(2)
        bench.tier.flush()
        assert [bench.ram.has(ACME, key(number)) for number in (1, 2)] == [True, True]
        bench.close()
        bench.open(ram=8 << 20, promote=False)
        bench.get(1)
        assert not bench.ram.has(ACME, key(1))


def test_readings_of_one_chunk_share_one_load(bench: Bench) -> None:
    bench.put(1, 9_000_000)
    bench.tier.flush()
    first, second = bench.tier.read(ACME, key(1)), bench.tier.read(ACME, key(1))
    assert first is not None
    assert second is not None
    with closing(first), closing(second):
        assert b"".join(first.pieces()) == b"".join(second.pieces()) == body(1, 9_000_000)


def test_no_memory_to_read_into_is_told_as_such(bench: Bench) -> None:
    bench.put(1)
    bench.tier.flush()
    held = []
    while (buffer := bench.pool.take(4096)) is not None:
        held.append(buffer)
    with pytest.raises(NoRoomError):
        bench.tier.read(ACME, key(1))
    for buffer in held:
        buffer.release()
    assert bench.get(1) == body(1, 10_000)


def test_a_second_opener_is_refused_with_the_owners_pid(bench: Bench) -> None:
    with pytest.raises(LockedError) as refused:
        Bench(bench.root)
    assert refused.value.code == "KV-STORE-041"
    assert str(os.getpid()) in refused.value.why


def test_a_missing_mount_is_left_out_and_shown(tmp_path: Path) -> None:
    with opened(tmp_path, mounts=2) as bench:
        for number in range(10):
            bench.put(number)
        bench.close()
        (tmp_path / "m0").rename(tmp_path / "away")
        bench.open()
        places = {Path(place.name).name: place.state for place in bench.tier.stat().places}
        assert places == {"m0": "failed", "m1": "ok"}
        assert 0 < sum(bench.has(*range(10))) < 10
        bench.close()
        (tmp_path / "away").rename(tmp_path / "m0")
        bench.open()
        assert all(bench.has(*range(10)))


def test_a_tier_without_any_mount_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as bench:
        bench.close()
        (tmp_path / "m0").rename(tmp_path / "away")
        with pytest.raises(KvctlError) as refused:
            bench.open()
        assert refused.value.code == "KV-STORE-043"
        (tmp_path / "away").rename(tmp_path / "m0")
        bench.open()


def test_a_full_mount_says_so_and_works_again_when_there_is_room(tmp_path: Path) -> None:
    with opened(tmp_path, capacity=400_000) as bench:
        answers = [bench.put(number, 90_000) for number in range(6)]
        assert answers == [PutStatus.STORED] * 4 + [PutStatus.FULL] * 2
        assert bench.has(3, 4, 5) == [True, False, False]
        assert bench.get(0) == body(0, 90_000)
        bench.remove(0)
        assert bench.put(5, 90_000) is PutStatus.STORED


def test_scrub_finds_a_flipped_bit_and_the_chunk_is_a_miss_from_then_on(bench: Bench) -> None:
    for number in range(5):
        bench.put(number, subject=ALICE)
    bench.tier.flush()
    entry = next(entry for entry in bench.tier.entries() if entry.record.key == key(3))
    flip(bench, entry.place.segment, entry.place.offset + 4096 + 777)
    result = bench.tier.scrub(lambda: False)
    assert (result.chunks, result.size, result.bad) == (5, 50_000, ((ACME, key(3)),))
    assert bench.has(2, 3) == [True, False]
    assert bench.get(3) is None
    bench.reopen()
    assert [entry.record.key for entry in bench.tier.quarantined()] == [key(3)]
    assert bench.put(3, 500, subject=ALICE) is PutStatus.STORED
    assert bench.get(3) == body(3, 500)
    assert bench.tier.erase_subject(ACME, ALICE) == 6  # the one in quarantine included
    assert bench.files_hold(ALICE, key(3)) == []


def test_scrub_stops_when_told(bench: Bench) -> None:
    bench.put(1)
    assert bench.tier.scrub(lambda: True).chunks == 0


def test_an_index_that_cannot_be_read_ends_the_scrub_of_its_mount_alone(tmp_path: Path) -> None:
    with opened(tmp_path, mounts=2) as bench:
        for number in range(8):
            bench.put(number)
        bench.tier.flush()
        bad, good = bench.tier._mounts
        held = len(list(good.index.walk(ACME)))
        assert 0 < held < 8
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bad.index, "walk", unreadable)
            assert bench.tier.scrub(lambda: False).chunks == held
        assert bad.health.read_errors == 1


def unreadable(_: object) -> None:
    raise OSError(errno.EIO, "as a drive says it")


def test_a_segment_that_cannot_be_read_fails_its_mount_and_not_the_others(tmp_path: Path) -> None:
    with opened(tmp_path, mounts=2) as bench:
        for number in range(20):
            bench.put(number)
        bench.tier.flush()
        bad = bench.mount
        lost = [number for number in range(20) if bad.index.get(ACME, key(number))]
        assert 5 < len(lost) < 15
        os.truncate(bad.path / "segments" / "00000001.seg", 0)
        for number in lost[:3]:
            with pytest.raises(Exception, match="of 12288 bytes"):
                bench.get(number)
        # Told a moment after the reader, who waits for nothing.
        await_that(lambda: [place.state for place in bench.tier.stat().places] == ["failed", "ok"], "one has failed")
        assert bench.tier.stat().counters["read_errors"] == 3
        assert bench.has(*lost) == [False] * len(lost)
        assert all(bench.get(number) == body(number, 10_000) for number in range(20) if number not in lost)
        assert all(bench.put(number) is PutStatus.STORED for number in range(100, 110))
        assert not any(bad.index.get(ACME, key(number)) for number in range(100, 110))


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_refused_write_leaves_nothing_and_the_mount_recovers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    bench.put(1)
    real = os.pwritev

    def refuse(fd: int, views: list[memoryview], offset: int) -> int:
        real(fd, [view[:8192] for view in views], offset)
        raise OSError(reason, os.strerror(reason))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", refuse)
        answer = bench.put(2, subject=ALICE)
    assert answer is (PutStatus.FULL if reason == errno.ENOSPC else PutStatus.FAILED)
    states = {errno.ENOSPC: "full", errno.EIO: "failed", errno.EROFS: "read-only"}
    place = bench.tier.stat().places[0]
    assert (place.state, place.why) == (states[reason], os.strerror(reason))
    assert bench.has(1, 2) == [True, False]
    assert bench.put(3) is answer  # at once, without a try
    bench.steady += 31
    assert bench.put(3) is PutStatus.STORED
    assert bench.tier.stat().places[0].state == "ok"
    bench.tier.flush()
    bench.tier.flush()
    assert bench.files_hold(key(2), ALICE) == []  # what was half written is punched
    bench.reopen()
    assert bench.has(1, 2, 3) == [True, False, True]


def test_a_failed_sync_takes_back_what_it_covered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(1)
    bench.tier.flush()

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", refuse)
        assert bench.put(2) is PutStatus.FAILED
        assert bench.has(1, 2) == [True, False]
    bench.steady += 31
    assert bench.put(3) is PutStatus.STORED
    assert bench.mount.log.tail.segment == 2  # nothing more goes where a sync failed
    bench.reopen()
    assert bench.has(1, 2, 3) == [True, False, True]
    assert bench.files_hold(key(2)) == []


def disk_bytes(bench: Bench) -> int:
    return sum(path.stat().st_blocks * 512 for path in (bench.configs[0].path / "segments").iterdir())


def flip(bench: Bench, segment: int, offset: int) -> None:
    path = bench.configs[0].path / "segments" / f"{segment:08d}.seg"
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))
