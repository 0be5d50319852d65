"""kvstored through its own client, which seals before PUT and opens after GET."""

from collections.abc import Sequence
from pathlib import Path

from kvctl.bench.store.cells import Op
from kvctl.bench.store.jobs import Chunk, Setup
from kvctl.bench.store.kvstored import admin
from kvctl.bench.store.lanes.lane import Buffers, Lane, touched
from kvctl.connector.client import StoreClient
from kvctl.connector.keys import Identity, KeyLease, load_lease
from kvctl.connector.wire import PutStatus
from kvctl.types.chunks import Ack, Meta

MOST = 8  # chunks of one GET


class NotDoneError(Exception):
    """A chunk that is no hit, or that was not stored."""


class KvstoredLane:
    """One thread's calls of the client that all threads share; it has a connection for each.

    Where reads come from disk, a GET asks for several chunks, as an engine does that restores a context: the store
    reads one ahead of what it sends.
    """

    seal_cpu: float | None = None  # happens inside the client's calls

    def __init__(self, client: StoreClient, lease: KeyLease, memory: Buffers, op: Op, batch: int) -> None:
        self._client = client
        self._lease = lease
        self._memory = memory
        self.batch = batch
        self._targets = [memory.target, *(touched(len(memory.target)) for _ in range(batch - 1))]
        self._ack = Ack.DURABLE if op is Op.DURABLE else Ack.VISIBLE
        self._meta = Meta()

    def get(self, *chunks: Chunk) -> None:
        wants = [(chunk.key, target) for chunk, target in zip(chunks, self._targets, strict=False)]
        for chunk, result in zip(chunks, self._client.get_into(self._lease, wants), strict=True):
            if not result.hit:
                raise NotDoneError(f"GET {chunk.name}: {result.status}")

    def put(self, chunk: Chunk) -> None:
        status = self._client.put(self._lease, chunk.key, self._memory.plain, self._meta, self._ack)
        if status not in (PutStatus.STORED, PutStatus.EXISTS):
            raise NotDoneError(f"PUT {chunk.name}: {status.name}")

    def close(self) -> None:
        return


class KvstoredWay:
    def __init__(self, setup: Setup) -> None:
        self._directory = Path(setup.address["directory"])
        self._batch_bytes = int(setup.address.get("batch_bytes", "0"))
        self._leases = {domain: load_lease(self._directory / f"{domain}.lease") for domain in ("set", "new")}
        self._client = StoreClient(
            setup.address["address"], Identity.load(self._directory / "connector.key"),
            bytes.fromhex(setup.address["store_key"]), connections=setup.connections,
        )  # fmt: skip

    def lane(self, memory: Buffers, op: Op, *, new: bool) -> Lane:
        batch = max(1, min(MOST, self._batch_bytes // len(memory.target))) if op is Op.GET else 1
        return KvstoredLane(self._client, self._leases["new" if new else "set"], memory, op, batch)

    def settle(self) -> None:
        admin(self._directory, "flush", {})

    def clean(self, chunks: Sequence[Chunk]) -> None:
        """The whole domain that samples of PUTs write to."""
        scope = self._leases["new"].scope
        admin(self._directory, "erase", {"tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex()})

    def close(self) -> None:
        self._client.close()
