"""The connections to one store that are kept: opened when needed, at most so many, the last used first."""

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
from functools import partial
from threading import Condition

from kvctl.connector.connection import Connection
from kvctl.connector.counters import Counters
from kvctl.connector.failures import DeadlineExceeded, StoreUnavailable
from kvctl.connector.stream import left
from kvctl.connector.threads import handed_over

Open = Callable[[str, float], Connection]  # address, deadline


class Sessions:
    """Thread-safe. A place is the right to hold one connection; whoever has one opens or reuses a connection on it."""

    def __init__(
        self, addresses: Sequence[str], opener: Open, most: int, connect_timeout: float, counters: Counters
    ) -> None:
        self._addresses = itertools.cycle(addresses)
        self._tries = len(addresses)
        self._open = opener
        self._places = self._most = most
        self._connect_timeout = connect_timeout
        self._counters = counters
        self._idle: list[Connection] = []
        self._closed = False
        self._changed = Condition()

    def reserve(self, deadline: float | None) -> bool:
        """Take a place, waiting until the deadline; None: do not wait. False: there is none."""
        with self._changed:
            if self._places and not self._closed:
                self._places -= 1
                return True
            if deadline is None:
                if not self._places:
                    return False
            elif not self._changed.wait_for(lambda: self._places or self._closed, left(deadline)):
                return False
            if self._closed:
                raise StoreUnavailable("the client is closed")
            self._places -= 1
            return True

    def take(self, deadline: float) -> Connection:
        """On a place that was reserved: a connection that is alive, kept or new. The place stays the caller's."""
        while True:
            with self._changed:
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                return self._connect(deadline)
            if self._alive(kept):
                return kept

    def _alive(self, kept: Connection) -> bool:
        """Whether a kept connection can be used; one that cannot is closed."""
        if not kept.idle:
            kept.close()
            self._counters.add({"reconnects": 1})
            return False
        return True

    def give(self, connection: Connection | None) -> None:
        """Return a place, and the connection where there is one that can go on."""
        with self._changed:
            self._places += 1
            if connection is not None and connection.usable and not self._closed:
                self._idle.append(connection)
            elif connection is not None:
                connection.close()
            self._changed.notify()

    def each(self, use: Callable[[Connection], None], threads: Executor, deadline: float) -> None:
        """Use each connection for which there is a place, those that are not open yet too, one in this thread.

        Each goes back as soon as it was used: one that hangs keeps no other from its work. Raises what `use` raises.
        """
        if not self.reserve(deadline):
            raise DeadlineExceeded("every connection was at work until the deadline")
        places = 1
        while places < self._most and self.reserve(None):
            places += 1
        with self._changed:
            kept = [self._idle.pop() if self._idle else None for _ in range(places)]
        begun = [handed_over(threads, partial(self._used, one, use, deadline)) for one in kept[1:]]
        for one, future in zip(kept[1:], begun, strict=True):
            if future is None:
                self.give(one)
        try:
            self._used(kept[0], use, deadline)
        finally:
            wait([future for future in begun if future is not None])
        for future in begun:
            if future is not None:
                future.result()

    def _used(self, kept: Connection | None, use: Callable[[Connection], None], deadline: float) -> None:
        connection = kept
        try:
            if connection is None or not self._alive(connection):
                connection = None
                connection = self._connect(deadline)
            use(connection)
        finally:
            self.give(connection)

    def close(self) -> None:
        """Close what is idle now, and the rest when it comes back."""
        with self._changed:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            self._changed.notify_all()

    def _connect(self, deadline: float) -> Connection:
        """Of a store with several addresses, each gets its turn, and the next one where one fails."""
        for attempt in itertools.count(1):
            try:
                made = self._dial(deadline)
            except StoreUnavailable:
                if attempt == self._tries:
                    raise
            else:
                self._counters.add({"connects": 1})
                return made
        raise AssertionError("unreachable")

    def _dial(self, deadline: float) -> Connection:
        with self._changed:
            address = next(self._addresses)
        limit = min(deadline, time.monotonic() + self._connect_timeout)
        try:
            return self._open(address, limit)
        except DeadlineExceeded as slow:
            left(deadline)  # the caller's own deadline stays one
            raise StoreUnavailable(f"{address}: no session within {self._connect_timeout} s") from slow
