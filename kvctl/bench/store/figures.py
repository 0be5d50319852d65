"""The arithmetic of the store's benchmark: percentiles, medians of rounds, figures of a cell. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from kvctl.bench.store.cells import Cell
from kvctl.bench.store.jobs import Taken

GB = 1e9


@dataclass(frozen=True, slots=True)
class Sample:
    """One contestant's run of one cell in one round."""

    contestant: str
    cell: Cell
    round: int
    taken: Taken


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over rounds, each taken by itself. CPU is in seconds per GB of plaintext, latencies in seconds.

    None: there is no such thing (no server, nothing sealed) or the tool does not tell; never zero for unknown.
    """

    samples: int
    gbps: float
    client_cpu: float
    server_cpu: float | None
    seal_cpu: float | None  # of `client_cpu`
    total_cpu: float  # client and server
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Scaled:
    """Seconds, and what each sample gave."""

    chunks: int
    fill_seconds: float
    reopen_seconds: float  # from the start of the daemon to its first answer, after an orderly end
    counted_seconds: float  # until it knows the recency of every chunk, which it finds out while it serves
    reopen_killed_seconds: float  # the same after SIGKILL
    has_p50: float  # of a HAS of 1000 keys, half of them stored
    has_p99: float
    small_bytes: int
    factor: int
    p99_small: float  # median over rounds of a sample's p99
    p99_large: float
    has_times: tuple[float, ...]
    p99s: tuple[tuple[float, float], ...]  # of each round: the smaller store's, the larger store's

    @property
    def p99_ratio(self) -> float:
        return self.p99_large / self.p99_small

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"p99_ratio": self.p99_ratio}


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Nearest rank in sorted values: the least that `share` of them do not exceed. None when there are none."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def figures(samples: Iterable[Sample]) -> dict[Cell, dict[str, Figures]]:
    """Cell -> contestant -> figures; both in the order in which they appear."""
    groups: dict[Cell, dict[str, list[Taken]]] = {}
    for sample in samples:
        groups.setdefault(sample.cell, {}).setdefault(sample.contestant, []).append(sample.taken)
    return {cell: {name: middle(taken) for name, taken in found.items()} for cell, found in groups.items()}


def middle(taken: Sequence[Taken]) -> Figures:
    return Figures(
        samples=len(taken),
        gbps=median(one.bytes / GB / one.wall for one in taken),
        client_cpu=median(per_gb(one.client_cpu, one) for one in taken),
        server_cpu=median_known([known(one.server_cpu, one) for one in taken]),
        seal_cpu=median_known([known(one.seal_cpu, one) for one in taken]),
        total_cpu=median(per_gb(one.client_cpu + (one.server_cpu or 0.0), one) for one in taken),
        p50=median_known([one.p50 for one in taken]),
        p99=median_known([one.p99 for one in taken]),
    )


def per_gb(seconds: float, taken: Taken) -> float:
    return seconds / (taken.bytes / GB)


def known(seconds: float | None, taken: Taken) -> float | None:
    return None if seconds is None else per_gb(seconds, taken)


def median_known(values: Sequence[float | None]) -> float | None:
    """The median when every value is known."""
    found = [value for value in values if value is not None]
    return median(found) if found and len(found) == len(values) else None
