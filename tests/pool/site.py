"""Five real kvstored on loopback, the pool's client on them, and threads that read and write meanwhile."""

import hashlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvctl.connector.breaker import Policy
from kvctl.connector.keys import KeyLease, RootKey
from kvctl.connector.placement import MAX_STRIPE, Copies, Node, PoolMap
from kvctl.connector.pool import Pool, PutResult
from kvctl.connector.receipt import GetResult
from kvctl.types.chunks import Meta
from tests.store.daemon import SCOPE, Daemon, send

SIZE = 4096
NAMES = tuple(f"storage{number}" for number in range(1, 6))
WHOLE = MAX_STRIPE  # a stripe longer than any prompt
PATIENCE = 20.0


def prompt(name: str, length: int) -> list[bytes]:
    """Chunk keys, the same in every run: so are their places."""
    return [hashlib.sha256(f"{name} {position}".encode()).digest() for position in range(length)]


def plain(key: bytes, size: int = SIZE) -> bytes:
    return key * (size // 32)


class Site:
    def __init__(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        self.folder = folder
        self.daemons: dict[str, Daemon] = {}
        with ThreadPoolExecutor(len(names)) as threads:
            list(threads.map(self.add, names))
        self.lease = KeyLease(RootKey(SCOPE, b"r" * 32), self._first.token(), int(time.time()) + 3600)

    @property
    def _first(self) -> Daemon:
        return next(iter(self.daemons.values()))

    def add(self, name: str) -> None:
        """Start one more node, which knows the connector and the controller of the others."""
        folder = self.folder / name
        (folder / "mount").mkdir(parents=True)
        made = Daemon(folder, {"chunk": "8MiB"}, module="kvctl.store.main", node=name, ram="64MiB")
        first = self.daemons.setdefault(name, made) and self._first
        made.connector, made.controller = first.connector, first.controller
        made.write()
        made.start()

    def node(self, name: str, weight: int = 1) -> Node:
        daemon = self.daemons[name]
        return Node(name, (daemon.tcp,), daemon.identity.public.hex(), weight)

    def map(
        self,
        names: Sequence[str] = NAMES,
        *,
        version: int = 1,
        stripe: int = 4,
        copies: int = 1,
        weights: Mapping[str, int] = {},
    ) -> PoolMap:
        nodes = tuple(self.node(name, weights.get(name, 1)) for name in names)
        return PoolMap(version, nodes, stripe, Copies(copies, copies))

    @contextmanager
    def pool(self, pool_map: PoolMap, **options: Any) -> Iterator[Pool]:
        with Pool(pool_map, self._first.connector, **options) as made:
            yield made

    def kill(self, name: str) -> None:
        self.daemons[name].signal(signal.SIGKILL)
        self.daemons[name].wait()

    def again(self, name: str) -> None:
        """Start a node that has ended, where it was."""
        daemon = self.daemons[name]
        daemon.write(listen=[daemon.tcp, daemon.unix])
        daemon.events.clear()
        daemon.start()

    @contextmanager
    def hung(self, name: str) -> Iterator[None]:
        process = self.daemons[name].process
        assert process is not None
        send(process, signal.SIGSTOP)
        try:
            yield
        finally:
            self.daemons[name].signal(signal.SIGCONT)

    def flush(self) -> None:
        for daemon in self.daemons.values():
            if daemon.alive:
                assert daemon.admin("POST", "/v1/flush", {})[0] == 200

    def close(self) -> None:
        for daemon in self.daemons.values():
            if daemon.alive:
                daemon.signal(signal.SIGTERM)
        for daemon in self.daemons.values():
            if daemon.process is not None:
                daemon.stop()

    # what a client does

    def put(self, pool: Pool, chain: Sequence[bytes], positions: Sequence[int] | None = None) -> list[PutResult]:
        chosen = range(len(chain)) if positions is None else positions
        return pool.put(self.lease, chain, [(at, plain(chain[at]), Meta(position=at)) for at in chosen])

    def get(self, pool: Pool, chain: Sequence[bytes], seconds: float = PATIENCE) -> list[GetResult]:
        """Fetch a whole prompt and hold each hit against what was stored."""
        targets = [memoryview(bytearray(SIZE)) for _ in chain]
        results = pool.get_into(self.lease, chain, list(enumerate(targets)), time.monotonic() + seconds)
        for key, target, result in zip(chain, targets, results, strict=True):
            assert not result.hit or target == plain(key), "wrong bytes"
        return results

    def has(self, pool: Pool, chain: Sequence[bytes], seconds: float = PATIENCE) -> list[bool]:
        return pool.has(self.lease, chain, deadline=time.monotonic() + seconds)


def owners(pool_map: PoolMap, chain: Sequence[bytes], position: int, copies: int = 1) -> list[str]:
    return [node.name for node in pool_map.owners(pool_map.run(chain, position), copies)]


def owned(pool_map: PoolMap, chain: Sequence[bytes], name: str) -> list[int]:
    """Positions whose first owner is this node."""
    return [position for position in range(len(chain)) if owners(pool_map, chain, position) == [name]]


class Load:
    """Threads that run a piece of work again and again until they are told to stop; what any of them raised is."""

    def __init__(self, *work: Callable[[random.Random], None]) -> None:
        self._stop = threading.Event()
        self.rounds = [0] * len(work)
        self.raised: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(at, one)) for at, one in enumerate(work)]

    def _run(self, number: int, work: Callable[[random.Random], None]) -> None:
        chance = random.Random(number)
        while not self._stop.is_set():
            try:
                work(chance)
            except BaseException as error:  # noqa: BLE001  raised again where the load ends
                self.raised.append(error)
                return
            self.rounds[number] += 1

    def further(self, rounds: int = 5) -> None:
        """Return when every thread has done its work so many times more."""
        before = list(self.rounds)
        until_true(
            lambda: bool(self.raised) or all(now >= was + rounds for now, was in zip(self.rounds, before, strict=True))
        )

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.raised:
            raise self.raised[0]


def until_true(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


PATIENT = Policy(failures=1000)  # a breaker that stays closed
STRICT = Policy(failures=1, first=60.0)  # one that opens at once, and for the whole test
