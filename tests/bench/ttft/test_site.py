"""The benchmark's stores: where a chunk is after a move, a large write beside it, and what the relay lets through."""

import hashlib
import json
import os
import time

import pytest

from kvctl.bench.ttft import writer
from kvctl.bench.ttft.site import SLOW_RATE, WRITE_RATE, Site, await_that, site
from kvctl.connector.client import StoreClient
from kvctl.connector.handle import PARAMETER, salt_digest, verify
from kvctl.connector.wire import PutStatus
from kvctl.types.errors import KvctlError

SIZE = 1 << 20
KEYS = [hashlib.sha256(bytes([number])).digest() for number in range(3)]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    with site(directory, objects=False) as made:
        yield made


def client(made: Site, store=None, address=None):
    node = (store or made.main).node
    return StoreClient(address or node.addresses, made.connector, node.key, timeout=30.0)


def fetched(made: Site, domain):
    targets = [memoryview(bytearray(SIZE)) for _ in KEYS]
    with client(made) as asked:
        return [result.hit for result in asked.get_into(made.leases[domain], list(zip(KEYS, targets, strict=True)))]


def test_a_chunk_that_was_moved_comes_from_its_tier_and_not_from_memory(stores):
    with client(stores) as asked:
        for key in KEYS:
            assert asked.put(stores.leases["contexts"], key, os.urandom(SIZE)) is PutStatus.STORED
    stores.await_chunks((stores.main,), len(KEYS))
    before = stores.memory()
    assert fetched(stores, "contexts") == [True] * 3
    assert stores.memory() == (before[0] + 3, before[1])
    stores.move("contexts", "flash", "disk", 3)
    before = stores.memory()
    assert fetched(stores, "contexts") == [True] * 3
    assert stores.memory() == (before[0], before[1] + 3)
    stores.erase("contexts", stores.main)
    assert fetched(stores, "contexts") == [False] * 3


def test_a_large_write_tells_its_speed_and_leaves_nothing(stores):
    before = stores.chunks((stores.main,))
    with stores.writing() as told:
        await_that("chunks of the large write", lambda: stores.chunks((stores.main,)) > before)
    assert 0 < told["rate"] <= WRITE_RATE * 1.5
    await_that("it is gone", lambda: stores.chunks((stores.main,)) == before)


def test_a_large_write_that_runs_for_long_fills_no_store(stores, monkeypatch):
    kept: list[float] = []

    class Endless(StoreClient):
        def put(self, lease, key, data, meta):
            kept.append(meta.expires_at - time.time())
            if len(kept) == 3:
                raise SystemExit
            return super().put(lease, key, data, meta)

    setup = {
        "lease": str(stores.directory / "leases" / "filler.json"), "identity": str(stores.directory / "engine.key"),
        "address": stores.main.node.addresses[0], "store_key": stores.main.node.public_key, "chunk": 1 << 16,
        "rate": WRITE_RATE,
    }  # fmt: skip
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as told, os.fdopen(reading) as heard:
        told.write(json.dumps(setup) + "\n")
        told.flush()
        monkeypatch.setattr(writer, "StoreClient", Endless)
        monkeypatch.setattr("sys.stdin", heard)
        with pytest.raises(SystemExit):
            writer.main()
    assert len(kept) == 3
    assert all(0 < seconds <= writer.KEPT for seconds in kept)


def test_a_slow_store_is_slow_behind_its_relay(stores):
    store, port = stores.pair[0], stores.ports[0]
    with client(stores, store, f"tcp:127.0.0.1:{port}") as asked:
        lease = stores.leases["pair"]
        assert asked.put(lease, KEYS[0], os.urandom(SIZE)) is PutStatus.STORED
        stores.slow(SLOW_RATE)
        begun = time.monotonic()
        (result,) = asked.get_into(lease, [(KEYS[0], memoryview(bytearray(SIZE)))])
        assert result.hit
        assert time.monotonic() - begun >= 0.5 * SIZE / SLOW_RATE
        stores.slow(0)


def test_a_request_has_the_handle_of_its_domain(stores):
    body = stores.body("kept")
    handle = verify(body["kv_transfer_params"][PARAMETER], [stores.gateway.public], now=time.time())
    assert handle.scope == stores.leases["kept"].scope
    assert handle.salt_digest == salt_digest(body["cache_salt"])


def test_what_does_not_come_says_so():
    with pytest.raises(KvctlError, match="KV-BENCH-032") as told:
        await_that("the moon", lambda: False, 0.1)
    assert "the moon" in told.value.why
