"""Which function starts a contestant's server."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from kvctl.bench.store import kvstored, services
from kvctl.bench.store.cells import Settings
from kvctl.bench.store.services import Service

Starter = Callable[[Settings, Path], AbstractContextManager[Service]]
STARTERS: dict[str, Starter] = {
    "none": services.none,
    "raw": services.raw,
    "kvstored": kvstored.hot,
    "kvstored-cold": kvstored.cold,
    "redis": services.redis,
    "redis-aof": services.redis_aof,
    "mooncake": services.mooncake,
    "seaweedfs": services.seaweedfs,
    "nginx": services.nginx,
}
