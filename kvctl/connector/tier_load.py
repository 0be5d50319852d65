"""Fetching a request's chunks, into the host tier's rows or, while it waits in the queue, ahead of that."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from mmap import mmap
from threading import Lock

from kvctl.connector.pool import Pool
from kvctl.connector.receipt import Got
from kvctl.connector.scratch import ScratchPool
from kvctl.connector.seal import clear
from kvctl.connector.tier_counts import Counts
from kvctl.connector.tier_grants import Miss
from kvctl.connector.tier_jobs import Done
from kvctl.connector.tier_learning import Learning
from kvctl.connector.tier_restore import Chunk, Restore, Spot

BATCH = 16 << 20  # bytes of one GET, and a chunk for every connection: few enough to see whether it gets on
AHEAD = 2.0  # seconds for a chunk that nobody waits for yet
QUEUED = 0.02  # seconds after which a request is in a queue: a free engine comes to it within a few milliseconds


class Residents:
    """Thread-safe. The chunks that last went through the host tier, as many as it has rows: no need to fetch them."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._lock = Lock()
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def add(self, hashes: Iterable[bytes]) -> None:
        with self._lock:
            for name in hashes:
                self._known[name] = None
                self._known.move_to_end(name)
            while len(self._known) > self._rows:
                self._known.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()

    def __contains__(self, name: bytes) -> bool:
        return name in self._known


@dataclass(slots=True)
class Fetched:
    """What came from stores while an engine waited, without what was fetched ahead, and how long that took."""

    size: int = 0
    seconds: float = 0.0


