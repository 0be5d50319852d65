"""How much of a run's time is left, and to whom."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """A value of `time.monotonic()` at which a part of the run ends; what has begun by then is finished."""

    end: float

    @classmethod
    def of(cls, minutes: float) -> "Clock":
        return cls(time.monotonic() + 60 * minutes)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end

    def share(self, mine: float, others: float) -> "Clock":
        """A part's own clock, when the rest of the time is dealt out by weight."""
        now = time.monotonic()
        return Clock(now + (self.end - now) * mine / (mine + others))
