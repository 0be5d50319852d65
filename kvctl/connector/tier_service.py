"""The tier without the engine: requests, look-ups and jobs on one side, a pool of stores on the other.

All methods of Tier but `start` and `close` return at once. The engine's scheduler thread calls them, and no other.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread

from kvctl.connector.breaker import State
from kvctl.connector.keys import Identity
from kvctl.connector.pool import Pool
from kvctl.connector.tier_adapters import Adapters
from kvctl.connector.tier_counts import Counts, Key
from kvctl.connector.tier_grants import Bearer, Grant, Miss, admit
from kvctl.connector.tier_jobs import Done, Jobs
from kvctl.connector.tier_learning import Learning
from kvctl.connector.tier_leases import Leases
from kvctl.connector.tier_lineage import Lineage
from kvctl.connector.tier_load import Loader, Residents
from kvctl.connector.tier_options import Options
from kvctl.connector.tier_restore import Answer, Chunk, Limits, Restore, Shape, Spot
from kvctl.connector.tier_store import Storer
from kvctl.connector.tier_warm import Warmer
from kvctl.types.errors import KvctlError

log = logging.getLogger(__name__)
REFRESH = 1.0  # seconds between two looks at leases and pool map
ASKERS = 2  # threads that ask which chunks are there


class Tier:
    """`rows`: how many chunks the host tier holds. Without `adapters`, requests with one are not served."""

    def __init__(self, options: Options, shape: Shape, rows: int, adapters: Adapters | None = None) -> None:
        self._options = options
        self._shape = shape
        self._adapters = adapters
        self.counts = Counts()
        self.learning = Learning(options.alpha, options.max_wait_share, options.assumed_tokens_per_second)
        self._limits = Limits(options.deadline_ms / 1000, self.learning)
        self._leases = Leases(options.leases, options.single_tenant.lease if options.single_tenant else None)
        self._pool = Pool(
            options.pool_map(), Identity.load(options.identity), timeout=5.0, connections=options.connections
        )
        self._residents = Residents(rows)
        self._loader = Loader(
            self._pool, self.learning, self.counts, self._residents, options.prefetch_bytes, options.connections
        )
        self._lineage = Lineage(self._pool, self.counts)
        self._storer = Storer(self._pool, self._lineage, self.learning, self.counts, options.store_deadline_ms / 1000)
        self._warmer = Warmer(self._pool, lambda: self._leases.held, shape.row)
        self._asks = Jobs(ASKERS, "kvctl-ask", self._defect)
        self._loads = Jobs(options.workers, "kvctl-load", self._defect)
        # Apart from the loads, which an engine waits for, and on at most half of the connections.
        self._aheads = Jobs(max(min(options.workers, options.connections) // 2, 1), "kvctl-ahead", self._defect)
        self._fetches_ahead = options.prefetch_bytes > 0 and options.connections > 1
        self._stores = Jobs(max(options.workers // 2, 1), "kvctl-store", self._defect)
        self._requests: dict[str, Restore] = {}
        self._unmeasured: dict[str, Restore] = {}  # scheduled, and without a token yet
        self._storing: dict[int, int] = {}  # job -> rows that it holds
        self._most_storing = max(int(rows * options.store_share), 1)
        self._stop = Event()
        # In a thread of their own, what waits for stores: a hung one keeps no lease that was taken away in use.
        self._watches = [
            Thread(target=self._follow, args=(follow,), name=name, daemon=True)
            for name, *follow in (
                ("kvctl-watch", self._leases.refresh, self._follow_map),
                ("kvctl-warm", self._warmer.step, self._lineage.retry),
            )
        ]

    def start(self) -> None:
        """Begin to follow the leases and the pool map, and to keep connections ready."""
        for jobs in (self._asks, self._loads):
            jobs.ready()
        for watch in self._watches:
            watch.start()

    def announce(self, name: str, tokens: int, hashes: Sequence[bytes], bearer: Bearer) -> None:
        """A request has come in; its chunks are asked for while it waits in the engine's queue."""
        restore = Restore(name, tokens, hashes, bearer, self._shape, self._limits)
        self._requests[name] = restore
        self.counts.add("kvctl_tier_requests")
        if not self._options.loads:
            restore.close(Miss.ROLE)
        elif tokens < min(self._shape.tokens.values()):
            restore.close(Miss.ABSENT)
        else:
            self._ask(restore)

    def lookup(self, name: str, spot: Spot) -> Answer:
        restore = self._requests.get(name)
        return Answer.MISS if restore is None else restore.answer(spot, lambda: self._ask(restore))

    def load(self, number: int, name: str, chunks: Sequence[Chunk]) -> None:
        """Fill rows of the host tier; they hold nothing that counts until the job is done, and stay as they are then.

        `finished` calls off a load that has no thread when it is due; one that has ends by itself.
        """
        restore = self._requests.get(name)
        if restore is None or restore.grant is None:
            self._loads.refuse(number)
            return
        due = restore.due()
        self._loads.start(
            number,
            lambda: self._loader.load(number, restore, chunks, due),
            due,
            lambda: self._loader.undone(restore, chunks, due),
        )

    def store(self, number: int, name: str, chunks: Sequence[Chunk]) -> None:
        """Send rows of the host tier to the stores; they stay as they are until the job is done."""
        restore = self._requests.get(name)
        why = self._unstorable(restore, len(chunks))
        if restore is None or why:
            self.counts.add("kvctl_tier_unstored_chunks", len(chunks), why)
            self._stores.refuse(number)
            return
        self._storing[number] = len(chunks)
        self._residents.add(restore.engine_hash(chunk.spot) for chunk in chunks)
        begun = time.monotonic()

        def work() -> Done:
            grant = self._grant(restore)
            if not isinstance(grant, Miss) and not self._adapter_is(restore):
                grant = Miss.LORA
            if isinstance(grant, Miss):
                self.counts.add("kvctl_tier_unstored_chunks", len(chunks), grant)
                return Done(number, False)
            return self._storer.store(number, restore, grant, chunks, begun)

        self._stores.start(number, work)

    def _unstorable(self, restore: Restore | None, rows: int) -> str:
        if restore is None:
            return "unknown-request"
        if not self._options.stores_chunks:
            return str(Miss.ROLE)
        # What waits for a slow store is pinned in the host tier, where restores need the room. One job always may.
        held = sum(self._storing.values())
        return "pressure" if held and held + rows > self._most_storing else ""

    def refuse(self, number: int) -> None:
        """A job that could not begin."""
        self._loads.refuse(number)

    def finished(self) -> list[Done]:
        stored = self._stores.finished()
        for done in stored:
            self._storing.pop(done.number, None)
        return [*self._loads.finished(), *stored]

    def matched(self, name: str, tokens: int) -> None:
        """The KV of a request's first `tokens` is not computed: it is in the engine or in its host tier."""
        restore = self._requests.get(name)
        if restore is not None:
            restore.matched = tokens

    def scheduled(self, name: str) -> None:
        """The engine begins to compute a request."""
        restore = self._requests.get(name)
        if restore is not None and restore.scheduled is None:
            restore.scheduled = time.monotonic()
            self._unmeasured[name] = restore

    def unmeasured(self) -> list[str]:
        """Requests that are computed and had no token yet when last told."""
        return list(self._unmeasured)

    def produced(self, name: str) -> None:
        """A request has its first token."""
        restore = self._unmeasured.pop(name, None)
        if restore is not None and restore.scheduled is not None and restore.matched == 0:
            self.learning.prefilled(restore.tokens, time.monotonic() - restore.scheduled)

    def finish(self, name: str) -> None:
        """No look-up and no job will come for a request any more; jobs may still be under way."""
        self._unmeasured.pop(name, None)
        restore = self._requests.pop(name, None)
        if restore is None:
            return
        restore.over.set()
        if restore.closed:
            restore.missed.add(restore.closed)
        self.counts.add("kvctl_tier_wait_seconds", restore.lost)
        self.counts.add("kvctl_tier_lost_seconds", restore.lost)
        self.counts.add("kvctl_tier_recompute_seconds", self.learning.recompute(restore.tokens))
        for why in restore.missed:
            self.counts.add("kvctl_tier_misses", 1, why)
        self._asks.run(lambda: self._loader.forget(restore))
        if restore.grant is not None and restore.matched:
            self._stores.run(lambda: self._note(restore))

    def _note(self, restore: Restore) -> None:
        for group, tokens in self._shape.tokens.items():
            self._lineage.used(restore, group, range(restore.matched // tokens))

    def stats(self) -> tuple[Mapping[Key, float], Mapping[Key, float]]:
        """What was counted since last time, and the gauges."""
        gauges: dict[Key, float] = {}
        for name, told in self._pool.stat().items():
            gauges["kvctl_tier_store_up", (name,)] = float(told["breaker"] != State.OPEN)
            gauges["kvctl_tier_store_unserved", (name,)] = told["unserved"]
        gauges["kvctl_tier_lease_problems", ()] = len(self._leases.problems)
        gauges["kvctl_tier_scratch_bytes", ()] = self._loader.held
        if self.learning.rate is not None:
            gauges["kvctl_tier_prefill_tokens_per_second", ()] = self.learning.rate
        return self.counts.take(), gauges

    def drain(self) -> None:
        """Return when no thread touches the host tier; bounded by the deadlines of what is under way."""
        self._loads.drain()
        self._stores.drain()
        self._residents.clear()  # the engine drains before it empties its host tier

    def close(self) -> None:
        self._stop.set()
        for jobs in (self._asks, self._aheads, self._loads, self._stores):
            jobs.close()
        self._pool.close()
        for watch in self._watches:
            if watch.is_alive():
                watch.join(REFRESH)

    def _ask(self, restore: Restore) -> None:
        if not self._asks.run(lambda: self._question(restore)):
            restore.close(Miss.LATE)

    def _question(self, restore: Restore) -> None:
        """Find out whose the request is and which of its chunks are there; fetch ahead while it still waits."""
        if restore.closed or restore.over.is_set():
            return
        try:
            grant = self._grant(restore)
            if isinstance(grant, Miss):
                restore.close(grant)
                return
            self._find(restore, grant)
        except Exception:
            restore.close(Miss.DEFECT)
            raise
        if self._fetches_ahead and not restore.polled and not grant.await_until:
            self._aheads.run(lambda: self._loader.fetch_ahead(restore))

    def _find(self, restore: Restore, grant: Grant) -> None:
        deadline = time.monotonic() + self._options.deadline_ms / 1000
        before = trouble(self._pool)
        found = {group: self._has(restore, grant, group, deadline) for group in self._shape.tokens}
        breakers = {name: told["breaker"] for name, told in self._pool.stat().items()}
        states = set(breakers.values())
        well = states == {State.CLOSED} and trouble(self._pool) == before
        restore.absence = Miss.ABSENT if well else Miss.UNREACHABLE
        if len(self._pool.refused_by(grant.lease.scope)) == len(breakers):
            restore.absence = Miss.UNSERVED
        restore.reachable = states != {State.OPEN}
        restore.put_found(found)

    def _has(self, restore: Restore, grant: Grant, group: int, deadline: float) -> list[bool]:
        """Which chunks of a group are there; leases are for those that would be loaded: stores read them ahead."""
        chain = restore.chain(group)
        here = (at for at in range(len(chain)) if restore.engine_hash(Spot(group, at)) not in self._residents)
        first = next(here, len(chain))
        head = self._pool.has(grant.lease, chain[:first], 0, 0, deadline) if first else []
        if first == len(chain):
            return head
        return head + self._pool.has(grant.lease, chain, first, self._options.lease_ms, deadline)

    def _grant(self, restore: Restore) -> Grant | Miss:
        if restore.grant is None:
            alone = self._options.single_tenant is not None
            found = admit(restore.bearer, self._leases, self._options.trusted, alone=alone, now=time.time())
            if isinstance(found, Miss):
                return found
            shape = self._shape_of(restore.bearer)
            if shape is None:
                return Miss.LORA
            restore.shape = shape
            restore.grant = found
        return restore.grant

    def _shape_of(self, bearer: Bearer) -> Shape | None:
        if bearer.adapter is None:
            return self._shape
        return None if self._adapters is None else self._adapters.shape(bearer.adapter)

    def _adapter_is(self, restore: Restore) -> bool:
        """Whether a request's adapter is still what its chunks are named by, now that they were computed."""
        return restore.bearer.adapter is None or self._shape_of(restore.bearer) == restore.shape

    def _defect(self) -> None:
        self.counts.add("kvctl_tier_defects")

    def _follow(self, steps: Sequence[Callable[[], None]]) -> None:
        while not self._stop.is_set():
            for step in steps:
                self._tried(step)
            self._stop.wait(REFRESH)

    def _tried(self, follow: Callable[[], None]) -> None:
        try:
            follow()
        except KvctlError as error:
            log.error("%s", error)
        except Exception:
            log.exception("KV-VLLM-020: the tier's own error")
            self._defect()

    def _follow_map(self) -> None:
        """Take a newer map; the one before stays in force for reading until the next comes."""
        if self._options.pool is None:
            return
        found = self._options.pool_map()
        if found.version > self._pool.map.version:
            self._pool.settle()
            with suppress(ValueError):  # a newer one still came meanwhile
                self._pool.reload(found)


def trouble(pool: Pool) -> int:
    """How often a store of the pool did not answer, or refused, so far."""
    return sum(told["failures"] + told["refusals"] for told in pool.stat().values())
