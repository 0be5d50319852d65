"""The control log for verbs that work on the fleet in this process: over whichever carrier leads to the controller."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kvctl.types.errors import KvctlError, LockedError
from kvctl.types.requests import EventRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kvctl.client.controller import ControllerClient

PATIENCE = 10.0  # seconds: another command has the books for a moment, a kvctld that starts until it listens
PAUSE = 0.05


class Recorder:
    """Asks for the controller again for each event: a kvctld may come and go meanwhile.

    `unrecorded` hears of an event that happened and could not be recorded. `site`: None when nobody said whose it is.
    """

    def __init__(
        self, find: Callable[[], ControllerClient], site: str | None, unrecorded: Callable[[str, KvctlError], None]
    ) -> None:
        self._find, self._site, self._unrecorded = find, site, unrecorded

    def record(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> None:
        """Durable when it returns. Raises what the controller, or the way to it, raises."""
        request = EventRecord(kind, dict(data), outcome=outcome, site=self._site)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._find().call("event.record", request)
                return
            except LockedError:
                if time.monotonic() > end:
                    raise
            time.sleep(PAUSE)

    def note(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> bool:
        """The same of what has happened already: False when it could not be recorded, and `unrecorded` knows."""
        try:
            self.record(kind, data, outcome)
        except KvctlError as error:
            self._unrecorded(kind, error)
            return False
        return True
