"""Who is served next: start-time fair queueing over tenants, by class and weight. No clock and no network of its own.

Goyal, Vin, Cheng: Start-time Fair Queuing (SIGCOMM 1996). A flow is one tenant's requests for one model; its start tags
grow by cost / weight, and the flow with the least one goes first.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Flow:
    tenant: str
    model: str


@dataclass
class Waiting(Generic[Item]):
    item: Item
    cost: float
    start: float = 0.0


@dataclass
class Line(Generic[Item]):
    """One flow's queue. `finish` is the virtual time at which what it was given so far is paid for."""

    weight: float
    finish: float = 0.0
    queue: deque[Waiting[Item]] = field(default_factory=deque)


class Fair(Generic[Item]):
    """Items wait until `next` gives them out."""

    def __init__(self) -> None:
        self._lines: dict[Flow, Line[Item]] = {}
        self._per_tenant: dict[str, int] = {}
        self._now = 0.0  # virtual time: the start tag of what was given out last
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of_tenant(self, tenant: str) -> int:
        return self._per_tenant.get(tenant, 0)

    def add(self, flow: Flow, weight: float, cost: float, item: Item) -> None:
        line = self._lines.setdefault(flow, Line(weight))
        line.weight = weight
        start = max(self._now, line.finish)
        line.finish = start + cost / weight
        line.queue.append(Waiting(item, cost, start))
        self._tally(flow, 1)

    def remove(self, flow: Flow, item: Item) -> bool:
        """Whether it was still waiting. What it would have cost is given back to those behind it."""
        line = self._lines.get(flow)
        found = next((one for one in line.queue if one.item is item), None) if line else None
        if line is None or found is None:
            return False
        at = line.queue.index(found)
        line.queue.remove(found)
        for later in list(line.queue)[at:]:
            later.start -= found.cost / line.weight
        line.finish -= found.cost / line.weight
        self._left(flow, line)
        return True

    def next(self, admissible: Callable[[Flow, Item], bool]) -> Item | None:
        """The first in fair order whose head may go now; None when none may."""
        order = sorted(self._lines.items(), key=lambda pair: pair[1].queue[0].start if pair[1].queue else float("inf"))
        for flow, line in order:
            if line.queue and admissible(flow, line.queue[0].item):
                return self._take(flow, line)
        return None

    def _take(self, flow: Flow, line: Line[Item]) -> Item:
        taken = line.queue.popleft()
        self._now = max(self._now, taken.start)
        self._left(flow, line)
        return taken.item

    def _left(self, flow: Flow, line: Line[Item]) -> None:
        self._tally(flow, -1)
        self._forget()

    def _forget(self) -> None:
        """Flows that have nothing waiting and owe nothing are as new ones."""
        idle = [flow for flow, line in self._lines.items() if not line.queue and line.finish <= self._now]
        for flow in idle:
            del self._lines[flow]
        if not self._count:
            self._lines.clear()
            self._now = 0.0

    def _tally(self, flow: Flow, by: int) -> None:
        self._count += by
        left = self._per_tenant.get(flow.tenant, 0) + by
        if left:
            self._per_tenant[flow.tenant] = left
        else:
            self._per_tenant.pop(flow.tenant, None)
