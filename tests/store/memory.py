"""kvstored over a store in memory that fails when a test asks for it: `python -m tests.store.memory --config FILE`.

Faults go by the first bytes of a key: `torn` breaks in the middle of a chunk, `gone` before its first byte, `full` has
no memory to be read into, `boom` is a defect of the store, `wait` is durable only when the file named by
KVSTORED_TEST_GATE is there.
"""

import os
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvctl.connector.wire import PutStatus
from kvctl.store.api import ReadError
from kvctl.store.buffers import NoRoomError
from kvctl.store.config import Config
from kvctl.store.main import main
from kvctl.types.chunks import Ack, Meta, Scope

PIECE = 1 << 20


class Reading:
    tier = "ram"

    def __init__(self, key: bytes, data: memoryview) -> None:
        self.length = len(data)
        self._key = key
        self._data = data

    def pieces(self) -> Iterator[memoryview]:
        if self._key.startswith(b"gone"):
            raise ReadError("input/output error")
        if self._key.startswith(b"full"):
            raise NoRoomError("no memory")
        for at in range(0, self.length, PIECE):
            if at and self._key.startswith(b"torn"):
                raise ReadError("input/output error")
            yield self._data[at : at + PIECE]

    def close(self) -> None:
        self._data = memoryview(b"")


class Slot:
    def __init__(self, store: "Memory", scope: Scope, key: bytes, length: int) -> None:
        self._store = store
        self._name = (scope, key)
        self._data = bytearray(length)
        self.body = memoryview(self._data)

    def commit(self, ack: Ack) -> PutStatus:
        gate = Path(os.environ.get("KVSTORED_TEST_GATE", "/nonexistent"))
        while self._name[1].startswith(b"wait") and ack is Ack.DURABLE and not gate.exists():
            time.sleep(0.01)
        self._store.chunks[self._name] = self._data
        self._store.reserved -= 1
        return PutStatus.STORED

    def abort(self) -> None:
        self._store.reserved -= 1


class Memory:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.chunks: dict[tuple[Scope, bytes], bytearray] = {}
        self.reserved = 0
        self.lock = threading.Lock()

    def has(self, scope: Scope, keys: Sequence[bytes], lease_ms: int = 0) -> list[bool]:
        return [(scope, key) in self.chunks for key in keys]

    def get(self, scope: Scope, key: bytes) -> Reading | None:
        if key.startswith(b"boom"):
            raise RuntimeError("a defect")
        data = self.chunks.get((scope, key))
        return None if data is None else Reading(key, memoryview(data))

    def reserve(self, scope: Scope, key: bytes, length: int, meta: Meta) -> Slot | PutStatus:
        if (scope, key) in self.chunks:
            return PutStatus.EXISTS
        if scope.tenant in self.config.quotas and length > self.config.quotas[scope.tenant]:
            return PutStatus.QUOTA
        self.reserved += 1
        return Slot(self, scope, key, length)

    def touch(self, scope: Scope, keys: Sequence[bytes]) -> int:
        return sum(self.has(scope, keys))

    def lineage(self, scope: Scope, subject: bytes, keys: Sequence[bytes]) -> int:
        return sum(self.has(scope, keys))

    def push_quotas(self, quotas: Mapping[str, int]) -> None: ...

    def tenant_stat(self, scope: Scope) -> dict[str, Any]:
        mine = [len(data) for (owner, _), data in self.chunks.items() if owner == scope]
        return {"chunks": len(mine), "size": sum(mine)}

    def stat(self) -> dict[str, Any]:
        return {"tiers": [], "ram": {"chunks": len(self.chunks)}, "counters": {"reserved": self.reserved}}

    def ls(self, tenant: str | None, domain: str | None, after: str, limit: int) -> list[dict[str, Any]]:
        names = sorted(key.hex() for scope, key in self.chunks if tenant in (None, scope.tenant))
        return [{"key": name} for name in names if name > after][:limit]

    def scrub(self, tier: str, stop: Callable[[], bool]) -> dict[str, Any]:
        while not stop():
            time.sleep(0.01)
        return {"stopped": True}

    def erase_scope(self, scope: Scope) -> dict[str, int]:
        return self._erase(lambda owner: owner == scope)

    def erase_subject(self, tenant: str, domain: str | None, subject: bytes) -> dict[str, int]:
        return self._erase(lambda owner: owner.tenant == tenant)

    def _erase(self, mine: Callable[[Scope], bool]) -> dict[str, int]:
        names = [name for name in self.chunks if mine(name[0])]
        for name in names:
            del self.chunks[name]
        return {"ram": len(names)}

    def flush(self) -> None: ...

    def drain(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


def reconfigure(store: Memory, config: Config) -> None:
    store.config = config


if __name__ == "__main__":
    module = types.ModuleType("kvctl.store.build")
    module.build_store = Memory  # type: ignore[attr-defined]
    module.reconfigure = reconfigure  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    sys.exit(main())
