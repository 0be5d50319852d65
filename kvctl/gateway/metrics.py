"""What kvgated counts, and what each number is. One loop uses it."""

from bisect import bisect_left
from collections.abc import Iterator

from kvctl.daemon.metrics import PROCESS, Labels, Sample, histogram

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds
FAMILIES = {
    "kvgated_requests_total": ("counter", "Requests of known tenants, by route and the status they got."),
    "kvgated_refusals_total": ("counter", "Requests refused by the gateway, by reason."),
    "kvgated_tokens_total": ("counter", "Tokens that engines said were used: prompt, cached (part of prompt), output."),
    "kvgated_partial_total": ("counter", "Answers that did not come to their end, by whose doing."),
    "kvgated_unmetered_total": ("counter", "Answers of which the engine did not say what they used."),
    "kvgated_without_subject_total": ("counter", "Requests that named no user."),
    "kvgated_ttft_seconds": ("histogram", "From a request's last byte to its answer's first, by class."),
    "kvgated_request_seconds": ("histogram", "From a request's last byte to its answer's last, by class."),
    "kvgated_queue_seconds": ("histogram", "Wait for a slot, by class."),
    "kvgated_waiting": ("gauge", "Requests that wait for a slot, by class."),
    "kvgated_running": ("gauge", "Requests at an engine, by class."),
    "kvgated_streams": ("gauge", "Requests under way."),
    "kvgated_held_bytes": ("gauge", "Bodies of requests that are here."),
    "kvgated_engine_up": ("gauge", "1 while an engine answers."),
    "kvgated_engine_slots": ("gauge", "Requests that an engine is given at the same time."),
    "kvgated_engine_failures_total": ("counter", "Requests that an engine failed, by how."),
    "kvgated_retries_total": ("counter", "Requests that went to another engine because one could not be reached."),
    "kvgated_stripped_total": ("counter", "Requests' fields that did not pass, by name."),
    "kvgated_snapshot_number": ("gauge", "Number of the snapshot in force."),
    "kvgated_snapshot_expires_timestamp_seconds": ("gauge", "When it is over."),
    "kvgated_snapshot_refused_total": ("counter", "Snapshots that were not taken, by code."),
    "kvgated_usage_records_total": ("counter", "Usage records of this boot."),
    "kvgated_usage_waiting": ("gauge", "Usage records that the disk has not taken."),
    "kvgated_log_lines_lost_total": ("counter", "Log lines that stderr did not take."),
    **PROCESS,
}


class Metrics:
    def __init__(self) -> None:
        self._counts: dict[tuple[str, Labels], float] = {}
        self._buckets: dict[tuple[str, Labels], list[int]] = {}  # a count a bucket, the last one beyond all
        self._sums: dict[tuple[str, Labels], float] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        key = (name, tuple(labels.items()))
        self._counts[key] = self._counts.get(key, 0) + amount

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        key = (name, tuple(labels.items()))
        self._buckets.setdefault(key, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + seconds

    def value(self, name: str, **labels: str) -> float:
        return self._counts.get((name, tuple(labels.items())), 0)

    def samples(self) -> Iterator[Sample]:
        """Everything counted so far."""
        for (name, labels), value in self._counts.items():
            yield name, labels, value
        for (name, labels), buckets in self._buckets.items():
            yield from histogram(name, labels, BUCKETS, buckets, self._sums[name, labels])
