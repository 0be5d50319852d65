"""What was refused, on record: one event each, and for a principal that does not stop, a count a minute.

Otherwise whoever may ask for nothing could fill the disk of the control log, without which nobody can change anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvctl.types.events import Event
from kvctl.types.principals import Principal

WINDOW = 60.0  # seconds
EACH = 30  # refusals of one principal in a window that have an event each
Commit = Callable[[Principal, list[Event]], Any]


@dataclass(slots=True)
class _Window:
    who: Principal
    began: float
    count: int = 0
    more: int = 0  # of them without an event
    last: Event | None = None  # of these


class Refusals:
    """`more` of an event: how many were refused beside the one that it names, since the principal's last event."""

    def __init__(self, commit: Commit, clock: Callable[[], float] = time.monotonic) -> None:
        self._commit, self._clock = commit, clock
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}

    def record(self, who: Principal, data: Mapping[str, Any]) -> None:
        event = Event("access.denied", data, who.tenant, "denied")
        self.settle()
        with self._lock:
            window = self._windows.setdefault(who.name, _Window(who, self._clock()))
            window.count += 1
            if window.count > EACH:
                window.more, window.last = window.more + 1, event
                return
        self._commit(who, [event])

    def settle(self, *, every: bool = False) -> None:
        """Put on record what was counted in windows that are over, or in `every` one."""
        now = self._clock()
        with self._lock:
            over = [name for name, one in self._windows.items() if every or now - one.began >= WINDOW]
            ended = [self._windows.pop(name) for name in over]
        for one in ended:
            if one.last is not None:
                data = {**one.last.data, "more": one.more - 1}
                self._commit(one.who, [Event(one.last.kind, data, one.last.tenant, one.last.outcome)])
