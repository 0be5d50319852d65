"""What lost stores cost the prompts of a pool: their chunks, and how much of each prefix is left. Pure.

A prompt of `length` chunks lies on the nodes in runs of `stripe` chunks. Placement orders a run's nodes by
-weight/ln(u) with u uniform: the one whose exponential clock of rate `weight` rings first is the first owner. So that
is a node with probability weight / sum of weights, and each further owner likewise among the nodes that are left.
A hit needs every chunk before it: a prompt is worth what comes before its first lost run.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvctl.connector.placement import PoolMap


@dataclass(frozen=True, slots=True)
class Loss:
    """Of many prompts. The fields of a standard error are those of what it belongs to."""

    chunks: float  # share of the chunks that no node has any more
    broken: float  # share of the prompts that miss at least one chunk
    usable: float  # chunks of a prompt before the first that is missing, on average


def run_loss(weights: Mapping[str, float], lost: Collection[str], copies: int) -> float:
    """The probability that all owners of a run, `copies` or as many as there are, are among the lost nodes."""
    if not copies or not weights:
        return 1.0
    total = sum(weights.values())
    found = 0.0
    for name in lost:
        if weights.get(name):
            others = {other: weight for other, weight in weights.items() if other != name}
            found += weights[name] / total * run_loss(others, lost, copies - 1)
    return found


def expected(length: int, stripe: int, share: float) -> Loss:
    """The mean over all placements, when a run is lost with probability `share`."""
    prefixes = list(prefixes_of(length, stripe, share))
    return Loss(share, 1 - prefixes[-1][1], sum(chunks * chance for chunks, chance in prefixes))


def standard_errors(length: int, stripe: int, share: float, prompts: int) -> Loss:
    """How far a mean over `prompts` prompts without a common prefix is from `expected`, typically (one sigma)."""
    mean = expected(length, stripe, share)
    squares = sum(chunks**2 * chance for chunks, chance in prefixes_of(length, stripe, share))
    runs = [min(stripe, length - first) / length for first in range(0, length, stripe)]
    variances = (
        share * (1 - share) * sum(part**2 for part in runs),
        mean.broken * (1 - mean.broken),
        squares - mean.usable**2,
    )
    return Loss(*(math.sqrt(max(variance, 0.0) / prompts) for variance in variances))


def prefixes_of(length: int, stripe: int, share: float) -> Iterator[tuple[int, float]]:
    """(chunks before the first lost run, its probability), up to the whole prompt."""
    whole = 1.0
    for first in range(0, length, stripe):
        yield first, whole * share
        whole *= 1 - share
    yield length, whole


def by_map(pool_map: PoolMap, chains: Iterable[Sequence[bytes]], lost: Collection[str], copies: int) -> Loss:
    """What a map says about these very prompts."""
    return seen([left_of(pool_map, chain, lost, copies) for chain in chains])


def left_of(pool_map: PoolMap, chain: Sequence[bytes], lost: Collection[str], copies: int) -> list[bool]:
    """Which chunks of a prompt still have an owner."""
    there: list[bool] = []
    for first in range(0, len(chain), pool_map.stripe):
        owners = {node.name for node in pool_map.owners(pool_map.run(chain, first), copies)}
        there += [not owners <= set(lost)] * min(pool_map.stripe, len(chain) - first)
    return there


def seen(prompts: Sequence[Sequence[bool]]) -> Loss:
    """What was found of each prompt, chunk by chunk, in one figure. ValueError for no prompt."""
    if not prompts:
        raise ValueError("a mean needs a prompt")
    chunks = sum(map(len, prompts))
    return Loss(
        sum(there.count(False) for there in map(list, prompts)) / chunks,
        sum(not all(there) for there in prompts) / len(prompts),
        sum(map(prefix, prompts)) / len(prompts),
    )


def prefix(there: Sequence[bool]) -> int:
    """Chunks before the first that is missing."""
    return next((at for at, found in enumerate(there) if not found), len(there))
