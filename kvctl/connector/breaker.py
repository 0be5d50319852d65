"""When to stop asking a store that fails: closed, open, half-open, and back. Pure: time and chance are passed in.

Reading chunks is counted apart from all else: a store that answers every question, and gives chunks that are damaged or
come too late, is not well.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Health(StrEnum):
    """What the chunks that came say about the store that gave them."""

    WELL = "well"
    SLOW = "slow"  # not all came in time; nothing, when there was hardly any
    ILL = "ill"  # it broke off, or what came is damaged


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
    failed: int = 0  # in a row, of requests that read no chunks
    unread: int = 0  # in a row, of those that do
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

    def success(self, *, read: bool = False) -> "Breaker":
        """A request was answered, whatever the answer; `read`: chunks came, and are good.

        A mere answer closes a breaker that failed reads had opened, so that one may be tried: if it fails, it opens.
        """
        if read or not self.unread:
            return Breaker(self.policy)
        if self.state is State.OPEN and self.unread >= self.policy.failures:
            return self
        unread = min(self.unread, self.policy.failures - 1)
        return Breaker(self.policy, unread=unread, opened=self.opened if unread else 0)

    def abandon(self, now: float) -> "Breaker":
        """A request ended without a word about the store: if it was the probe, another may go."""
        return replace(self, until=now) if self.state is State.HALF_OPEN else self

    def failure(self, now: float, chance: float, *, read: bool = False) -> "Breaker":
        """A request was not answered; `read`: it was for chunks, and what came, if anything, is no good.

        Late failures of requests from before it opened do not keep it open longer.
        """
        counted = replace(self, failed=self.failed + (not read), unread=self.unread + read)
        row = max(counted.failed, counted.unread)
        if self.state is State.OPEN or (self.state is State.CLOSED and row < self.policy.failures):
            return counted
        opened = self.opened + 1
        return replace(counted, state=State.OPEN, opened=opened, until=now + self.policy.wait(opened, chance))
