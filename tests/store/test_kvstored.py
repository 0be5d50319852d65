"""kvstored with tiers on a disk: what was durable survives a kill; one daemon a mount."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvctl.connector.wire import GetStatus, PutStatus, Type
from kvctl.types.chunks import Ack, Meta
from tests.store.daemon import Daemon, key, soon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "mount").mkdir()
    made = Daemon(tmp_path, module="kvctl.store.main")
    yield made
    if made.alive:
        assert made.stop() == 0
    assert not made.noise


def test_a_durable_chunk_survives_a_kill(daemon: Daemon):
    daemon.start()
    connection, slot = daemon.connection()
    data = os.urandom(3 << 20)
    assert connection.put(slot, key("kept"), memoryview(data), Meta(), Ack.DURABLE, soon()) is PutStatus.STORED
    connection.close()
    daemon.signal(signal.SIGKILL)
    daemon.wait()
    daemon.events.clear()
    daemon.start()
    found = daemon.session(daemon.unix).get(key("kept"), key("never"))
    assert found == {key("kept"): (GetStatus.HIT, data), key("never"): (GetStatus.MISS, b"")}
    assert daemon.metric('kvstored_tier_chunks{tier="flash"}') == 1
    assert daemon.page("/healthz")[0] == 200


def test_an_orderly_end_keeps_what_was_only_visible(daemon: Daemon):
    daemon.start()
    connection, slot = daemon.connection()
    for number in range(20):
        sealed = memoryview(os.urandom(100_000))
        assert connection.put(slot, key(f"k{number}"), sealed, Meta(), Ack.VISIBLE, soon()) is PutStatus.STORED
    assert daemon.stop() == 0
    daemon.events.clear()
    daemon.start()
    connection, slot = daemon.connection()
    assert all(connection.has(slot, [key(f"k{number}") for number in range(20)], 0, soon()))
    rows = daemon.admin("GET", "/v1/ls?limit=7")[1]["chunks"]
    assert len(rows) == 7
    status, told = daemon.admin("POST", "/v1/scrub", {"tier": "flash"})
    assert (status, told["chunks"], told["bad"]) == (200, 20, [])
    connection.close()


def test_a_second_kvstored_on_the_same_mounts_is_refused(daemon: Daemon):
    daemon.start()
    other = daemon.folder / "other.yaml"
    other.write_text(daemon.config.read_text().replace("store.sock", "b.sock").replace("admin.sock", "c.sock"))
    ended = subprocess.run(
        [sys.executable, "-m", "kvctl.store.main", "--config", str(other)], capture_output=True, text=True, timeout=15
    )
    assert ended.returncode == 8
    assert "KV-STORE-0" in ended.stderr
    assert daemon.session().ask(Type.STAT)[0].type is Type.STATS


def test_a_quota_and_its_reload(daemon: Daemon):
    daemon.write(quotas={"acme": "1MiB"})
    daemon.start()
    connection, slot = daemon.connection()
    large = memoryview(bytes(2 << 20))
    assert connection.put(slot, key("large"), large, Meta(), Ack.VISIBLE, soon()) is PutStatus.QUOTA
    daemon.write(quotas={"acme": "10MiB"})
    assert daemon.admin("POST", "/v1/reload", {})[0] == 200
    assert connection.put(slot, key("large"), large, Meta(), Ack.VISIBLE, soon()) is PutStatus.STORED
    connection.close()
