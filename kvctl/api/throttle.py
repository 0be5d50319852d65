"""How often somebody may try to sign in: by the name tried and by the address that tries."""

import threading
import time
from collections.abc import Callable

from kvctl.types.errors import RefusedError

WINDOW = 15 * 60.0  # seconds
BY_NAME = 10  # attempts that failed, in one window
BY_ADDRESS = 30
MOST = 10_000  # names and addresses remembered; the oldest are forgotten


class Throttle:
    """An attempt counts before it is judged, so that many at once are not free; one that succeeds is taken back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tries: dict[str, list[float]] = {}

    def enter(self, name: str, address: str) -> None:
        """RefusedError KV-API-019 when there were too many."""
        now = self._clock()
        with self._lock:
            for key, most in ((f"name:{name}", BY_NAME), (f"address:{address}", BY_ADDRESS)):
                tries = [at for at in self._tries.pop(key, []) if now - at < WINDOW]
                self._tries[key] = tries  # last in the dictionary: the newest
                if len(tries) >= most:
                    raise _too_many(WINDOW - (now - tries[0]))
            for key in (f"name:{name}", f"address:{address}"):
                self._tries[key].append(now)
            while len(self._tries) > MOST:
                del self._tries[next(iter(self._tries))]

    def succeeded(self, name: str, address: str) -> None:
        with self._lock:
            self._tries.pop(f"name:{name}", None)
            tries = self._tries.get(f"address:{address}")
            if tries:
                tries.pop()


def _too_many(wait: float) -> RefusedError:
    return RefusedError(
        "KV-API-019", "too many attempts to sign in", why=f"more are taken in {max(1, round(wait))} s",
        fix="wait; an administrator sees the attempts in the audit log",
    )  # fmt: skip
