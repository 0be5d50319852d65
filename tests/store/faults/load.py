"""Mixed load: threads that use a store as connectors do, until told to stop or until it is gone."""

import random
import time
from collections.abc import Sequence
from threading import Event, Thread

from kvctl.connector.client import StoreClient
from kvctl.connector.failures import StoreError
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import NEVER, Ack, Meta, Scope
from tests.store.faults.ledger import Chunk, Ledger
from tests.store.faults.rig import Kvstored

SIZES = (4 << 10, 4 << 10, 20_000, 64 << 10, 300_001, 1 << 20, 4 << 20)


class Load:
    """`budget`: plaintext bytes that all threads together may store."""

    def __init__(self, ledger: Ledger, daemon: Kvstored, scopes: Sequence[Scope], *, budget: int, seed: int) -> None:
        self.ledger = ledger
        self.scopes = list(scopes)
        self.doomed = Event()  # set before the store is taken away: what fails from then on is no fault
        self._over = Event()
        self._left = budget
        self._daemon = daemon
        self._threads = [
            Thread(target=self._run, args=(random.Random(seed * 31 + number), over), name=f"load-{number}")
            for number, over in enumerate(("tcp", "unix", "tcp", "unix"))
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a client's call does not end"

    def _run(self, rng: random.Random, over: str) -> None:
        leases = {scope: self._daemon.lease(scope) for scope in self.scopes}
        with self._daemon.client(over, connections=2) as client:
            while not self._over.is_set():
                scope = rng.choice(self.scopes)
                try:
                    self._one(rng, client, scope, leases)
                except StoreError as error:
                    self.ledger.count("cut_by_the_end")
                    if not self.doomed.is_set():
                        self.ledger.complain(f"{type(error).__name__} while the store was up: {error}")
                    return
                except Exception as error:
                    self.ledger.complain(f"the client broke: {error!r}")
                    raise

    def _one(self, rng: random.Random, client: StoreClient, scope: Scope, leases: dict) -> None:  # type: ignore[type-arg]
        ledger, lease, what = self.ledger, leases[scope], rng.random()
        if what < 0.5 and self._left > 0:
            chunk = ledger.new(scope, rng.choice(SIZES) + rng.randrange(8, 50), self._meta(rng))
            self._left -= chunk.length
            ack = rng.choice(list(Ack))
            if ledger.put(client, lease, chunk, ack) is PutStatus.NOT_ADMITTED and rng.random() < 0.7:
                ledger.put(client, lease, chunk, ack)  # what is asked for twice comes in under pressure
        elif what < 0.6:
            for chunk in ledger.some(rng, scope, 1):
                if chunk.visible and not chunk.victim and not chunk.gone(time.time()):
                    ledger.put(client, lease, chunk, Ack.DURABLE)
        elif what < 0.85:
            ledger.read(client, lease, ledger.some(rng, scope, 4))
        elif what < 0.95:
            self._has(client, scope, leases, ledger.some(rng, scope, 32))
        else:
            client.touch(lease, [chunk.key for chunk in ledger.some(rng, scope, 8)] or [bytes(32)])

    def _has(self, client: StoreClient, scope: Scope, leases: dict, chunks: list[Chunk]) -> None:  # type: ignore[type-arg]
        promised = [chunk for chunk in chunks if chunk.promised(time.time())]
        before = time.time()
        there = client.has(leases[scope], [chunk.key for chunk in chunks] or [bytes(32)], lease_ms=200)
        for chunk, has in zip(chunks, there, strict=False):
            if not has and chunk in promised and chunk.promised(time.time()) and not self.ledger.evicts:
                self.ledger.complain(f"HAS denies chunk {chunk.seed}")
            if has and chunk.gone(before):
                self.ledger.complain(f"HAS knows chunk {chunk.seed}, which is gone")

    @staticmethod
    def _meta(rng: random.Random) -> Meta:
        ends = int(time.time()) + rng.choice((2, 6, 3600)) if rng.random() < 0.2 else NEVER
        return Meta(expires_at=ends, position=rng.randrange(64), recompute_us=rng.randrange(10_000))
