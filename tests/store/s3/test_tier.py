"""The object tier over a real cluster: what is stored, found, lost, wrong, full."""

import threading
from contextlib import closing
from dataclasses import replace

import obstore
import pytest
import xxhash

from kvctl.connector.wire import PutStatus
from kvctl.store.api import ReadError
from kvctl.store.buffers import BufferPool, NoRoomError
from kvctl.store.s3 import S3Tier
from kvctl.store.s3.bucket import scope_digest
from kvctl.types.chunks import NEVER, Kind, Meta
from tests.store.s3.made import MIB, NOW, OTHER, SCOPE, Opener, begin, chunk, get, is_soon, put


@pytest.mark.parametrize("size", [256 << 10, 2 * MIB, 16 * MIB])
def test_a_chunk_comes_back_as_it_was(tier: S3Tier, opener: Opener, size: int) -> None:
    meta = {"expires_at": NOW + 60, "subject": b"s" * 16, "model": b"m" * 16, "kind": Kind.COMMON, "position": 7}
    record, data = chunk(1, size, recompute_us=12345, **meta)

    assert put(tier, record, data) is PutStatus.STORED

    assert tier.has(SCOPE, [record.key, b"?" * 32]) == [True, False]
    assert tier.record(SCOPE, record.key) == record
    assert get(tier, record.key) == data
    assert bytes(obstore.get(opener.cluster.client(), opener.name(record.key)).bytes()) == data
    assert list(tier.walk()) == [(SCOPE, record)]


def test_pieces_come_one_after_the_other(tier: S3Tier) -> None:
    record, data = chunk(2, 16 * MIB)
    put(tier, record, data)

    reading = tier.read(SCOPE, record.key)

    assert reading is not None
    assert (reading.length, reading.tier) == (16 * MIB, "object")
    with closing(reading):
        sizes = [len(piece) for piece in reading.pieces()]
    assert sum(sizes) == 16 * MIB
    assert len(sizes) > 1


def test_names_in_the_bucket_tell_no_tenant(tier: S3Tier, opener: Opener) -> None:
    put(tier, *chunk(3))

    (name,) = opener.objects()

    head = obstore.get(opener.cluster.client(), name, options={"head": True})
    shown = f"{name} {head.attributes}"
    assert SCOPE.tenant not in shown
    assert SCOPE.domain not in shown


def test_scopes_are_apart(tier: S3Tier) -> None:
    record, data = chunk(4)
    put(tier, record, data)

    assert tier.has(OTHER, [record.key]) == [False]
    assert tier.read(OTHER, record.key) is None
    assert tier.remove(OTHER, [record.key]) == 0
    assert get(tier, record.key) == data


def test_a_chunk_can_be_read_while_it_is_written(tier: S3Tier, opener: Opener) -> None:
    record, data = chunk(5)
    with opener.cluster.hung("s3"):
        answer = begin(tier, record, data)

        assert tier.has(SCOPE, [record.key]) == [True]
        assert tier.record(SCOPE, record.key) == record
        assert get(tier, record.key) == data
        assert not answer.given()
    assert answer.wait() is PutStatus.STORED
    assert get(tier, record.key) == data


def test_done_is_called_from_another_thread(tier: S3Tier) -> None:
    record, data = chunk(6)
    stored, exists = begin(tier, record, data), None
    stored.wait()
    exists = begin(tier, record, data)

    assert exists.wait() is PutStatus.EXISTS
    assert threading.main_thread() not in (stored.thread, exists.thread)


def test_an_existing_chunk_is_not_written_again(tier: S3Tier) -> None:
    record, data = chunk(7)
    put(tier, record, data)
    other, wrong = chunk(8)

    answer = put(tier, replace(other, key=record.key), wrong)

    assert answer is PutStatus.EXISTS
    assert get(tier, record.key) == data


def test_expired_chunks_are_not_there_and_may_be_written_again(opener: Opener) -> None:
    now = [NOW]
    tier = opener(clock=lambda: now[0])
    record, data = chunk(9, expires_at=NOW + 10)
    put(tier, record, data)

    now[0] += 10

    assert tier.has(SCOPE, [record.key]) == [False]
    assert tier.read(SCOPE, record.key) is None
    assert put(tier, record, data) is PutStatus.EXPIRED
    later = replace(record, meta=Meta(expires_at=NOW + 99))
    assert put(tier, later, data) is PutStatus.STORED
    assert get(tier, record.key) == data


