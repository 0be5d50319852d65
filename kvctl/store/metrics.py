"""What kvstored counts, and what each number is."""

import threading
from bisect import bisect_left

from kvctl.daemon.metrics import PROCESS, Labels, Sample, histogram

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
FAMILIES = {
    "kvstored_requests_total": ("counter", "Requests by operation and how they ended."),
    "kvstored_chunks_total": ("counter", "Chunks asked for or sent, by operation and what became of each."),
    "kvstored_bytes_total": ("counter", "Sealed bytes sent (get) and taken (put)."),
    "kvstored_request_seconds": ("histogram", "From a request's first byte to its answer's last, seconds."),
    "kvstored_refusals_total": ("counter", "Connections, sessions and requests refused, by reason."),
    "kvstored_connections_total": ("counter", "Connections taken."),
    "kvstored_sessions": ("gauge", "Authenticated sessions."),
    "kvstored_half_open": ("gauge", "Connections that have not proved who they are."),
    "kvstored_draining": ("gauge", "1 while no request is taken."),
    "kvstored_log_lines_lost_total": ("counter", "Log lines that stderr did not take."),
    "kvstored_tier_capacity_bytes": ("gauge", "Bytes that a tier's chunks may take."),
    "kvstored_tier_used_bytes": ("gauge", "Bytes that a tier's chunks take, padding and headers included."),
    "kvstored_tier_chunks": ("gauge", "Chunks of a tier."),
    "kvstored_tier_writable": ("gauge", "1 when a tier takes chunks."),
    "kvstored_tier_events": ("counter", "What a tier counts (quarantined, read_errors, ...), since the start."),
    "kvstored_place_ok": ("gauge", "1 when a mount or bucket can be read."),
    "kvstored_ram": ("gauge", "The RAM in front of the tiers: its numbers by name, bytes or chunks."),
    "kvstored_store_events": ("counter", "What the store counts (evictions, ...), since the start."),
    **PROCESS,
}


class Metrics:
    """Counts from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[str, list[int]] = {}  # by op: a count a bucket, the last one beyond all
        self._sums: dict[str, float] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        key = (name, tuple(labels.items()))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + amount

    def request(self, op: str, status: str, seconds: float) -> None:
        key = ("kvstored_requests_total", (("op", op), ("status", status)))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1
            buckets = self._histograms.setdefault(op, [0] * (len(BUCKETS) + 1))
            buckets[bisect_left(BUCKETS, seconds)] += 1
            self._sums[op] = self._sums.get(op, 0.0) + seconds

    def value(self, name: str, **labels: str) -> float:
        with self._lock:
            return self._counts.get((name, tuple(labels.items())), 0)

    def samples(self) -> list[Sample]:
        """Everything counted so far."""
        with self._lock:
            counts = [(name, labels, value) for (name, labels), value in self._counts.items()]
            histograms = {op: list(buckets) for op, buckets in self._histograms.items()}
            sums = dict(self._sums)
        for op, buckets in histograms.items():
            counts += histogram("kvstored_request_seconds", (("op", op),), BUCKETS, buckets, sums[op])
        return counts
