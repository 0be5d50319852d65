"""Whether the endpoint answers: after failures in a row the tier stops asking; a probe finds out when it is back."""

import logging
from threading import Event, Lock

log = logging.getLogger(__name__)

FAILURES = 3  # in a row, of requests that the endpoint did not serve


class Health:
    """State of a bucket: ok, read-only or failed, and why."""

    def __init__(self, name: str) -> None:
        self.state = "ok"
        self.why = ""
        self.read_errors = 0
        self.write_errors = 0
        self._name = name
        self._in_a_row = 0
        self.trouble = Event()  # something is to be looked at
        self._lock = Lock()

    @property
    def readable(self) -> bool:
        return self.state != "failed"

    @property
    def writable(self) -> bool:
        return self.state == "ok"

    def served(self) -> None:
        """A request was answered. The state is left to the probe, which also writes."""
        self._in_a_row = 0

    def read_failed(self, why: str) -> None:
        with self._lock:
            self.read_errors += 1
            self._count(why)

    def write_failed(self, why: str) -> None:
        with self._lock:
            self.write_errors += 1
            self._count(why)

    def _count(self, why: str) -> None:
        self._in_a_row += 1
        if self._in_a_row >= FAILURES and self.state == "ok":
            self._enter("failed", why)

    def enter(self, state: str, why: str = "") -> None:
        """What a probe found."""
        with self._lock:
            self._in_a_row = 0
            self._enter(state, why)

    def _enter(self, state: str, why: str) -> None:
        if state != self.state:
            level = logging.WARNING if state == "ok" else logging.ERROR
            log.log(level, "bucket %s is %s%s", self._name, state, f": {why}" if why else "")
        before, self.state, self.why = self.state, state, why
        if state != "ok" and state != before:
            self.trouble.set()
