"""Whether a kvctld is there: asked several times a second on a connection that stays open.

Data comes with calls that may take their time; that nobody answers any more must be said at once.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable

EVERY = 0.25  # seconds between two beats
PATIENCE = 0.7  # seconds for one, so that a second after the last answer the silence is known


class Pulse:
    """`connect` makes a connection with a timeout. `changed` is told, in a thread, why nobody answers, and "" when
    somebody does again."""

    def __init__(
        self, connect: Callable[[float], http.client.HTTPConnection], changed: Callable[[str], object]
    ) -> None:
        self._connect, self._changed = connect, changed
        self._over = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._why = ""
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            why = self._beat()
            if why != self._why:
                self._why = why
                self._changed(why)
            self._over.wait(EVERY)
        self._close()

    def _beat(self) -> str:
        try:
            if self._connection is None:
                self._connection = self._connect(PATIENCE)
            self._connection.request("GET", "/healthz")
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException) as error:
            self._close()
            return str(error) or type(error).__name__
        return "" if response.status == http.client.OK else f"it answered {response.status}"

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
