"""Whether a mount can be written and read, and when to try again."""

import errno
import logging
from collections.abc import Callable
from threading import Lock

log = logging.getLogger(__name__)

RETRY = {"full": 1.0, "read-only": 5.0, "failed": 30.0}  # seconds until one request may try again
STATES = {errno.ENOSPC: "full", errno.EDQUOT: "full", errno.EROFS: "read-only"}
OURS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # the process is short of something: no word about the medium
READ_ERRORS = 3  # in a row, until the mount counts as failed


class Health:
    """State of a mount: ok, full, read-only or failed. `clock` is monotonic, seconds."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self.state = "ok"
        self.why = ""
        self.read_errors = 0
        self.write_errors = 0
        self._name = name
        self._clock = clock
        self._lock = Lock()
        self._in_a_row = 0
        self._retry_at = 0.0

    @property
    def readable(self) -> bool:
        """False while the mount's reads fail: its chunks answer as absent."""
        return self._in_a_row < READ_ERRORS or self._clock() >= self._retry_at

    @property
    def writable(self) -> bool:
        return self.state == "ok" or self._clock() >= self._retry_at

    def write_failed(self, failure: OSError) -> None:
        with self._lock:
            self.write_errors += 1
            if failure.errno in OURS:
                log.warning("mount %s was not written: %s", self._name, failure)
                return
            self._enter(STATES.get(failure.errno or 0, "failed"), failure)

    def read_failed(self, failure: OSError) -> None:
        with self._lock:
            self.read_errors += 1
            if failure.errno in OURS:
                log.warning("mount %s was not read: %s", self._name, failure)
                return
            self._in_a_row += 1
            if self._in_a_row >= READ_ERRORS:
                self._enter("failed", failure)

    def wrote(self) -> None:
        """A write reached the medium: full and read-only are over; so is failed, unless reads fail still."""
        if self.state != "ok" and self._in_a_row < READ_ERRORS:
            self._recover()

    def read(self) -> None:
        if self._in_a_row:
            failed = self._in_a_row >= READ_ERRORS
            self._in_a_row = 0
            if failed:
                self._recover()

    def _enter(self, state: str, failure: OSError) -> None:
        before, self.state = self.state, state
        self.why = failure.strerror or str(failure)
        self._retry_at = self._clock() + RETRY[state]
        if state != before:
            log.error("mount %s is %s: %s", self._name, state, failure)

    def _recover(self) -> None:
        with self._lock:
            log.warning("mount %s works again; it was %s: %s", self._name, self.state, self.why)
            self.state, self.why = "ok", ""
