"""The daemon's log: one JSON object a line on stderr, for journald. What peers can cause is limited in its rate."""

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import TextIO

BURST = 10  # lines of one kind of refusal in one window
WINDOW = 10.0  # seconds
KINDS = 1000  # windows kept; beyond it all begin anew
MAX_TEXT = 2000
Value = str | int | float | bool | None


class Log:
    """Every line has time (Unix seconds), level, event and the event's own fields."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.time) -> None:
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}
        self.lost = 0  # lines that stderr did not take; served as a metric

    def info(self, event: str, **fields: Value) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Value) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Value) -> None:
        self._write("error", event, fields)

    def refused(self, event: str, reason: str, **fields: Value) -> None:
        """A warning, at most BURST an event and reason in WINDOW seconds; the next line says how many were left out."""
        self._limited("warning", event, reason, {"reason": reason, **fields})

    def _limited(self, level: str, event: str, reason: str, fields: dict[str, Value]) -> None:
        now = self._clock()
        with self._lock:
            since, count = self._windows.get((event, reason), (now, 0))
            if len(self._windows) > KINDS:
                self._windows.clear()
            fresh = not 0 <= now - since < WINDOW
            left_out = max(0, count - BURST) if fresh else 0
            self._windows[event, reason] = (now, 1) if fresh else (since, count + 1)
            written = fresh or count < BURST
        if written:
            more = {"left_out": left_out} if left_out else {}
            self._write(level, event, {**fields, **more})

    def attach(self, name: str) -> None:
        """Take over what the modules below `name` tell Python's logging."""
        logger = logging.getLogger(name)
        logger.handlers = [_Bridge(self)]
        logger.propagate = False
        logger.setLevel(logging.INFO)

    def _write(self, level: str, event: str, fields: dict[str, Value]) -> None:
        short = {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in fields.items()}
        line = json.dumps({"time": round(self._clock(), 3), "level": level, "event": event, **short})
        try:
            with self._lock:
                self._stream.write(line + "\n")
                self._stream.flush()
        except (OSError, ValueError):  # stderr is full or gone: serving goes on, and the metric tells
            self.lost += 1


class _Bridge(logging.Handler):
    """A library's records as lines of a Log; one message's flood (a drive that fails) is limited like refusals."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Value] = {"from": record.name.rpartition(".")[2], "what": record.getMessage()}
        if record.exc_info:
            fields["trace"] = logging.Formatter().formatException(record.exc_info)[-MAX_TEXT:]
        self._log._limited(record.levelname.lower(), "store", str(record.msg), fields)