def test_capacity_is_kept(opener: Opener) -> None:
    tier = opener(capacity=600 << 10)
    first, second, third = chunk(10), chunk(11), chunk(12)
    assert put(tier, *first) is PutStatus.STORED
    assert put(tier, *second) is PutStatus.STORED

    assert put(tier, *third) is PutStatus.FULL
    assert get(tier, third[0].key) is None
    assert tier.remove(SCOPE, [first[0].key]) == 1
    assert put(tier, *third) is PutStatus.STORED
    assert tier.stat().used == 512 << 10


def test_a_full_queue_answers_busy(opener: Opener) -> None:
    tier = opener(writers=1, queued=1)
    chunks = [chunk(number) for number in range(20, 25)]
    with opener.cluster.hung("s3"):
        answers = [begin(tier, *one) for one in chunks]
        refused = [answer.wait() for answer in answers[2:]]
    assert refused == [PutStatus.BUSY] * 3
    assert answers[0].wait() is PutStatus.STORED
    tier.flush()
    assert tier.has(SCOPE, [chunks[0][0].key, chunks[4][0].key]) == [True, False]


def test_no_memory_to_read_into_is_said(opener: Opener) -> None:
    pool = BufferPool(1 * MIB)
    tier = opener(pool=pool, request_seconds=1.0)
    record, data = chunk(30, 512 << 10)
    put(tier, record, data)
    held = pool.take(900 << 10)
    assert held is not None

    with pytest.raises(NoRoomError):
        get(tier, record.key)
    held.release()
    assert get(tier, record.key) == data


def test_readings_that_are_dropped_give_their_memory_back(opener: Opener) -> None:
    pool = BufferPool(40 * MIB)
    tier = opener(pool=pool)
    record, data = chunk(31, 16 * MIB)
    put(tier, record, data)

    for _ in range(6):
        reading = tier.read(SCOPE, record.key)
        assert reading is not None
        with closing(reading):
            next(reading.pieces())
    tier.close()

    assert pool.in_use == 0


def test_a_missing_object_is_a_miss(tier: S3Tier, opener: Opener) -> None:
    record, data = chunk(40)
    put(tier, record, data)
    obstore.delete(opener.cluster.client(), [opener.name(record.key)])

    reading = tier.read(SCOPE, record.key)
    assert reading is not None
    with closing(reading), pytest.raises(ReadError):
        next(reading.pieces())

    assert tier.has(SCOPE, [record.key]) == [False]
    assert tier.read(SCOPE, record.key) is None
    assert tier.stat().counters["missing"] == 1
    assert put(tier, record, data) is PutStatus.STORED
    assert get(tier, record.key) == data


@pytest.mark.parametrize("length", [0, 1, 100_000, 300 << 10])
def test_an_object_of_another_length_gives_no_byte(tier: S3Tier, opener: Opener, length: int) -> None:
    record, data = chunk(41)
    put(tier, record, data)
    obstore.put(opener.cluster.client(), opener.name(record.key), bytes(length))

    reading = tier.read(SCOPE, record.key)
    assert reading is not None
    with closing(reading), pytest.raises(ReadError):
        next(reading.pieces())

    assert tier.has(SCOPE, [record.key]) == [False]
    assert tier.stat().counters["quarantined"] == 1
    assert put(tier, record, data) is PutStatus.STORED
    assert get(tier, record.key) == data


def test_wrong_bytes_never_come_whole(tier: S3Tier, opener: Opener) -> None:
    record, data = chunk(42, 8 * MIB)
    put(tier, record, data)
    flipped = bytearray(data)
    flipped[5 * MIB] ^= 1
    obstore.put(opener.cluster.client(), opener.name(record.key), bytes(flipped))

    came: list[int] = []
    reading = tier.read(SCOPE, record.key)
    assert reading is not None
    with closing(reading), pytest.raises(ReadError):
        came.extend(map(len, reading.pieces()))

    assert sum(came) < record.length
    assert tier.has(SCOPE, [record.key]) == [False]


def test_scrub_finds_what_is_wrong_and_what_is_gone(tier: S3Tier, opener: Opener) -> None:
    good, flipped, gone = chunk(50), chunk(51), chunk(52)
    for one in (good, flipped, gone):
        put(tier, *one)
    admin = opener.cluster.client()
    obstore.put(admin, opener.name(flipped[0].key), flipped[1][:-1] + bytes([flipped[1][-1] ^ 1]))
    obstore.delete(admin, [opener.name(gone[0].key)])

    found = tier.scrub(lambda: False)

    assert (found.chunks, set(found.bad)) == (3, {(SCOPE, flipped[0].key), (SCOPE, gone[0].key)})
    assert tier.has(SCOPE, [one[0].key for one in (good, flipped, gone)]) == [True, False, False]
    assert tier.scrub(lambda: False).bad == ()
    assert tier.scrub(lambda: True).chunks == 0


