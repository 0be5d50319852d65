"""Erasure in the object tier: neither objects nor index values remain."""

import threading
from pathlib import Path

import obstore
import pytest

from kvctl.connector.wire import PutStatus
from kvctl.store.s3 import S3Tier
from kvctl.types.chunks import NO_SUBJECT
from tests.store.s3.made import OTHER, SCOPE, Opener, begin, chunk, get, put

ANNE = b"subject-of-anne!"
BERT = b"subject-of-bert!"


def found_in(directory: Path, needle: bytes) -> list[str]:
    return [str(file) for file in directory.rglob("*") if file.is_file() and needle in file.read_bytes()]


def test_a_subject_is_erased_from_bucket_and_index(tier: S3Tier, opener: Opener) -> None:
    annes = [chunk(number, 1000, subject=ANNE) for number in range(40)]
    berts = [chunk(number, 1000, subject=BERT) for number in range(100, 140)]
    for pair in zip(annes, berts, strict=True):
        for one in pair:
            assert put(tier, *one) is PutStatus.STORED
    needles = [ANNE, *(record.key for record, _ in annes), *(record.checksum for record, _ in annes)]
    assert all(found_in(opener.path / "tier", needle) for needle in needles)

    assert tier.erase_subject(SCOPE, ANNE) == 40

    assert opener.objects() == {opener.name(record.key) for record, _ in berts}
    assert [needle for needle in needles if found_in(opener.path / "tier", needle)] == []
    assert found_in(opener.path / "tier", BERT)
    assert all(get(tier, record.key) == data for record, data in berts)
    assert tier.stat().chunks == 40
    assert tier.erase_subject(SCOPE, ANNE) == 0


def test_a_scope_is_erased_with_objects_that_the_index_does_not_know(tier: S3Tier, opener: Opener) -> None:
    for number in range(12):
        put(tier, *chunk(number, 1000))
    record, data = chunk(50)
    put(tier, record, data, OTHER)
    obstore.put(opener.cluster.client(), opener.name(b"u" * 32), b"of an index that was lost")
    assert found_in(opener.path / "tier", SCOPE.tenant.encode())

    assert tier.erase_scope(SCOPE) == 12

    assert opener.objects() == {opener.name(record.key, OTHER)}
    assert found_in(opener.path / "tier", SCOPE.tenant.encode()) == []
    assert list(tier.scopes()) == [OTHER]
    assert get(tier, record.key, OTHER) == data


def test_quarantined_chunks_are_erased_too(tier: S3Tier, opener: Opener) -> None:
    record, data = chunk(60, subject=ANNE)
    put(tier, record, data)
    obstore.put(opener.cluster.client(), opener.name(record.key), data[:-1] + b"?")
    tier.scrub(lambda: False)
    assert list(tier.scopes()) == [SCOPE]  # an erasure goes by this

    assert tier.erase_subject(SCOPE, ANNE) == 1

    assert opener.objects() == set()
    assert found_in(opener.path / "tier", ANNE) == []


def test_values_of_chunks_that_were_evicted_before_go_too(tier: S3Tier, opener: Opener) -> None:
    annes = [chunk(number, 1000, subject=ANNE) for number in range(5)]
    for one in annes:
        put(tier, *one)
    tier.remove(SCOPE, [record.key for record, _ in annes])
    assert found_in(opener.path / "tier", ANNE)

    assert tier.erase_subject(SCOPE, ANNE) == 0

    assert found_in(opener.path / "tier", ANNE) == []


def test_a_write_under_way_is_erased(tier: S3Tier, opener: Opener) -> None:
    record, data = chunk(61, subject=ANNE)
    with opener.cluster.hung("s3"):
        answer = begin(tier, record, data)
        eraser = threading.Thread(target=tier.erase_subject, args=(SCOPE, ANNE))
        eraser.start()
    eraser.join()

    assert answer.wait() is PutStatus.FAILED
    assert opener.objects() == set()
    assert tier.has(SCOPE, [record.key]) == [False]


def test_no_subject_is_not_a_subject(tier: S3Tier) -> None:
    put(tier, *chunk(62))
    with pytest.raises(ValueError, match="no subject"):
        tier.erase_subject(SCOPE, NO_SUBJECT)
    assert tier.stat().chunks == 1


def test_reading_and_writing_go_on_during_erasure(tier: S3Tier) -> None:
    kept = [chunk(number, 5000) for number in range(200, 210)]
    for one in kept:
        put(tier, *one)
    for number in range(20):
        put(tier, *chunk(number, 1000, subject=ANNE))
    stop, wrong = threading.Event(), []

    def others() -> None:
        number = 300
        while not stop.is_set():
            if not all(tier.has(SCOPE, [record.key for record, _ in kept])) or get(tier, kept[3][0].key) != kept[3][1]:
                wrong.append(number)
            put(tier, *chunk(number, 1000))
            number += 1

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(3):
            tier.erase_subject(SCOPE, ANNE)
            put(tier, *chunk(5, 1000, subject=ANNE))
    finally:
        stop.set()
        thread.join()
    assert wrong == []
