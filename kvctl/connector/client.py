"""One store's client: asks, fetches and opens, seals and stores, over a few connections that threads share.

A deadline is a value of `time.monotonic()`; none: the client's `timeout` from now. No call outlasts its deadline by
more than the opening of a chunk that is already here. Nothing that a store sends is trusted: a chunk counts as a hit
when its seal opens under the caller's key, for the key that was asked for.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Self

from kvctl.connector.connection import Connection
from kvctl.connector.counters import Counters
from kvctl.connector.failures import DeadlineExceeded, StoreError, StoreRefused
from kvctl.connector.forks import restart_in_child
from kvctl.connector.keys import Identity, KeyLease, RootKey
from kvctl.connector.receipt import GetResult, Got, Opening, Taking, started
from kvctl.connector.scratch import ScratchPool
from kvctl.connector.seal import Sealer, seal_into, sealed_length
from kvctl.connector.sessions import Sessions
from kvctl.connector.unserved import REFUSALS, Unserved
from kvctl.connector.wire import PutStatus, Refusal
from kvctl.types.chunks import Ack, Meta, Scope

SHARE = 4 << 20  # bytes of a batch that are worth another connection
AHEAD = 1 << 20  # bytes of a chunk that are worth being opened by another thread
CORES = os.cpu_count() or 1
OPENERS = max(min(CORES, 4), 2)  # threads of a client that open chunks
LONGEST = 86400.0  # seconds; of a later deadline, so much: a poll takes 24 days at most, and no infinity
STALE = {Refusal.EXPIRED, Refusal.REVOKED, Refusal.NOT_ATTACHED}  # refusals of a slot: attach again next time
Bytes = bytes | bytearray | memoryview
Want = tuple[bytes, memoryview]  # a chunk's key, and where its bytes go
MakeSink = Callable[[Sequence[Want], int], Opening | Taking]  # of a share, and how many shares there are


class StoreClient:
    """Thread-safe; a child after fork starts with no connection of its parent's.

    `address` is tcp:host:port or unix:/path, or several of one store (a rail each), used in turn. Calls raise
    StoreUnavailable, StoreRefused or DeadlineExceeded; a GET only when the store answered for no chunk at all.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        identity: Identity,
        store_key: bytes,
        *,
        connections: int = 4,
        connect_timeout: float = 2.0,
        timeout: float = 30.0,
        overlap: bool = True,
    ) -> None:
        self._addresses = (address,) if isinstance(address, str) else tuple(address)
        self._identity = identity
        self._store_key = store_key
        self._connections = connections
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._overlap = overlap
        self.restart()
        restart_in_child(self)

    def restart(self) -> None:
        """Begin anew with no connection, thread or count: what a child process does after fork."""
        self.counters = Counters()
        self.unserved = Unserved()
        self._takes_lineage = True
        self._sealers: dict[Scope, tuple[RootKey, Sealer]] = {}
        self._scratch = ScratchPool()
        self._sessions = Sessions(self._addresses, self._open, self._connections, self._connect_timeout, self.counters)
        self._workers = ThreadPoolExecutor(max(self._connections - 1, 1), "kvctl-get")
        self._openers = ThreadPoolExecutor(OPENERS, "kvctl-open") if self._overlap else None

    def has(
        self, lease: KeyLease, keys: Sequence[bytes], lease_ms: int = 0, deadline: float | None = None
    ) -> list[bool]:
        """Which chunks the store has; it protects those from eviction for `lease_ms`."""
        until = self._until(deadline)
        with self._session(lease, until) as (connection, slot):
            return [
                there
                for part in parts(keys, connection.max_keys)
                for there in connection.has(slot, part, lease_ms, until)
            ]

    def get_into(self, lease: KeyLease, wants: Sequence[Want], deadline: float | None = None) -> list[GetResult]:
        """Fetch chunks and open each into its target, which is exactly as long as its plaintext.

        A target whose result is no hit holds what it held, or zeros. Targets do not overlap.
        """
        sealer = self._sealer(lease)

        def sink(share: Sequence[Want], shares: int) -> Opening:
            # With a share for each core, opening in further threads only costs their switches.
            ahead = shares < CORES and len(share) > 1 and max(target.nbytes for _, target in share) >= AHEAD
            return Opening(sealer, share, self._scratch, self._openers if ahead else None)

        return self._get(lease, wants, sink, self._until(deadline))

    def get_sealed_into(self, lease: KeyLease, wants: Sequence[Want], deadline: float | None = None) -> list[GetResult]:
        """Fetch sealed chunks as they are, unopened and unjudged, into targets of at least their length.

        A target whose result is no hit holds anything.
        """
        return self._get(lease, wants, lambda share, _: Taking(share, self._scratch), self._until(deadline))

    def put(
        self,
        lease: KeyLease,
        key: bytes,
        data: Bytes | Sequence[Bytes],
        meta: Meta = Meta(),
        ack: Ack = Ack.VISIBLE,
        deadline: float | None = None,
    ) -> PutStatus:
        """Seal a chunk, whole or in pieces that are joined, and store it."""
        until = self._until(deadline)
        with self.sealed(lease, key, data) as sealed:
            return self.put_sealed(lease, key, sealed, meta, ack, until)

    def put_sealed(
        self,
        lease: KeyLease,
        key: bytes,
        sealed: Bytes,
        meta: Meta = Meta(),
        ack: Ack = Ack.VISIBLE,
        deadline: float | None = None,
    ) -> PutStatus:
        """Store a chunk that is sealed already."""
        until = self._until(deadline)
        view = memoryview(sealed).cast("B")
        with self._session(lease, until) as (connection, slot):
            status = connection.put(slot, key, view, meta, ack, until)
        stored = status is PutStatus.STORED
        name = "puts_stored" if stored else "puts_exists" if status is PutStatus.EXISTS else "puts_refused"
        self.counters.add({name: 1, "written_bytes": view.nbytes if stored else 0})
        return status

    @contextmanager
    def sealed(self, lease: KeyLease, key: bytes, data: Bytes | Sequence[Bytes]) -> Iterator[memoryview]:
        """A sealed chunk for the time of a block, as `put_sealed` takes it."""
        pieces = [data] if isinstance(data, Bytes) else data
        views = [memoryview(piece).cast("B") for piece in pieces]
        length = sum(view.nbytes for view in views)
        with self._joined(views, length) as whole, self._scratch.lent(sealed_length(length)) as out:
            yield out[: seal_into(self._sealer(lease), key, whole, out)]

    def touch(self, lease: KeyLease, keys: Sequence[bytes], deadline: float | None = None) -> int:
        """Mark chunks as just used; how many of them the store has."""
        until = self._until(deadline)
        with self._session(lease, until) as (connection, slot):
            return sum(connection.touch(slot, part, until) for part in parts(keys, connection.max_keys))

    def lineage(
        self, lease: KeyLease, subject: bytes, keys: Sequence[bytes], deadline: float | None = None
    ) -> int | None:
        """Note durably that a subject used chunks that were stored for another, so that its erasure reaches them.

        How many of them the store has; None: this store is of an older version and notes nothing. It is asked once.
        """
        if not self._takes_lineage:
            return None
        until = self._until(deadline)
        try:
            with self._session(lease, until) as (connection, slot):
                return sum(connection.lineage(slot, subject, part, until) for part in parts(keys, connection.max_keys))
        except StoreRefused as refused:
            if refused.refusal is not Refusal.MALFORMED:
                raise
            self._takes_lineage = False
            return None

    def warm(self, lease: KeyLease, deadline: float | None = None, room: int = 0) -> None:
        """Have ready what a first GET would wait for: connections with the scope attached, threads, the sealer, memory.

        `room`: bytes of a chunk. The store is asked anew whether it serves the scope: a refusal that is over ends here.
        """
        until = self._until(deadline)
        self._sealer(lease)
        if room:
            self._scratch.fill(sealed_length(room), self._connections)

        def attach(connection: Connection) -> None:
            connection.forget(lease.scope)
            connection.attach(lease.scope, lease.capability, until)

        with self._counted(), self._heard(lease):
            self._sessions.each(attach, self._workers, until)

    def stat(self, lease: KeyLease, deadline: float | None = None) -> dict[str, Any]:
        """What the store says about the lease's scope."""
        until = self._until(deadline)
        with self._session(lease, until) as (connection, slot):
            return connection.stat(slot, until)

    def close(self) -> None:
        """Close connections (those at work when their call ends) and threads."""
        self._sessions.close()
        self._workers.shutdown(wait=False)
        if self._openers is not None:
            self._openers.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _until(self, deadline: float | None) -> float:
        now = time.monotonic()
        return now + self._timeout if deadline is None else min(deadline, now + LONGEST)

    def _open(self, address: str, deadline: float) -> Connection:
        return Connection.open(address, self._identity, self._store_key, deadline)

    def _sealer(self, lease: KeyLease) -> Sealer:
        key, sealer = self._sealers.get(lease.scope, (None, None))
        if sealer is None or key != lease.key:
            sealer = Sealer(lease.scope.epoch, lease.key.seal_key)
            self._sealers[lease.scope] = (lease.key, sealer)
        return sealer

    @contextmanager
    def _joined(self, views: Sequence[memoryview], length: int) -> Iterator[memoryview]:
        if len(views) == 1:
            yield views[0]
            return
        with self._scratch.lent(length) as whole:
            at = 0
            for view in views:
                whole[at : at + view.nbytes] = view
                at += view.nbytes
            yield whole

    @contextmanager
    def _session(self, lease: KeyLease, deadline: float) -> Iterator[tuple[Connection, int]]:
        """A connection and the slot of the lease on it."""
        self._reserve(deadline)
        with self._counted(), self._placed(lease, deadline) as session:
            yield session

    def _reserve(self, deadline: float) -> None:
        if not self._sessions.reserve(deadline):
            raise DeadlineExceeded("every connection was at work until the deadline")

    @contextmanager
    def _placed(self, lease: KeyLease, deadline: float) -> Iterator[tuple[Connection, int]]:
        connection = None
        try:
            with self._heard(lease):
                connection = self._sessions.take(deadline)
                yield connection, connection.attach(lease.scope, lease.capability, deadline)
        except StoreRefused as refused:
            if connection is not None and refused.refusal in STALE:
                connection.forget(lease.scope)
            raise
        finally:
            self._sessions.give(connection)

    @contextmanager
    def _heard(self, lease: KeyLease) -> Iterator[None]:
        """Note whether the store serves the scope."""
        try:
            yield
        except StoreRefused as refused:
            if refused.refusal in REFUSALS:
                self.unserved.refused(lease.scope)
            raise
        self.unserved.served(lease.scope)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self._count(error)
            raise

    def _count(self, error: StoreError) -> None:
        self.counters.add({"refusals" if isinstance(error, StoreRefused) else "failures": 1})

    def _get(self, lease: KeyLease, wants: Sequence[Want], sink: MakeSink, deadline: float) -> list[GetResult]:
        if not wants:
            return []
        shares = self._shares(wants, deadline)
        if len(shares) == 1:
            taker = sink(wants, 1)
            error = self._fetch(lease, wants, taker, deadline)
            if error is not None and not taker.results:
                raise error
            results = told(taker, error, len(wants))
        else:
            results = self._get_shares(lease, shares, [sink(share, len(shares)) for share in shares], deadline)
        self._tally(results)
        return results

    def _get_shares(
        self, lease: KeyLease, shares: Sequence[Sequence[Want]], takers: Sequence[Opening | Taking], deadline: float
    ) -> list[GetResult]:
        """A batch that was dealt out: the first share in this thread, the others in others."""
        work = list(zip(shares, takers, strict=True))
        others = [started(self._workers, self._fetch, lease, *one, deadline) for one in work[1:]]
        try:
            errors = [self._fetch(lease, *work[0], deadline), *(other.result() for other in others)]
        finally:
            wait(others)  # whatever is raised, nobody writes to a target after this
        failed = next((error for error in errors if error is not None), None)
        if failed is not None and not any(taker.results for taker in takers):
            raise failed
        results = [GetResult(Got.LOST)] * sum(map(len, shares))
        for first, ((share, taker), error) in enumerate(zip(work, errors, strict=True)):
            results[first :: len(work)] = told(taker, error, len(share))
        return results

    def _shares(self, wants: Sequence[Want], deadline: float) -> list[Sequence[Want]]:
        """The batch dealt out over as many connections as are free and worth it, a place reserved for each."""
        worth = min(sum(target.nbytes for _, target in wants) // SHARE, len(wants))
        self._reserve(deadline)
        count = 1
        while count < worth and self._sessions.reserve(None):
            count += 1
        return [wants[first::count] for first in range(count)]

    def _fetch(
        self, lease: KeyLease, share: Sequence[Want], taker: Opening | Taking, deadline: float
    ) -> StoreError | None:
        """Fetch over the one connection of a reserved place. After it, no thread writes to a target any more."""
        try:
            with self._placed(lease, deadline) as (connection, slot):
                for first in range(0, len(share), connection.max_keys):
                    taker.first = first
                    keys = [key for key, _ in share[first : first + connection.max_keys]]
                    connection.get(slot, keys, taker, deadline)
        except StoreError as error:
            self._count(error)
            return error
        finally:
            taker.finish()
        return None

    def _tally(self, results: Sequence[GetResult]) -> None:
        numbers = {"read_bytes": 0}
        for result in results:
            name = "hits" if result.hit else str(result.status)
            numbers[name] = numbers.get(name, 0) + 1
            numbers["read_bytes"] += result.sealed if result.hit else 0
        self.counters.add(numbers)


def told(taker: Opening | Taking, error: StoreError | None, count: int) -> list[GetResult]:
    """What became of each of `count` chunks; those that did not come are late or lost, as the error says."""
    if len(taker.results) == count:
        return [taker.results[at] for at in range(count)]
    rest = GetResult(Got.LATE if isinstance(error, DeadlineExceeded) else Got.LOST)
    return [taker.results.get(at, rest) for at in range(count)]


def parts(keys: Sequence[bytes], most: int) -> Iterator[Sequence[bytes]]:
    """The keys in runs of at most `most`."""
    return (keys[first : first + most] for first in range(0, len(keys), most))
