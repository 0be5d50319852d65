"""The arithmetic of the benchmark: percentiles, what a cell gave, medians. Pure. Times in seconds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvctl.bench.store.figures import percentile
from kvctl.bench.ttft.cells import CHUNK, COMPUTED, HITS, Cell, Way
from kvctl.fleet.lab.serving_demo import Answer

WORDS = {
    "late": "not there when the share of the recompute that may be waited was over (`max_wait_share`)",
    "slower": "not asked for, since loading was predicted to take longer than computing",
}
DECIDED = frozenset(WORDS)
TWICE = {"failed", "absent"}  # requests whose chunks are counted by what happened to them, and tails without a chunk


@dataclass(frozen=True, slots=True)
class Sample:
    """A cell in one round: an answer a session. `memory`: share of the store's reads that its memory answered."""

    round: int
    answers: tuple[Answer, ...]
    memory: float | None = None
    written: float | None = None  # bytes a second of the large write meanwhile
    reasons: Mapping[str, int] = field(default_factory=dict)  # why the tier did not load -> chunks or requests


def spread(values: Iterable[float]) -> dict[str, float | int | None]:
    """p50 and p99 by nearest rank, so values that were measured; None when there are none."""
    ordered = sorted(values)
    return {"p50": percentile(ordered, 0.50), "p99": percentile(ordered, 0.99), "count": len(ordered)}


def wrong(cell: Cell, sample: Sample, computed: Sequence[Answer]) -> str:
    """Why a sample is no sample of its cell; "" when it is one. `computed`: the same prompts, computed."""
    if [one.output for one in sample.answers] != [one.output for one in computed]:
        return "another output than computed"
    whole = cell.group.tokens // CHUNK * CHUNK
    cached = [one.cached for one in sample.answers]
    if cell.way in COMPUTED and any(cached):
        return f"{max(cached)} tokens of a context that nobody has had were taken from a cache"
    if cell.way in HITS and not sum(cached) and not DECIDED & sample.reasons.keys():
        return f"none of {len(cached)} x {whole} tokens was restored"
    memory = sample.memory
    if memory is not None and (memory < 0.5 if cell.way is Way.MEMORY else memory > 0.5):
        return f"{100 * memory:.0f} % of the store's reads came from its memory"
    return ""


@dataclass(slots=True)
class Book:
    """What was taken of each cell, and what failed; a cell that failed once has no figures."""

    cells: frozenset[Cell]
    samples: dict[Cell, list[Sample]] = field(default_factory=dict)
    failures: dict[Cell, str] = field(default_factory=dict)

    def add(self, cell: Cell, sample: Sample, computed: Sequence[Answer]) -> None:
        """Cells that were not asked for are not kept."""
        if cell not in self.cells:
            return
        if why := wrong(cell, sample, computed):
            self.fail([cell], why)
        else:
            self.samples.setdefault(cell, []).append(sample)

    def fail(self, cells: Iterable[Cell], why: str) -> None:
        for cell in cells:
            if cell in self.cells:
                self.failures.setdefault(cell, why)

    def row(self, cell: Cell, why_not: str) -> dict[str, Any]:
        """A cell of the report; `why_not`: of one that was not measured."""
        named = {"name": cell.name, "way": str(cell.way), "tokens": cell.group.tokens, "sessions": cell.group.sessions}
        if cell in self.failures:
            return {**named, "status": "failed", "why": self.failures[cell]}
        samples = self.samples.get(cell)
        if not samples:
            return {**named, "status": "left out", "why": why_not}
        found = figures(samples)
        if cell.way in HITS and not found["restored"]:
            return {**named, "status": "declined", "why": because(found["reasons"])}
        return {**named, "status": "measured", **found}


def because(reasons: Mapping[str, int]) -> str:
    """What the tier counted, in words where it decided by time."""
    told = [f"{count} x {WORDS.get(reason, reason)}" for reason, count in reasons.items() if reason not in TWICE]
    return ", ".join(told) or "the tier counted no reason"


def figures(samples: Sequence[Sample]) -> dict[str, Any]:
    answers = [answer for sample in samples for answer in sample.answers]
    written = [sample.written for sample in samples if sample.written is not None]
    reasons: Counter[str] = Counter()
    for sample in samples:
        reasons.update(sample.reasons)
    return {
        "first": spread(answer.first for answer in answers),
        "between": spread(gap for answer in answers for gap in answer.gaps),
        "restored": sum(answer.cached for answer in answers) / sum(answer.prompt for answer in answers),
        "reasons": dict(reasons),
        "rounds": len(samples),
        "written": sum(written) / len(written) if written else None,
    }


def numbers(row: Mapping[str, Any], kind: str) -> tuple[float, float] | None:
    """p50 and p99 of a measured row."""
    if row["status"] != "measured" or row[kind]["p50"] is None:
        return None
    return row[kind]["p50"], row[kind]["p99"]
