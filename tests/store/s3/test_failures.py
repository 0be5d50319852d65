"""The object tier when the cluster loses a server, goes away, hangs, refuses; and when the store itself is killed."""

import multiprocessing
import os
import random
import signal
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

import obstore
import pytest

from kvctl.connector.wire import PutStatus
from kvctl.store.api import ReadError
from kvctl.store.buffers import BufferPool
from kvctl.store.s3 import S3Tier, Settings
from kvctl.types.chunks import TierName
from kvctl.types.errors import LockedError, UnreachableError
from tests.store.s3.made import MIB, NOW, SCOPE, WITHIN, Opener, begin, chunk, get, is_soon, put


def test_a_volume_server_dies_under_load(opener: Opener) -> None:
    tier = opener()
    chunks = [chunk(number, 2 * MIB) for number in range(8)]
    for record, data in chunks:
        assert put(tier, record, data) is PutStatus.STORED
    wrong, failed, read = [], [], [0]
    dead, enough = threading.Event(), threading.Event()

    def reader(seed: int) -> None:
        source = random.Random(seed)
        after = 0
        while after < 15:
            record, data = source.choice(chunks)
            try:
                if get(tier, record.key) != data:
                    wrong.append(record.key)
            except ReadError as error:
                failed.append(str(error))
            read[0] += 1
            after += dead.is_set()
            if read[0] >= 10:
                enough.set()

    threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    assert enough.wait(WITHIN)
    opener.cluster.kill("volume2")
    try:
        dead.set()
        for thread in threads:
            thread.join()
        written = [put(tier, *chunk(number)) for number in range(100, 104)]
    finally:
        opener.cluster.start("volume2")

    assert wrong == []
    assert failed == []
    assert tier.stat().counters["quarantined"] == 0
    assert PutStatus.STORED in written


def test_an_endpoint_goes_and_comes_back(opener: Opener) -> None:
    tier = opener(request_seconds=3.0)
    record, data = chunk(1)
    put(tier, record, data)
    opener.cluster.kill("s3")
    try:
        for number in range(10, 13):
            assert put(tier, *chunk(number)) is PutStatus.FAILED
        with pytest.raises(ReadError):  # noqa: PT012
            get(tier, record.key)
            raise ReadError("the tier gave up asking: a miss")

        (place,) = tier.stat().places
        assert (place.state, tier.stat().writable) == ("failed", False)
        assert place.why
        assert tier.has(SCOPE, [record.key]) == [False]
        assert tier.read(SCOPE, record.key) is None
        assert tier.record(SCOPE, record.key) == record
        with pytest.raises(UnreachableError) as refused:
            tier.erase_scope(SCOPE)
        assert refused.value.code == "KV-STORE-305"
        assert tier.record(SCOPE, record.key) is None
    finally:
        opener.cluster.start("s3")

    opener.cluster.wait_s3()
    assert is_soon(lambda: tier.stat().places[0].state == "ok")
    assert is_soon(lambda: opener.objects() == set())
    assert tier.erase_scope(SCOPE) == 0
    assert put(tier, record, data) is PutStatus.STORED
    assert get(tier, record.key) == data


def test_an_endpoint_that_hangs_costs_no_more_than_its_timeout(opener: Opener) -> None:
    tier = opener(request_seconds=0.7, retries=0)
    record, data = chunk(2)
    put(tier, record, data)
    with opener.cluster.hung("s3"):
        start = time.monotonic()
        reading = tier.read(SCOPE, record.key)
        assert reading is not None
        assert time.monotonic() - start < 0.5
        with closing(reading), pytest.raises(ReadError, match=r"0.7 s|in time"):
            next(reading.pieces())
        assert time.monotonic() - start < 3
        answer = begin(tier, *chunk(3))
        assert answer.wait(5) is PutStatus.FAILED
        begin(tier, *chunk(4)).wait(5)
        assert is_soon(lambda: tier.stat().places[0].state == "failed")
    assert is_soon(lambda: tier.stat().places[0].state == "ok")
    assert get(tier, record.key) == data
    assert is_soon(lambda: opener.objects() == {opener.name(record.key)})


def test_an_endpoint_that_is_away_at_start(opener: Opener) -> None:
    opener.cluster.kill("s3")
    try:
        tier = opener(request_seconds=2.0)
        record, data = chunk(5)
        assert tier.stat().places[0].state == "failed"
        assert put(tier, record, data) is PutStatus.FAILED
    finally:
        opener.cluster.start("s3")
    opener.cluster.wait_s3()
    assert is_soon(lambda: tier.stat().places[0].state == "ok")
    assert put(tier, record, data) is PutStatus.STORED


def test_an_identity_that_may_only_read(opener: Opener) -> None:
    record, data = chunk(6)
    first = opener()
    put(first, record, data)
    first.close()

    tier = opener(identity="reader")

    place = tier.stat().places[0]
    assert (place.state, place.why) == ("read-only", "HTTP 403 AccessDenied")
    assert put(tier, *chunk(7)) is PutStatus.FAILED
    assert get(tier, record.key) == data