class Loader:
    """Thread-safe; every method may take until its deadline.

    `ahead`: bytes that may be held for queued requests; `connections`: how many the pool has to a store.
    """

    def __init__(
        self, pool: Pool, learning: Learning, counts: Counts, residents: Residents, ahead: int, connections: int
    ) -> None:
        self._residents = residents
        self._connections = connections
        self._pool = pool
        self._learning = learning
        self._counts = counts
        self._ahead = ahead
        self._scratch = ScratchPool(keep=min(ahead, 64 << 20))
        self._lock = Lock()
        self.held = 0  # bytes fetched ahead and not yet taken

    def load(self, number: int, restore: Restore, chunks: Sequence[Chunk], due: float) -> Done:
        """Fill the chunks' rows, heads first; what comes after the first that fails is not asked for.

        Nothing is written to a row after this, which ends when it is `due` and what came has saved no time.
        """
        begun = time.monotonic()
        ordered = sorted(chunks, key=lambda chunk: (chunk.spot.group, chunk.spot.position))
        loaded: list[Chunk] = []
        fetched = Fetched()
        for group, run in groupby(ordered, key=lambda chunk: chunk.spot.group):
            loaded += self._run(restore, group, list(run), due, fetched)
        seconds = time.monotonic() - begun
        size = sum(chunk.row.nbytes for chunk in loaded)
        good = {chunk.key for chunk in loaded}
        restore.fail([chunk.spot for chunk in chunks if chunk.key not in good])
        self._residents.add(restore.engine_hash(chunk.spot) for chunk in loaded)
        self._tell(restore, chunks, loaded, fetched, time.monotonic())
        return Done(number, len(loaded) == len(chunks), tuple(good), seconds, size)

    def undone(self, restore: Restore, chunks: Sequence[Chunk], due: float) -> None:
        """A load that no thread began in time, or that ended in a defect: a miss for the rest of the request."""
        restore.fail([chunk.spot for chunk in chunks])
        now = time.monotonic()
        self._counts.add("kvctl_tier_failed_chunks", len(chunks), Got.LATE if now >= due else Got.LOST)
        self._tell(restore, chunks, [], Fetched(), min(now, due))

    def _run(self, restore: Restore, group: int, run: Sequence[Chunk], due: float, fetched: Fetched) -> list[Chunk]:
        """Of consecutive chunks, those before the first that did not come in time."""
        loaded: list[Chunk] = []
        step = max(BATCH // restore.shape.row, self._connections)
        tokens = restore.shape.tokens[group]
        first = run[0].spot.position * tokens
        for at in range(0, len(run), step):
            batch = run[at : at + step]
            saved = self._learning.between(first, batch[0].spot.position * tokens)
            good = self._batch(restore, group, batch, due + saved, fetched)
            loaded += good
            if len(good) < len(batch):
                break
        return loaded

    def _batch(
        self, restore: Restore, group: int, batch: Sequence[Chunk], until: float, fetched: Fetched
    ) -> list[Chunk]:
        assert restore.grant is not None
        missing = [chunk for chunk in batch if not self._take(restore, chunk)]
        if not missing:
            return list(batch)
        if restore.over.is_set():
            return []
        wants = [(chunk.spot.position, chunk.row) for chunk in missing]
        chain = restore.chain(group)
        begun = time.monotonic()
        results = self._pool.get_into(restore.grant.lease, chain, wants, until)
        ended = time.monotonic()
        fetched.seconds += ended - begun
        fetched.size += sum(result.length for result in results)
        bad = set()
        for chunk, result in zip(missing, results, strict=True):
            if not result.hit:
                clear(chunk.row)
                bad.add(chunk.spot)
                # Of a store that gave nothing at all in time the pool knows only that nothing came.
                late = ended >= until and result.status is Got.LOST
                self._counts.add("kvctl_tier_failed_chunks", 1, Got.LATE if late else result.status)
        self._counts.add("kvctl_tier_read_bytes", sum(result.length for result in results))
        positions = [chunk.spot in bad for chunk in batch]
        return list(batch[: positions.index(True)] if True in positions else batch)

    def _take(self, restore: Restore, chunk: Chunk) -> bool:
        """Whether a chunk was fetched ahead; then it is in its row now."""
        with self._lock:
            scratch = restore.prefetched.pop(chunk.spot, None)
        if scratch is None:
            return False
        chunk.row[:] = memoryview(scratch)[: chunk.row.nbytes]
        self._release([scratch], chunk.row.nbytes)
        return True

    def _tell(
        self, restore: Restore, chunks: Sequence[Chunk], loaded: Sequence[Chunk], fetched: Fetched, ended: float
    ) -> None:
        """What the learning and the counters learn from a load."""
        waited = restore.waited(ended)
        self._counts.add("kvctl_tier_wait_seconds", waited)
        restore.spent += waited
        if len(loaded) < len(chunks):
            restore.missed.add(Miss.FAILED)
        if not loaded:
            self._counts.add("kvctl_tier_lost_seconds", waited)
            return
        # What broke off says that the store hung, ended or was slow, and the breaker hears of it. As a time it would
        # keep large loads away from a store that is well again.
        if fetched.size and len(loaded) == len(chunks):
            self._learning.loaded(fetched.size, fetched.seconds)
        self._counts.add("kvctl_tier_used_bytes", sum(chunk.row.nbytes for chunk in loaded))
        spots = [chunk.spot for chunk in loaded if chunk.spot.group == loaded[0].spot.group]
        tokens = restore.shape.tokens[spots[0].group]
        first, last = spots[0].position * tokens, (spots[-1].position + 1) * tokens
        if restore.restored == 0:
            self._counts.add("kvctl_tier_restored_requests")
        restore.restored += last - first
        self._counts.add("kvctl_tier_restored_tokens", last - first)
        saved = self._learning.between(first, last)
        restore.spent -= min(saved, waited)
        self._counts.add("kvctl_tier_saved_seconds", saved)

    def fetch_ahead(self, restore: Restore) -> None:
        """Fetch a queued request's chunks from its start, until the engine comes to it or the memory is used up.

        One at a time, which takes one connection: the others are for loads that an engine waits for. And not at once:
        what is under way when a free engine asks for it would come twice, and over the connections of the load.
        """
        restore.over.wait(max(restore.begun + QUEUED - time.monotonic(), 0))
        row = restore.shape.row
        for group, there in (restore.found or {}).items():
            run = there.index(False) if False in there else len(there)
            first = next((at for at in range(run) if restore.engine_hash(Spot(group, at)) not in self._residents), run)
            if first == run or not restore.decide(Spot(group, first)):
                continue
            for position in range(first, run):
                if restore.polled or restore.over.is_set() or not self._reserve(row):
                    return
                if not self._fetch(restore, Spot(group, position)):
                    return

    def _reserve(self, size: int) -> bool:
        with self._lock:
            fits = self.held + size <= self._ahead
            self.held += size if fits else 0
        return fits

    def _fetch(self, restore: Restore, spot: Spot) -> bool:
        assert restore.grant is not None
        row = restore.shape.row
        scratch = self._scratch.take(row)
        wants = [(spot.position, memoryview(scratch)[:row])]
        chain = restore.chain(spot.group)
        (result,) = self._pool.get_into(restore.grant.lease, chain, wants, time.monotonic() + AHEAD)
        if not result.hit:
            self._release([scratch], row)
            return False
        self._counts.add("kvctl_tier_read_bytes", row)
        self._counts.add("kvctl_tier_prefetched_bytes", row)
        with self._lock:
            restore.prefetched[spot] = scratch
        if restore.over.is_set():
            self.forget(restore)
        return True

    def forget(self, restore: Restore) -> None:
        """Give back what was fetched ahead for a request that is over."""
        with self._lock:
            left, restore.prefetched = list(restore.prefetched.values()), {}
        self._release(left, len(left) * restore.shape.row)

    def _release(self, scratch: Sequence[mmap], size: int) -> None:
        for memory in scratch:
            clear(memoryview(memory))
            self._scratch.give(memory)
        with self._lock:
            self.held -= size
