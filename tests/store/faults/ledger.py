"""What a store has promised: the book that a client keeps, to hold the store to it after a fault."""

import hashlib
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from kvctl.connector.client import StoreClient
from kvctl.connector.keys import KeyLease
from kvctl.connector.receipt import GetResult, Got
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import NEVER, Ack, Meta, Scope
from tests.store.faults.rig import Kvstored, content, fetch

SLACK = 2.0  # seconds around a chunk's end in which either answer is right
STORED = (PutStatus.STORED, PutStatus.EXISTS)


@dataclass(slots=True, eq=False)
class Chunk:
    """A chunk that was sent once. `acked`: what the store has said about it in this life of the daemon or before."""

    seed: int
    scope: Scope
    length: int
    meta: Meta
    victim: bool = False  # to be erased: nobody stores it again, so that its end is clear
    sent: bool = False
    visible: bool = False  # acknowledged, and the daemon that did so lives
    durable: bool = False
    erased: bool = False  # an erasure that covers it was acknowledged after its PUT had ended

    @property
    def key(self) -> bytes:
        return hashlib.blake2b(self.seed.to_bytes(8, "little"), digest_size=32).digest()

    def body(self) -> bytes:
        return content(self.seed, self.length)

    def promised(self, now: float) -> bool:
        """Whether the store must have it."""
        alive = self.meta.expires_at == NEVER or now < self.meta.expires_at - SLACK
        return (self.visible or self.durable) and alive and not self.erased

    def gone(self, now: float) -> bool:
        """Whether the store must not have it."""
        return self.erased or (self.meta.expires_at != NEVER and now > self.meta.expires_at + SLACK)


@dataclass
class Ledger:
    """`evicts`: whether the store may drop chunks to make room. Thread-safe."""

    evicts: bool = False
    chunks: list[Chunk] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    _seeds: int = 0
    _lock: Lock = field(default_factory=Lock)

    def new(self, scope: Scope, length: int, meta: Meta) -> Chunk:
        with self._lock:
            self._seeds += 1
            return Chunk(self._seeds, scope, length, meta)

    def complain(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)

    def count(self, what: str) -> None:
        with self._lock:
            self.told[what] += 1

    def put(self, client: StoreClient, lease: KeyLease, chunk: Chunk, ack: Ack) -> PutStatus:
        """Store a chunk and note what that promises."""
        with self._lock:
            if not chunk.sent:
                self.chunks.append(chunk)
            chunk.sent = True
        status = client.put(lease, chunk.key, chunk.body(), chunk.meta, ack)
        self.count(f"put_{ack.name.lower()}_{status.name.lower()}")
        if status in STORED:
            chunk.visible = True
            chunk.durable |= ack is Ack.DURABLE
        elif status not in (PutStatus.BUSY, PutStatus.EXPIRED) and not self.evicts:
            self.complain(f"PUT of chunk {chunk.seed} said {status.name}, and there is room")
        return status

    def judge(self, chunk: Chunk, before: float, promised: bool, result: GetResult, data: bytes) -> None:
        """`before`: the time when it was asked for; `promised`: whether the store had to have it then."""
        self.count(f"get_{result.status}")
        if result.hit and data != chunk.body():
            self.complain(f"chunk {chunk.seed} came back with other bytes")
        if result.status is Got.CORRUPT:
            self.complain(f"chunk {chunk.seed} does not open: the store gave bytes that are not it")
        if result.hit and chunk.gone(before):
            self.complain(f"chunk {chunk.seed} came back after its {'erasure' if chunk.erased else 'end'}")
        if result.status is Got.MISS and promised and not self.evicts and chunk.promised(time.time()):
            self.complain(f"chunk {chunk.seed} is lost; {chunk}")

    def audit(self, daemon: Kvstored, chunks: Iterable[Chunk]) -> None:
        """Read chunks back through the product's client, over both kinds of socket, and judge each."""
        by_scope: dict[Scope, list[Chunk]] = {}
        for chunk in chunks:
            by_scope.setdefault(chunk.scope, []).append(chunk)
        with daemon.client("tcp") as tcp, daemon.client("unix") as unix:
            for at, (scope, mine) in enumerate(by_scope.items()):
                for first in range(0, len(mine), 16):
                    some = mine[first : first + 16]
                    answers = self.read(unix if at % 2 else tcp, daemon.lease(scope), some)
                    if unsure := set(answers) - {Got.HIT, Got.MISS, Got.CORRUPT}:
                        self.complain(f"no answer but {unsure} for chunks of a store that has nothing else to do")

    def read(self, client: StoreClient, lease: KeyLease, chunks: Sequence[Chunk]) -> list[Got]:
        before = time.time()
        promised = [chunk.promised(before) for chunk in chunks]
        found = fetch(client, lease, [(chunk.key, chunk.length) for chunk in chunks])
        for chunk, due, (result, data) in zip(chunks, promised, found, strict=True):
            self.judge(chunk, before, due, result, data)
        return [result.status for result, _ in found]

    def killed(self) -> None:
        """What was only visible is promised no more."""
        with self._lock:
            for chunk in self.chunks:
                chunk.visible = False

    def some(self, rng: random.Random, scope: Scope, count: int) -> list[Chunk]:
        """Chunks of a scope, recent ones more often."""
        with self._lock:
            recent = [chunk for chunk in self.chunks[-200:] if chunk.scope == scope]
        return rng.sample(recent, min(count, len(recent)))
