"""A request under way: what is known of it, and its usage record, written once."""

import asyncio
import time
from dataclasses import dataclass, field

from kvctl.gateway.answers import Family, Refused
from kvctl.gateway.engines import Engine
from kvctl.gateway.job import Job
from kvctl.gateway.outlet import Outlet
from kvctl.gateway.tenants import Caller
from kvctl.gateway.usage import Meter, Used


@dataclass(eq=False)
class Flight:
    id: str
    family: Family
    task: asyncio.Task[object]
    transport: asyncio.Transport | None = None  # its client's
    began: float = field(default_factory=time.monotonic)  # when the request was here in whole
    caller: Caller | None = None
    scope: str = ""  # that its key must be allowed
    job: Job | None = None
    engine: Engine | None = None
    meter: Meter | None = None
    outlet: Outlet | None = None  # of a stream, once its head may have been sent
    cut: Refused | None = None  # why the gateway ends it
    recorded: bool = False
    _unread: bool = False  # at the last look, nothing was read from its client

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def crowded(self) -> bool:
        """Whether nothing is read from its client, as at the last look: so many requests, or so much of one, stand
        behind this one that its client could not be seen to leave."""
        before, self._unread = self._unread, False
        if self.job is not None and self.transport is not None and not self.transport.is_closing():
            self._unread = not self.transport.is_reading()
        return before and self._unread

    def end(self, why: Refused) -> None:
        """Break it off; its client is told why."""
        if self.cut is None:
            self.cut = why
            self.task.cancel()


def tokens(used: Used, deltas: int) -> int:
    """What counts against a day: where the engine did not say, each event is a token at least."""
    return (used.prompt or 0) + (deltas if used.output is None else used.output)
