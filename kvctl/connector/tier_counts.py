"""What the tier counts, under the names that Prometheus shows. Counters get `_total` from the engine's exporter."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

REASON, STORE = ("reason",), ("store",)


@dataclass(frozen=True, slots=True)
class Metric:
    text: str
    labels: tuple[str, ...] = ()
    gauge: bool = False


METRICS = {
    "kvctl_tier_requests": Metric("Requests that the tier was asked about."),
    "kvctl_tier_restored_requests": Metric("Requests for which chunks were loaded."),
    "kvctl_tier_misses": Metric("Requests, or their rest, that no store served, by reason.", REASON),
    "kvctl_tier_restored_tokens": Metric("Tokens whose KV was loaded and not computed."),
    "kvctl_tier_read_bytes": Metric("Plaintext bytes fetched from stores."),
    "kvctl_tier_used_bytes": Metric("Of those, bytes that the engine took; the rest was fetched in vain."),
    "kvctl_tier_prefetched_bytes": Metric("Of the bytes read, those read while their request waited in the queue."),
    "kvctl_tier_failed_chunks": Metric("Chunks asked for that did not come or did not open, by what happened.", REASON),
    "kvctl_tier_stored_chunks": Metric("Chunks that at least one store took."),
    "kvctl_tier_known_chunks": Metric("Chunks that a store had already, so that they were not sent."),
    "kvctl_tier_unstored_chunks": Metric("Chunks that were not stored, by reason.", REASON),
    "kvctl_tier_stored_bytes": Metric("Plaintext bytes of chunks stored."),
    "kvctl_tier_wait_seconds": Metric("Time that requests spent waiting for stores."),
    "kvctl_tier_lost_seconds": Metric("Of that time, spent on requests for which nothing came."),
    "kvctl_tier_recompute_seconds": Metric("Predicted time to compute the prompts of all requests asked about."),
    "kvctl_tier_saved_seconds": Metric(
        "Predicted recompute of what was loaded; less the wait, what the tier is worth."
    ),
    "kvctl_tier_unnoted_chunks": Metric(
        "Chunks that a user used and whose store could not be told, so that the user's erasure may leave them."
    ),
    "kvctl_tier_defects": Metric("Errors of the tier itself, which the engine's log shows."),
    "kvctl_tier_prefill_tokens_per_second": Metric("Speed of the last prefill that was measured.", gauge=True),
    "kvctl_tier_store_up": Metric("1: the store is asked; 0: its breaker is open.", STORE, gauge=True),
    "kvctl_tier_store_unserved": Metric(
        "Scopes that the store refuses to serve, so that it has no part in their placement.", STORE, gauge=True
    ),
    "kvctl_tier_lease_problems": Metric("Files among the leases that hold none.", gauge=True),
    "kvctl_tier_scratch_bytes": Metric("Memory in use for chunks fetched ahead.", gauge=True),
}
Key = tuple[str, tuple[str, ...]]  # name, values of its labels


class Counts:
    """Thread-safe. What was counted since the last `take`, and the last value of each gauge."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counted: Counter[Key] = Counter()

    def add(self, name: str, number: float = 1, *labels: str) -> None:
        """KeyError for a name that METRICS does not have, ValueError for less than nothing.

        The engine's exporter raises for a counter that goes down, in a place that takes its API server along.
        """
        assert len(METRICS[name].labels) == len(labels)
        if number < 0:
            raise ValueError(f"{name} goes down by {-number}")
        if number:
            with self._lock:
                self._counted[name, labels] += number  # type: ignore[assignment]

    def take(self) -> Mapping[Key, float]:
        with self._lock:
            counted, self._counted = self._counted, Counter()
        return counted
