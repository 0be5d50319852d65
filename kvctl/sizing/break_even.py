"""When reading KV back is faster than computing it again. Formulas and estimators; times are passed in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

ALPHA = 1.0  # load when its predicted time is below alpha x the predicted recompute


@dataclass(frozen=True, slots=True)
class Prefill:
    """Measured seconds to compute a prompt's KV, by its length: ascending (tokens, seconds), both above 0.

    Straight lines between the points and from (0, 0) to the first; the last line goes on beyond the last point.
    `measured_to`: the longest measured length; None: only a rate is known.
    """

    points: tuple[tuple[int, float], ...]
    measured_to: int | None = None

    def __post_init__(self) -> None:
        lengths = [0, *(n for n, _ in self.points)]
        times = [0.0, *(s for _, s in self.points)]
        if len(lengths) == 1 or any(b <= a for a, b in pairwise(lengths)):
            raise ValueError("prefill points are (tokens, seconds) with ascending tokens above 0")
        if any(b <= a for a, b in pairwise(times)):
            raise ValueError("longer prompts take longer: prefill seconds ascend and are above 0")

    @classmethod
    def measured(cls, points: Sequence[tuple[int, float]]) -> "Prefill":
        return cls(tuple(points), max((n for n, _ in points), default=None))

    @classmethod
    def rate(cls, seconds_per_token: float) -> "Prefill":
        """Every token takes the same, which is right for short prompts only: attention grows with length."""
        return cls(((1, seconds_per_token),))

    @property
    def last_slope(self) -> float:
        """Seconds for each further token beyond the last point."""
        low, high = ((0, 0.0), *self.points)[-2:]
        return (high[1] - low[1]) / (high[0] - low[0])

    def seconds(self, tokens: float) -> float:
        before = (0, 0.0)
        for point in self.points:
            if tokens <= point[0] or point is self.points[-1]:
                return before[1] + (tokens - before[0]) * (point[1] - before[1]) / (point[0] - before[0])
            before = point
        raise AssertionError("a prefill has points")


@dataclass(frozen=True, slots=True)
class Reader:
    """How fast a tier gives KV back."""

    bytes_per_token: float
    bandwidth: float  # bytes a second
    latency: float  # seconds

    def seconds(self, tokens: float) -> float:
        """Latency once, then bytes at `bandwidth`."""
        return self.latency + tokens * self.bytes_per_token / self.bandwidth


def break_even(prefill: Prefill, reader: Reader, alpha: float = ALPHA) -> int | None:
    """Tokens from which on every longer prefix is read in less than alpha x its recompute; None: there is no such.

    Both sides are straight between the prefill's points, so the answer is exact for the model.
    """

    def gain(tokens: float) -> float:
        return alpha * prefill.seconds(tokens) - reader.seconds(tokens)

    nodes = [0, *(n for n, _ in prefill.points)]
    slope = alpha * prefill.last_slope - reader.bytes_per_token / reader.bandwidth
    if gain(nodes[-1]) < 0:
        return nodes[-1] + math.ceil(-gain(nodes[-1]) / slope) if slope > 0 else None
    if slope < 0:
        return None
    for low, high in reversed(list(pairwise(nodes))):
        if gain(low) < 0:
            share = -gain(low) / (gain(high) - gain(low))
            return math.ceil(low + share * (high - low))
    return 0


class RecomputeEstimator:
    """Seconds a token of recompute, by length, from what was seen: one moving mean for each power of two.

    Memory is at most one number for each power of two. Values that cannot be (0 or less, not finite) are left out.
    """

    def __init__(self, weight: float = 0.1) -> None:
        self._weight = weight
        self._means: dict[int, float] = {}

    def observe(self, tokens: int, seconds: float) -> None:
        if tokens <= 0 or not math.isfinite(seconds) or seconds <= 0:
            return
        at = tokens.bit_length()
        each = seconds / tokens
        self._means[at] = self._means.get(at, each) + self._weight * (each - self._means.get(at, each))

    def predict(self, tokens: int) -> float | None:
        """Seconds for a prompt of `tokens`, from the lengths nearest to it; None: nothing was seen."""
        if not self._means or tokens <= 0:
            return None
        at = tokens.bit_length()
        low = max((b for b in self._means if b <= at), default=min(self._means))
        high = min((b for b in self._means if b >= at), default=max(self._means))
        if low >= high:
            return tokens * self._means[low]
        share = (at - low) / (high - low)
        return tokens * (self._means[low] * (1 - share) + self._means[high] * share)


class LoadEstimator:
    """Seconds of a load by its bytes: a line through what was seen, older samples weighing less by `keep` each."""

    def __init__(self, keep: float = 0.97, least: int = 3) -> None:
        self._keep, self._least = keep, least
        self._samples = 0
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def observe(self, size: int, seconds: float) -> None:
        if size <= 0 or not math.isfinite(seconds) or seconds <= 0:
            return
        x = float(size)
        k = self._keep
        self._samples += 1
        self._n = self._n * k + 1
        self._x = self._x * k + x
        self._y = self._y * k + seconds
        self._xx = self._xx * k + x * x
        self._xy = self._xy * k + x * seconds

    def predict(self, size: int) -> float | None:
        """Seconds for `size` bytes; None until enough loads were seen.

        Sizes that hardly differ say nothing about latency apart from bandwidth: then seconds follow bytes alone.
        """
        if self._samples < self._least or size <= 0:
            return None
        spread = self._n * self._xx - self._x * self._x
        if spread > 1e-3 * self._x * self._x:
            slope = (self._n * self._xy - self._x * self._y) / spread
            start = (self._y - slope * self._x) / self._n
            if slope >= 0 and start >= 0:
                return start + slope * size
        return size * self._y / self._x


class Gate:
    """Load or recompute, one decision a request. Every `probe`-th load that it would stop goes through.

    Without probes nothing would show that a slow store has become fast again.
    """

    def __init__(self, alpha: float = ALPHA, probe: int = 32) -> None:
        self.alpha, self._probe = alpha, probe
        self._stopped = 0

    def decide(self, load: float | None, recompute: float | None) -> "Decision":
        """`load`, `recompute`: predicted seconds, None: not known; then the load goes through, to be measured."""
        if load is None or recompute is None:
            return Decision(True, "not measured yet")
        if load < self.alpha * recompute:
            self._stopped = 0
            return Decision(True, "faster than recompute")
        self._stopped += 1
        if self._stopped % self._probe == 0:
            return Decision(True, "probe")
        return Decision(False, "slower than recompute")


@dataclass(frozen=True, slots=True)
class Decision:
    load: bool
    why: str


def worth_storing(reuse: float, recompute: float, load: float, write: float) -> bool:
    """Whether a chunk earns its write: P(reuse) x (T_recompute - T_load) > T_write, all in seconds."""
    return reuse * (recompute - load) > write


def total_saved(prefixes: Sequence[tuple[int, int]], prefill: Prefill, alpha: float, reader: Reader) -> "Saved":
    """What restoring (tokens, how many) prefixes saves, when each is loaded only if the gate says so."""
    loads, waiting, computing = 0, 0.0, 0.0
    for tokens, count in prefixes:
        recompute, reading = prefill.seconds(tokens), reader.seconds(tokens)
        if reading < alpha * recompute:
            loads += count
            waiting += count * (recompute - reading)
            computing += count * recompute
    return Saved(loads, waiting, computing)


@dataclass(frozen=True, slots=True)
class Saved:
    loads: int  # requests whose prefix was read
    waiting: float  # seconds less until the first token, over all requests
    computing: float  # seconds of prefill that did not run
