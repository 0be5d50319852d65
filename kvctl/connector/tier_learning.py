"""What an engine learns about itself and its stores while it runs: what to load, and how long to wait for it."""

import time
from collections.abc import Callable
from threading import Lock

from kvctl.sizing.break_even import Decision, Gate, LoadEstimator, RecomputeEstimator

PROBE = 15.0  # seconds after which a load that looks too slow is tried all the same
FASTER = 4.0  # times faster than predicted: what was seen before was another state of the store


class Learning:
    """Thread-safe. All times in seconds.

    `share`: how much of a prompt's recompute may be lost by waiting for a store; `assumed`: tokens a second of prefill
    until some were measured.
    """

    def __init__(self, alpha: float, share: float, assumed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._probed = float("-inf")  # when a load was last let through or measured
        self._lock = Lock()
        self._recompute = RecomputeEstimator()
        self._load = LoadEstimator()
        self._gate = Gate(alpha)
        self._share = share
        self._assumed = assumed
        self.rate: float | None = None  # tokens a second of the last prefill measured

    def prefilled(self, tokens: int, seconds: float) -> None:
        """A prompt of `tokens` was computed, from its first token on."""
        with self._lock:
            self._recompute.observe(tokens, seconds)
            if tokens > 0 and seconds > 0:
                self.rate = tokens / seconds

    def loaded(self, size: int, seconds: float) -> None:
        """A load of `size` bytes came whole."""
        with self._lock:
            self._probed = self._clock()
            expected = self._load.predict(size)
            if expected is not None and seconds * FASTER < expected:
                self._load = LoadEstimator()
            self._load.observe(size, seconds)

    def recompute(self, tokens: int) -> float:
        """Predicted time to compute a prompt's first `tokens`."""
        with self._lock:
            known = self._recompute.predict(tokens)
        return tokens / self._assumed if known is None else known

    def between(self, first: int, last: int) -> float:
        """Predicted time to compute the tokens from `first` to `last` of a prompt whose beginning is there."""
        return max(self.recompute(last) - self.recompute(first), 0.0) if last > first else 0.0

    def patience(self, tokens: int) -> float:
        """How long a prompt of `tokens` may wait for nothing."""
        return self._share * self.recompute(tokens)

    def decide(self, size: int, first: int, last: int) -> Decision:
        """Whether to load `size` bytes that stand for the tokens from `first` to `last`."""
        saves = self.between(first, last)
        with self._lock:
            known = self._recompute.predict(last) is not None
            decision = self._gate.decide(self._load.predict(size), saves if known else None)
            if not decision.load and self._clock() - self._probed >= PROBE:
                decision = Decision(True, "probe")  # nothing else would show that the store is fast again
            if decision.load:
                self._probed = self._clock()
            return decision