def test_a_bucket_that_is_not_there(opener: Opener) -> None:
    tier = opener(bucket="no-such-bucket", identity="reader")

    assert tier.stat().places[0].state == "failed"
    assert put(tier, *chunk(8)) is PutStatus.FAILED


def test_scrub_does_not_call_unread_objects_good_or_bad(opener: Opener) -> None:
    tier = opener(request_seconds=1.0, retries=0)
    put(tier, *chunk(9))
    with opener.cluster.hung("s3"), pytest.raises(ReadError):
        tier.scrub(lambda: False)
    assert is_soon(lambda: tier.stat().places[0].state == "ok")
    assert tier.scrub(lambda: False).chunks == 1


def test_two_processes_cannot_have_one_index(opener: Opener) -> None:
    opener()
    with pytest.raises(LockedError) as refused:
        opener()
    assert refused.value.code == "KV-STORE-306"


def write_until_killed(settings: Settings, directory: Path, told: Path) -> None:
    """In a process of its own: store chunks and note each that was answered."""
    tier = S3Tier(settings, TierName.OBJECT, 1 << 40, directory, BufferPool(64 * MIB), lambda: NOW, 64 * MIB)
    with told.open("ab", buffering=0) as file:

        def one(number: int) -> None:
            record, data = chunk(number, 64 << 10)
            if put(tier, record, data) is PutStatus.STORED:
                file.write(record.key)

        for first in range(0, 10_000, 4):
            threads = [threading.Thread(target=one, args=(number,)) for number in range(first, first + 4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()


def test_a_store_that_is_killed_knows_all_it_answered_and_leaves_nothing_behind(opener: Opener, tmp_path: Path) -> None:
    told = tmp_path / "told"
    process = multiprocessing.get_context("spawn").Process(
        target=write_until_killed, args=(opener.settings(), opener.path / "tier", told)
    )
    process.start()
    assert process.pid is not None
    assert is_soon(lambda: told.exists() and told.stat().st_size > 20 * 32)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    stored = {told.read_bytes()[at : at + 32] for at in range(0, told.stat().st_size // 32 * 32, 32)}

    tier: S3Tier = opener()

    assert tier.has(SCOPE, sorted(stored)) == [True] * len(stored)
    assert is_soon(lambda: tier.stat().counters["undeleted"] == 0)
    known = {opener.name(record.key) for _, record in tier.walk(SCOPE)}
    assert opener.objects() == known
    assert tier.scrub(lambda: False).bad == ()


def test_writers_readers_and_removers_of_the_same_chunks(opener: Opener) -> None:
    """Whatever they do to each other: no wrong byte, and in the end the bucket holds what the index says."""
    tier = opener(readers=4, writers=4)
    chunks = [chunk(number, 20_000) for number in range(4)]
    wrong: list[bytes] = []

    def act(seed: int) -> None:
        source = random.Random(seed)
        for _ in range(40):
            record, data = source.choice(chunks)
            what = source.randrange(3)
            if what == 0:
                begin(tier, record, data)
            elif what == 1:
                tier.remove(SCOPE, [record.key])
            else:
                try:
                    found = get(tier, record.key)
                except ReadError:  # it was removed while it was read
                    continue
                if found not in (None, data):
                    wrong.append(record.key)

    threads = [threading.Thread(target=act, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tier.flush()

    assert wrong == []
    assert is_soon(lambda: tier.stat().counters["undeleted"] == 0)
    there = [record for _, record in tier.walk(SCOPE)]
    assert opener.objects() == {opener.name(record.key) for record in there}
    assert tier.stat().used == sum(record.length for record in there)
    assert tier.stat().counters["quarantined"] == 0
    assert tier.scrub(lambda: False).bad == ()


def test_a_slow_endpoint_is_cut_off(opener: Opener) -> None:
    """One that sends a byte now and then keeps no reader for longer than the timeout."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        held = []
        while not stop.is_set():
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            held.append(peer)
            threading.Thread(target=trickle, args=(peer,), daemon=True).start()

    def trickle(peer: socket.socket) -> None:
        peer.recv(65536)
        record = chunk(70)[0]
        peer.sendall(
            f'HTTP/1.1 200 OK\r\nContent-Length: {record.length}\r\nETag: "x"\r\n'
            "Last-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n\r\n".encode()
        )
        while not stop.wait(0.05):
            try:
                peer.sendall(b"x")
            except OSError:
                return

    first = opener()
    record, data = chunk(70)
    put(first, record, data)
    first.close()
    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        tier = opener(endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}", request_seconds=1.0, retries=0)
        tier._objects.health.enter("ok")
        start = time.monotonic()
        with pytest.raises(ReadError):
            get(tier, record.key)
        assert time.monotonic() - start < 3
    finally:
        stop.set()
        listener.close()
    assert obstore.head(opener.cluster.client(), opener.name(record.key))["size"] == record.length
