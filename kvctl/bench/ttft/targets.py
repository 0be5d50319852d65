"""What must hold, as ratios of medians of one run. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, inf
from statistics import median

from kvctl.bench.ttft.between import Between, Traffic
from kvctl.bench.ttft.cells import DEGRADED
from kvctl.bench.ttft.degraded import Degraded, Pair
from kvctl.bench.ttft.restore import Kind, Restores

FASTER = 30.0  # restored against recomputed
RAW_SHARE = 0.7
GRACE = 0.060  # seconds
BETWEEN = 1.05
CONFIDENCE = 0.9
EXTRA = 1.25  # with a failing store against without any,
LEAST = 4096  # of contexts of so many tokens and more
NAMES = {Kind.MEMORY: "from the store's memory", Kind.FLASH: "from flash", Kind.FIRST: "first after an engine's start"}


@dataclass(frozen=True, slots=True)
class Row:
    """`ratio` and `holds` are None when one side was not measured: that is no pass. `medians`: seconds, by name."""

    name: str
    ratio: float | None
    required: str
    holds: bool | None
    medians: dict[str, float]
    repetitions: int
    why: str = ""  # of what was not measured
    between: tuple[float, float] | None = None  # where the ratio's median lies in 9 of 10 such runs


def at_least(ratio: float | None, limit: float) -> tuple[str, bool | None]:
    return f">= {limit:g}", None if ratio is None else ratio >= limit


def at_most(ratio: float | None, limit: float) -> tuple[str, bool | None]:
    return f"<= {limit:g}", None if ratio is None else ratio <= limit


def rows(restores: Restores | None, between: Between | None, degraded: Degraded | None) -> list[Row]:
    found: list[Row] = []
    if restores is not None:
        found += [*recompute_rows(restores), *bound_rows(restores)]
    if between is not None:
        found += between_rows(between)
    if degraded is not None:
        found += degraded_rows(degraded.pairs)
    return found


def counted(restores: Restores, kind: Kind) -> int:
    return sum(one.kind is kind for one in restores.timed)


def recompute_rows(restores: Restores) -> Iterator[Row]:
    for kind, where in NAMES.items():
        one, other = restores.median(kind), restores.median(Kind.RECOMPUTE)
        ratio = None if one is None or other is None else other / one
        medians = {name: value for name, value in (("restored", one), ("recompute", other)) if value is not None}
        name = f"TTFT at {restores.tokens} tokens, {where}: recompute / restored"
        yield Row(name, ratio, *at_least(ratio, FASTER), medians, counted(restores, kind), restores.failed)


def bound(host: float, size: int, raw: float) -> float:
    """What a restore may take: a host-tier hit, the bytes at a share of a plain socket pair's speed, and a grace."""
    return host + size / (RAW_SHARE * raw) + GRACE


def bound_rows(restores: Restores) -> Iterator[Row]:
    for kind, where in NAMES.items():
        one, host = restores.median(kind), restores.median(Kind.HOST)
        ratio, medians = None, {}
        if one is not None and host is not None and restores.raw:
            limit = bound(host, restores.size, median(restores.raw))
            ratio, medians = one / limit, {"restored": one, "host tier": host, "bound": limit}
        name = f"TTFT at {restores.tokens} tokens, {where}: restored / (host tier + bytes / (0.7 raw) + 60 ms)"
        yield Row(name, ratio, *at_most(ratio, 1.0), medians, counted(restores, kind), restores.failed)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Between which of the values the median lies, with 90 % confidence whatever their distribution; None: too few.

    By order statistics: the k-th smallest and largest, of which the binomial distribution says how often they miss it.
    """
    ordered, count = sorted(values), len(values)
    missed, k = 0.0, 0
    while k < count / 2 and 2 * (missed + comb(count, k) / 2**count) <= 1 - CONFIDENCE:
        missed += comb(count, k) / 2**count
        k += 1
    return (ordered[k - 1], ordered[-k]) if k else None


def between_rows(between: Between) -> Iterator[Row]:
    """A verdict only where all of the interval is on one side: noise neither holds nor does not."""
    for traffic in Traffic:
        pairs = between.compared(traffic)
        if not pairs and not between.failed:
            continue
        name, required = f"inter-token p99, {traffic}: with / without", at_most(None, BETWEEN)[0]
        if not pairs:
            yield Row(name, None, required, None, {}, 0, between.failed)
            continue
        ratios = [one / other for one, other in pairs]
        medians = {"with": median(one for one, _ in pairs), "without": median(other for _, other in pairs)}
        found = interval(ratios)
        low, high = found or (0.0, inf)
        holds = True if high <= BETWEEN else False if low > BETWEEN else None
        yield Row(name, median(ratios), required, holds, medians, len(pairs), "", found)


def degraded_rows(pairs: Sequence[Pair]) -> Iterator[Row]:
    for way in DEGRADED:
        for tokens in sorted({pair.tokens for pair in pairs if pair.way is way and pair.tokens >= LEAST}):
            mine = [pair for pair in pairs if (pair.way, pair.tokens) == (way, tokens)]
            medians = {
                "failing": median(pair.degraded for pair in mine),
                "recompute": median(pair.recompute for pair in mine),
            }
            ratio = medians["failing"] / medians["recompute"]
            name = f"TTFT at {tokens} tokens, {WORDS[way]}: with the failing store / without any"
            yield Row(name, ratio, *at_most(ratio, EXTRA), medians, len(mine))


WORDS = {"gone": "one of two stores gone", "stopped": "stores stopped", "slow": "stores at 1 MB/s"}
