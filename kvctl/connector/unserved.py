"""Which scopes a store refuses, and until when it is not asked for them: it has no part in their placement meanwhile.

A store refuses a scope when its tenant is suspended there, as where the tenant's policy does not allow the store's
country. Asked all the same, it would make every chunk that it owns a miss.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from kvctl.connector.wire import Refusal
from kvctl.types.chunks import Scope

REFUSALS = {Refusal.REVOKED, Refusal.BAD_CAPABILITY}  # of a scope; the others are of the store, or of one request
FIRST = 5.0  # seconds until it is asked again; doubles up to
LONGEST = 300.0
AHEAD = 3.0  # seconds before that time at which asking again is due, so that no request is the one that asks


@dataclass(frozen=True, slots=True)
class Refused:
    until: float
    times: int  # in a row


class Unserved:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._scopes: dict[Scope, Refused] = {}

    def refused(self, scope: Scope) -> None:
        with self._lock:
            before = self._scopes.get(scope)
            now = self._clock()
            if before is not None and now < before.until - AHEAD:
                return  # asked before that became known
            times = before.times + 1 if before else 1
            self._scopes[scope] = Refused(now + min(FIRST * 2.0 ** min(times - 1, 16), LONGEST), times)

    def served(self, scope: Scope) -> None:
        if scope in self._scopes:
            with self._lock:
                self._scopes.pop(scope, None)

    def __contains__(self, scope: Scope) -> bool:
        """Whether the store is left out of the scope's placement now."""
        found = self._scopes.get(scope)
        return found is not None and self._clock() < found.until

    def due(self, scope: Scope) -> bool:
        """Whether a scope that was refused is to be asked for again, by somebody who has no request to lose."""
        found = self._scopes.get(scope)
        return found is not None and self._clock() >= found.until - AHEAD

    def __len__(self) -> int:
        return len(self._scopes)
