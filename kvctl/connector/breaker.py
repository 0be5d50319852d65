"""When to stop asking a store that fails: closed, open, half-open, and back. Pure: time and chance are passed in."""

from dataclasses import dataclass, replace
from enum import StrEnum


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class Policy:
    """Times in seconds."""

    failures: int = 3  # in a row, until the breaker opens
    first: float = 0.5  # how long it stays open the first time; each failed probe doubles it
    longest: float = 30.0
    jitter: float = 0.25  # share of the wait added at most, so that many clients do not probe at one moment
    fair: float = 0.01  # a deadline missed says something about the store when it had at least so long
    probe: float = 10.0  # a probe that nobody reported on for so long counts for nothing: another may go

    def wait(self, opened: int, chance: float) -> float:
        """How long to stay open the `opened`-th time in a row, from 1; chance is in [0, 1)."""
        base = min(self.first * 2.0 ** min(opened - 1, 32), self.longest)
        return base * (1 + self.jitter * chance)


@dataclass(frozen=True, slots=True)
class Breaker:
    """A value: every call answers with the breaker after it. The holder keeps it behind its lock."""

    policy: Policy = Policy()
    state: State = State.CLOSED
    failed: int = 0  # in a row
    opened: int = 0  # times in a row without a success between
    until: float = 0.0  # open: when a probe may go; half-open: when the probe under way is given up

    def ask(self, now: float) -> tuple["Breaker", bool]:
        """May one request go? Of an open breaker whose time is up, the first to ask goes as its probe."""
        if self.state is State.CLOSED:
            return self, True
        if now < self.until:
            return self, False
        return replace(self, state=State.HALF_OPEN, until=now + self.policy.probe), True

    def would(self, now: float) -> bool:
        """What `ask` would answer, without taking the probe."""
        return self.state is State.CLOSED or now >= self.until

    def success(self) -> "Breaker":
        """A request was answered, whatever the answer."""
        return Breaker(self.policy)

    def abandon(self, now: float) -> "Breaker":
        """A request ended without a word about the store: if it was the probe, another may go."""
        return replace(self, until=now) if self.state is State.HALF_OPEN else self

    def failure(self, now: float, chance: float) -> "Breaker":
        """A request was not answered. Late failures of requests from before it opened do not keep it open longer."""
        failed = self.failed + 1
        if self.state is State.OPEN or (self.state is State.CLOSED and failed < self.policy.failures):
            return replace(self, failed=failed)
        opened = self.opened + 1
        until = now + self.policy.wait(opened, chance)
        return replace(self, state=State.OPEN, failed=failed, opened=opened, until=until)
