"""Who is served next: start-time fair queueing over tenants, by class and weight. No clock and no network of its own.

Goyal, Vin, Cheng: Start-time Fair Queuing (SIGCOMM 1996). A flow is one tenant's requests for one model; its start tags
grow by cost / weight, and the flow with the least one goes first. Flows that wait for the same slots share a lane, a
heap by start tag: what a turn costs grows with the lanes, and with the logarithm of the flows in one.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

Item = TypeVar("Item")
ASIDE = 16  # flows of a lane that are passed over in one turn, at most
SLACK = 64  # entries that no longer count, beyond half of a heap, before they are thrown out


class Verdict(Enum):
    """What may be done with the first of a flow."""

    GO = "it goes"
    LATER = "not now; the next flow of its lane may"
    FLOW = "its flow waits for `wake`"
    LANE = "nobody of its lane now"


@dataclass(frozen=True, slots=True)
class Flow:
    tenant: str
    model: str
    lane: Hashable = None


@dataclass(slots=True)
class Waiting(Generic[Item]):
    item: Item
    price: float  # cost / weight
    start: float


@dataclass(eq=False, slots=True)
class Line(Generic[Item]):
    """One flow's queue. `finish` is the virtual time at which what it was given so far is paid for."""

    flow: Flow
    born: int  # of two with the same tag the older goes first
    finish: float = 0.0
    queue: deque[Waiting[Item]] = field(default_factory=deque)
    entry: "Entry[Item] | None" = None  # the one that counts in its lane's heap


Entry = tuple[float, int, int, Line[Item]]  # tag, the line's birth, a number of its own
Heap = list[Entry[Item]]


class Fair(Generic[Item]):
    """Items wait until `next` gives them out."""

    def __init__(self) -> None:
        self._lines: dict[Flow, Line[Item]] = {}
        self._lanes: dict[Hashable, Heap[Item]] = {}
        self._idle: Heap[Item] = []  # lines with nothing waiting, by what they still owe
        self._parked: dict[str, dict[Line[Item], None]] = {}  # by tenant
        self._now = 0.0  # virtual time: the start tag of what was given out last
        self._count = 0
        self._number = itertools.count()

    def __len__(self) -> int:
        return self._count

    def add(self, flow: Flow, weight: float, cost: float, item: Item) -> None:
        line = self._lines.get(flow)
        if line is None:
            line = self._lines[flow] = Line(flow, next(self._number))
        start = max(self._now, line.finish)
        line.finish = start + cost / weight
        line.queue.append(Waiting(item, cost / weight, start))
        self._count += 1
        self._list(line)

    def remove(self, flow: Flow, item: Item) -> bool:
        """Whether it was still waiting. What it would have cost is given back to those behind it."""
        line = self._lines.get(flow)
        at = next((at for at, one in enumerate(line.queue) if one.item is item), None) if line else None
        if line is None or at is None:
            return False
        price = line.queue[at].price
        del line.queue[at]
        for later in itertools.islice(line.queue, at, None):
            later.start -= price
        line.finish -= price
        if not at:
            self._unpark(line)  # what it waited for was for its first
        self._left(line)
        return True

    def next(self, judge: Callable[[Flow, Item], Verdict]) -> Item | None:
        """The first in fair order whose head may go now; None when none may."""
        shut: dict[Hashable, int] = {}  # lanes, and how many of each were passed over
        aside: list[Line[Item]] = []
        try:
            while (line := self._first(shut)) is not None:
                verdict = judge(line.flow, line.queue[0].item)
                if verdict is Verdict.GO:
                    return self._take(line)
                if verdict is Verdict.LANE:
                    shut[line.flow.lane] = ASIDE
                    continue
                self._unlist(line)
                if verdict is Verdict.FLOW:
                    self._parked.setdefault(line.flow.tenant, {})[line] = None
                else:
                    shut[line.flow.lane] = shut.get(line.flow.lane, 0) + 1
                    aside.append(line)
            return None
        finally:
            for line in aside:
                self._list(line)

    def wake(self, tenant: str) -> None:
        """Its flows that were told to wait may go on."""
        for line in self._parked.pop(tenant, {}):
            self._list(line)

    def _first(self, shut: dict[Hashable, int]) -> Line[Item] | None:
        tops = (self._top(lane) for lane in list(self._lanes) if shut.get(lane, 0) < ASIDE)
        first = min((top for top in tops if top is not None), default=None)
        return first[3] if first else None

    def _top(self, lane: Hashable) -> Entry[Item] | None:
        """The least entry that counts."""
        heap = self._lanes[lane]
        while heap and heap[0][3].entry is not heap[0]:
            heapq.heappop(heap)
        if heap:
            return heap[0]
        del self._lanes[lane]
        return None

    def _take(self, line: Line[Item]) -> Item:
        taken = line.queue.popleft()
        self._now = max(self._now, taken.start)
        self._left(line)
        return taken.item

    def _left(self, line: Line[Item]) -> None:
        self._count -= 1
        if line.queue:
            self._list(line)
        else:
            self._unlist(line)
            self._push(self._idle, line.finish, line, lambda entry: not entry[3].queue and entry[0] == entry[3].finish)
        self._forget()

    def _list(self, line: Line[Item]) -> None:
        """In its lane, by its head's tag."""
        if not line.queue or line in self._parked.get(line.flow.tenant, ()):
            return
        start = line.queue[0].start
        if line.entry is None or line.entry[0] != start:
            heap = self._lanes.setdefault(line.flow.lane, [])
            line.entry = self._push(heap, start, line, lambda entry: entry[3].entry is entry)

    def _unlist(self, line: Line[Item]) -> None:
        line.entry = None  # the heap's no longer counts

    def _unpark(self, line: Line[Item]) -> None:
        parked = self._parked.get(line.flow.tenant, {})
        parked.pop(line, None)
        if not parked:
            self._parked.pop(line.flow.tenant, None)

    def _push(
        self, heap: Heap[Item], tag: float, line: Line[Item], counts: Callable[[Entry[Item]], bool]
    ) -> Entry[Item]:
        if len(heap) > 2 * len(self._lines) + SLACK:  # those who come and leave fill no memory
            heap[:] = [entry for entry in heap if counts(entry)]
            heapq.heapify(heap)
        entry = (tag, line.born, next(self._number), line)
        heapq.heappush(heap, entry)
        return entry

    def _forget(self) -> None:
        """Flows that have nothing waiting and owe nothing are as new ones."""
        while self._idle and self._idle[0][0] <= self._now:
            line = heapq.heappop(self._idle)[3]
            if not line.queue and line.finish <= self._now and self._lines.get(line.flow) is line:
                del self._lines[line.flow]
        if not self._count:
            for kept in (self._lines, self._lanes, self._idle, self._parked):
                kept.clear()
            self._now = 0.0
