"""Server-sent events on their way through: metered, and rid of usage that only the gateway asked for.

https://html.spec.whatwg.org/multipage/server-sent-events.html; an event ends with an empty line.
"""

import re
from collections.abc import Iterator

import msgspec

from kvctl.gateway.usage import Meter

END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")  # a line's end, and an empty line's
BACK = 2  # bytes at an unfinished event's end that may be the first of END
TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])
USAGE = b'"usage"'
LAST = b',"usage":{'  # within a text, a quotation mark would have a backslash before it


class TooLong(Exception):
    """An event that is longer than what is held of one."""


class Events:
    """Feed it what comes, get what goes on. Holds at most `most` bytes of an event that is not whole yet.

    `hide`: the client did not ask for the usage at the end; `plain`: it did not ask for usage in every chunk.
    """

    def __init__(self, meter: Meter, most: int, *, hide: bool = False, plain: bool = False) -> None:
        self._meter = meter
        self._most = most
        self._hide = hide
        self._plain = plain
        self._rest = bytearray()
        self._seen = 0  # bytes of the rest in which no event ends
        self._half: bytes | None = None  # after a carriage return: what becomes of the line feed that belongs to it

    def feed(self, data: bytes) -> bytes:
        """Whole events that are to be sent on, together. TooLong."""
        out = []
        if self._half is not None and data:
            if data.startswith(b"\n"):
                out.append(self._half)
                data = data[1:]
            self._half = None
        if not out and not self._rest and data.find(b"\n\n") == len(data) - 2 >= 0 and b"\r" not in data:
            return self._event(data)  # the usual case: one, and whole
        self._rest += data
        start = 0
        for match in END.finditer(self._rest, self._seen):
            event = bytes(self._rest[start : match.end()])
            start = match.end()
            out.append(self._event(event))
            if start == len(self._rest) and event.endswith(b"\r"):
                self._half = b"\n" if out[-1] == event else b""
        del self._rest[:start]
        self._seen = max(0, len(self._rest) - BACK)
        if len(self._rest) > self._most:
            raise TooLong
        return b"".join(out)

    def close(self) -> bytes:
        """What came after the last whole event: an engine that ends in the middle of one."""
        rest, self._rest, self._seen = bytes(self._rest), bytearray(), 0
        return rest

    def _event(self, event: bytes) -> bytes:
        data = payload(event)
        if data is None:
            return event
        usage_alone = self._meter.see(data)
        if usage_alone and self._hide:
            return b""
        if self._plain and not usage_alone and USAGE in data:
            return without_usage(event, data)
        return event


def payload(event: bytes) -> bytes | None:
    """The event's data lines, joined; None when it has none (a comment)."""
    if event.startswith(b"data: ") and event.find(b"\n") >= len(event) - 2 and b"\r" not in event:
        return event[6:].rstrip(b"\n")  # the usual case: one line
    lines = list(_data_lines(event))
    return b"\n".join(lines) if lines else None


def _data_lines(event: bytes) -> Iterator[bytes]:
    for line in event.splitlines():
        if line.startswith(b"data:"):
            yield line[5:].removeprefix(b" ")


def without_usage(event: bytes, data: bytes) -> bytes:
    """The event with the same object but for its usage."""
    at = data.rfind(LAST)
    if at > 0 and data.endswith(b"}") and _whole_object(data[at + len(LAST) - 1 : -1]):
        return b"data: " + data[:at] + b"}\n\n"  # it is the last member, as vLLM writes it
    try:
        top = TOP.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return event
    if top.pop("usage", None) is None:
        return event
    return b"data: " + msgspec.json.encode(top) + b"\n\n"


def _whole_object(data: bytes) -> bool:
    """Whether it is one JSON object and nothing else: so the member it belongs to is one of the outermost."""
    try:
        TOP.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