def test_what_is_removed_leaves_the_bucket(tier: S3Tier, opener: Opener) -> None:
    chunks = [chunk(number, 4096) for number in range(60, 70)]
    for one in chunks:
        put(tier, *one)

    assert tier.remove(SCOPE, [record.key for record, _ in chunks[:9]] + [b"?" * 32]) == 9

    assert opener.objects() == {opener.name(chunks[9][0].key)}
    assert [record.key for _, record in tier.walk(SCOPE)] == [chunks[9][0].key]
    assert tier.stat().used == 4096
    assert tier.remove(SCOPE, [chunks[0][0].key]) == 0


def test_recency_outlives_a_restart(opener: Opener) -> None:
    now = [NOW]
    tier = opener(clock=lambda: now[0])
    records = [chunk(number, 100)[0] for number in range(4)]
    for number in range(4):
        put(tier, *chunk(number, 100))
    for number in (2, 0):
        now[0] += 10
        tier.touch(SCOPE, [records[number].key])
    tier.close()

    tier = opener()

    order = [records.index(record) for _, record in tier.by_recency()]
    assert (set(order[:2]), order[2:]) == ({1, 3}, [2, 0])


def test_what_expired_is_swept(opener: Opener) -> None:
    now = [NOW]
    tier = opener(clock=lambda: now[0])
    chunks = [chunk(number, 100, expires_at=end) for number, end in ((1, NOW + 10), (2, NOW + 20), (3, NEVER))]
    for one in chunks:
        assert put(tier, *one) is PutStatus.STORED
    assert tier.expire(10) == []

    now[0] += 15

    assert tier.expire(10) == [(SCOPE, chunks[0][0])]
    assert opener.objects() == {opener.name(record.key) for record, _ in chunks[1:]}
    now[0] += 15
    assert tier.expire(10) == [(SCOPE, chunks[1][0])]
    assert [record for _, record in tier.walk()] == [chunks[2][0]]


def test_a_chunk_removed_while_it_is_written_is_not_stored(tier: S3Tier, opener: Opener) -> None:
    record, data = chunk(70)
    with opener.cluster.hung("s3"):
        answer = begin(tier, record, data)
        remover = threading.Thread(target=tier.remove, args=(SCOPE, [record.key]))
        remover.start()
        assert is_soon(lambda: all(writing.cancelled for writing in tier._objects.writing.values()))
    remover.join()

    assert answer.wait() is PutStatus.FAILED
    assert tier.has(SCOPE, [record.key]) == [False]
    assert opener.objects() == set()


def test_walk_goes_on_behind_a_key(tier: S3Tier) -> None:
    keys = []
    for number in range(80, 86):
        record, data = chunk(number, 100)
        put(tier, record, data)
        put(tier, record, data, OTHER)
        keys.append(record.key)
    keys.sort()

    assert [record.key for _, record in tier.walk(SCOPE)] == keys
    assert [record.key for _, record in tier.walk(SCOPE, keys[2])] == keys[3:]
    assert {(scope, record.key) for scope, record in tier.walk()} == {(s, k) for s in (SCOPE, OTHER) for k in keys}
    assert {scope: (held.size, held.chunks) for scope, held in tier.scopes().items()} == dict.fromkeys(
        (SCOPE, OTHER), (600, 6)
    )


def test_an_object_that_the_index_forgot_is_taken_up(tier: S3Tier, opener: Opener) -> None:
    """The answer to a PUT was lost, or the index was: the same bytes count as stored, others as another's."""
    same, other, torn = chunk(90), chunk(91), chunk(92)
    for one in (same, other, torn):
        put(tier, *one)
        tier._index.change(scope_digest(SCOPE), one[0], None)
    obstore.put(opener.cluster.client(), opener.name(torn[0].key), b"no record at this one")
    changed = bytes(len(other[1]))
    again = replace(other[0], checksum=xxhash.xxh3_128(changed).digest())

    assert put(tier, *same) is PutStatus.STORED
    assert put(tier, again, changed) is PutStatus.EXISTS
    assert put(tier, *torn) is PutStatus.STORED
    assert [get(tier, one[0].key) == one[1] for one in (same, other, torn)] == [True] * 3
