"""Stores of a pool on loopback, each a kvstored of its own, that can be killed, stopped and started again."""

import hashlib
import json
import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvctl.bench.store.kvstored import admin
from kvctl.bench.store.processes import Child, await_true, free_ports, listens, module, running
from kvctl.connector.capability import ALL, NO_LIMITS, Capability, sign
from kvctl.connector.keys import Identity, KeyLease, RootKey
from kvctl.connector.placement import MAX_STRIPE, Copies, Node, PoolMap
from kvctl.connector.pool import Pool
from kvctl.types.chunks import KEY_BYTES, Scope

HOST = "127.0.0.1"
RAM = 64 << 20
CHUNK_LIMIT = 8 << 20
CAPACITY = 4 << 30
LEASE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Spread:
    """How prompts are laid out over the nodes; a stripe of MAX_STRIPE keeps a whole prompt together."""

    copies: int
    stripe: int

    @property
    def label(self) -> str:
        return "whole prompt" if self.stripe == MAX_STRIPE else str(self.stripe)

    def map(self, nodes: Sequence[Node]) -> PoolMap:
        return PoolMap(1, tuple(nodes), self.stripe, Copies(self.copies, self.copies))


def prompt(label: str, number: int, length: int) -> list[bytes]:
    """Chunk keys of a prompt that has no chunk in common with another. The same in every run: so is their placement."""
    return [hashlib.sha256(f"{label} {number} {at}".encode()).digest() for at in range(length)]


def plain(key: bytes, size: int) -> bytes:
    """The content of a chunk: bytes that no other chunk has."""
    return key * (size // KEY_BYTES)


class Store:
    """One node: its directory, its map entry, and its process while it runs."""

    def __init__(
        self,
        name: str,
        directory: Path,
        connector: Identity,
        controller: Identity,
        *,
        ram: int = RAM,
        tiers: Mapping[str, Any] | None = None,
    ) -> None:
        """`tiers`: the configuration's; flash below `directory` if not given."""
        self.name = name
        self._directory = directory
        self._running = ExitStack()
        identity, self._port = Identity.generate(), free_ports(1)[0]
        (directory / "flash").mkdir(parents=True)
        identity.save(directory / "store.key")
        self.node = Node(name, (f"tcp:{HOST}:{self._port}",), identity.public.hex())
        config = {
            "schema": 1,
            "node": name,
            "listen": [self.node.addresses[0]],
            "state": str(directory / "state"),
            "admin": {"socket": str(directory / "admin.sock")},
            "identity": str(directory / "store.key"),
            "connectors": {"bench": connector.public.hex()},
            "controllers": {"bench": controller.public.hex()},
            "ram": ram,
            "tiers": tiers or {"flash": {"mounts": [{"path": str(directory / "flash"), "capacity": CAPACITY}]}},
            "limits": {"chunk": CHUNK_LIMIT},
        }
        (directory / "kvstored.yaml").write_text(json.dumps(config))  # JSON is YAML

    def begin(self) -> None:
        argv = module("kvctl.store.main", "--config", str(self._directory / "kvstored.yaml"))
        self._child = self._running.enter_context(running(self.name, argv, self._directory))

    def ready(self) -> None:
        await_true(self._child, "it answers", lambda: listens(f"{HOST}:{self._port}"))

    @property
    def child(self) -> Child:
        return self._child

    def flush(self) -> None:
        """Everything it has taken survives a kill from now on."""
        admin(self._directory, "flush", {})

    def kill(self) -> None:
        """End it as a power cut does."""
        self._child.process.kill()
        self._child.process.wait()
        self._running.close()

    def hang(self) -> None:
        """Stop it where it is. Until waitid(2) reports that, its threads may still answer."""
        self._child.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._child.process.pid, os.WSTOPPED)

    def resume(self) -> None:
        self._child.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._running.close()


class Site:
    """Nodes of equal weight, and what a client needs to use them."""

    def __init__(self, directory: Path, count: int) -> None:
        self.connector, controller = Identity.generate(), Identity.generate()
        names = [f"storage{number}" for number in range(1, count + 1)]
        self.stores = {name: Store(name, directory / name, self.connector, controller) for name in names}
        self.lease = new_lease(self.connector, controller)

    def pool(self, spread: Spread, timeout: float = 30.0) -> Pool:
        return Pool(spread.map([store.node for store in self.stores.values()]), self.connector, timeout=timeout)

    def start(self) -> None:
        for store in self.stores.values():
            store.begin()
        for store in self.stores.values():
            store.ready()

    def close(self) -> None:
        with ExitStack() as stack:
            for store in self.stores.values():
                stack.callback(store.close)


@contextmanager
def started(directory: Path, count: int) -> Iterator[Site]:
    """A site whose stores answer; they end with the block."""
    made = Site(directory, count)
    try:
        made.start()
        yield made
    finally:
        made.close()


def new_lease(connector: Identity, controller: Identity) -> KeyLease:
    scope = Scope("bench", "pool", os.urandom(16))
    now = int(time.time())
    end = now + LEASE_SECONDS
    capability = Capability(
        scope.tenant, scope.domain, scope.epoch, ALL, connector.public, NO_LIMITS, secrets.token_bytes(16), now, end
    )
    return KeyLease(RootKey(scope, secrets.token_bytes(32)), sign(capability, controller), end)
