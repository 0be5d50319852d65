"""One request to an engine, over a connection of its own: HTTP/1.1 (RFC 9112), as much of it as an engine speaks.

An engine answers all its streams in the same moment, a token each. So each event goes to its client within the callback
that it came in: a task's turn and a timer for each would make the last of 200 streams wait for all those before it.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

MAX_HEAD = 64 << 10  # bytes
MAX_LINE = 1 << 10  # bytes of a chunk's size, or of a trailer
NEXT_ADDRESS = 0.25  # seconds until a name's next address is tried beside the one before (RFC 8305)
AHEAD = 64 << 10  # bytes of a body that are taken before somebody listens to it
STATUS = re.compile(r"HTTP/1\.[01] (\d{3})(?: |$)")
SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")
Sink = Callable[[bytes], bool]  # takes a part of the body; whether it may have the next at once
Drain = Callable[[], Awaitable[None]]  # to be awaited before the next, when it may not


class Unreachable(Exception):
    """No connection: nothing was sent."""


class EngineBroke(Exception):
    """The engine ended the connection, or said what is no HTTP, before the end of its answer."""


@dataclass(frozen=True, slots=True)
class Address:
    """A unix socket's path, or host and port with TLS."""

    path: str | None = None
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None

    @property
    def authority(self) -> str:
        """What stands in Host (RFC 9110, 7.2)."""
        name = f"[{self.host}]" if ":" in self.host else self.host or "engine"
        return name if self.port in (0, 443) else f"{name}:{self.port}"


class Chunks:
    """Takes the transfer coding `chunked` off a body, however it is cut. `done`: the last chunk was there."""

    def __init__(self) -> None:
        self.done = False
        self._left = 0  # bytes of the chunk that are still to come
        self._behind = False  # a chunk is over, but for its line's end
        self._last = False
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What it holds of the body. ValueError for what is no chunk."""
        data, at, parts = self._rest + data if self._rest else data, 0, []
        self._rest = b""
        while at < len(data) and not self.done:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                self._behind = not self._left
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._rest = data[at:]
                if len(self._rest) > MAX_LINE:
                    raise ValueError("a line without end")
                break
            self._line(data[at:end])
            at = end + 2
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _line(self, line: bytes) -> None:
        if self._behind:
            if line:
                raise ValueError("a chunk is longer than it said")
            self._behind = False
        elif self._last:
            self.done = not line
        elif SIZE.fullmatch(size := line.partition(b";")[0].strip()):
            self._left = int(size, 16)
            self._last = not self._left
        else:
            raise ValueError("no size of a chunk")


class Length:
    """A body of so many bytes; None: up to the connection's end."""

    def __init__(self, size: int | None) -> None:
        self._left = size
        self.done = size == 0

    def feed(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        data = data[: self._left]
        self._left -= len(data)
        self.done = not self._left
        return data


def looked_at(head: "asyncio.Future[None]") -> None:
    """Whoever asked may have left before there was an answer: that is nothing for asyncio to complain about."""
    if not head.cancelled():
        head.exception()


class Upstream(asyncio.Protocol):
    """An answer. `status` and `headers` (names in small letters) are there once `head` is."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.head: asyncio.Future[None] = self._loop.create_future()
        self.head.add_done_callback(looked_at)
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._transport: asyncio.Transport | None = None
        self._body: Chunks | Length | None = None
        self._raw = b""  # of the head
        self._held: list[bytes] = []  # of the body, not given on yet
        self._sink: Sink | None = None
        self._turn: asyncio.Future[None] | None = None  # of the task that delivers, while it waits
        self._stopped = False  # the sink may not have the next at once
        self._ended = False
        self._bad: Exception | None = None
        self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def deliver(self, sink: Sink, drain: Drain, silence: float) -> None:
        """Give the body to `sink` as it comes, to its end. What `sink` or `drain` raises goes on from here.

        EngineBroke when the engine stops before the end, or says nothing for `silence` seconds.
        """
        self._heard = self._loop.time()
        self._look(silence)
        self._sink = sink
        try:
            await self._all(drain)
        finally:
            self._sink = None
            if self._timer is not None:
                self._timer.cancel()

    def _look(self, silence: float) -> None:
        """One timer for all of an answer: one for each event would cost more than the event."""
        left = silence if self._stopped else self._heard + silence - self._loop.time()
        if left <= 0:
            self._fail(EngineBroke(f"nothing for {silence:g} s"))
        else:
            self._timer = self._loop.call_later(left, self._look, silence)

    async def _all(self, drain: Drain) -> None:
        while True:
            self._give()
            if self._stopped:
                await drain()
                self._stopped = False
                self._heard = self._loop.time()
            elif self._bad is not None:
                raise self._bad
            elif self._ended:
                return
            else:
                self._resume()
                self._turn = self._loop.create_future()
                try:
                    await self._turn
                finally:
                    self._turn = None

    def _give(self) -> None:
        """Hand on what is held, until the sink wants a pause."""
        held, self._held = self._held, []
        assert self._sink is not None
        if held and not self._sink(b"".join(held)):
            self._stopped = True

    def close(self) -> None:
        """An engine that is not at its end stops computing."""
        self._sink = None
        if self._transport is not None:
            self._transport.abort()

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._ended or self._bad is not None:
            return
        try:
            body = self._body
            if body is None:
                self._take_head(data)
            else:
                self._take(body.feed(data))
        except ValueError as bad:
            self._fail(EngineBroke(f"its answer is no HTTP: {bad}"))
        except Exception as bad:  # noqa: BLE001  the sink's: it belongs to the task that delivers
            self._fail(bad)

    def _take(self, part: bytes) -> None:
        assert self._body is not None
        self._ended = self._body.done
        if part and self._sink is not None and not self._stopped and not self._held:
            if not self._sink(part):
                self._stopped = True
        elif part:
            self._held.append(part)
        if self._stopped or (self._sink is None and sum(map(len, self._held)) > AHEAD):
            self._pause()
        if self._stopped or self._ended:
            self._wake()

    def _take_head(self, data: bytes) -> None:
        self._raw += data
        while self._body is None and (end := self._raw.find(b"\r\n\r\n")) >= 0:
            text, self._raw = self._raw[:end].decode("latin-1"), self._raw[end + 4 :]
            self._read_head(text)
        if self._body is None:
            if len(self._raw) > MAX_HEAD:
                raise ValueError(f"a head of more than {MAX_HEAD} bytes")
            return
        if not self.head.done():
            self.head.set_result(None)
        rest, self._raw = self._raw, b""
        self._take(self._body.feed(rest))

    def _read_head(self, text: str) -> None:
        first, *lines = text.split("\r\n")
        found = STATUS.match(first)
        if found is None:
            raise ValueError("no status")
        self.status = int(found[1])
        if self.status < 200:
            return  # another head follows
        named = [line.partition(":") for line in lines]
        self.headers = {name.strip().lower(): value.strip() for name, _, value in named}
        self._body = self._framing()

    def _framing(self) -> Chunks | Length:
        if self.status in (204, 304):
            return Length(0)
        coding = self.headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked":
                raise ValueError("a transfer coding that was not asked for")
            return Chunks()
        length = self.headers.get("content-length")
        if length is not None and not (length.isascii() and length.isdigit()):
            raise ValueError("no length")
        return Length(None if length is None else int(length))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._ended or self._bad is not None:
            return
        if exc is None and isinstance(self._body, Length) and self.headers.get("content-length") is None:
            self._ended = True
            self._wake()
        else:
            self._fail(EngineBroke("the connection ended"))

    def _fail(self, bad: Exception) -> None:
        if self._bad is None:
            self._bad = bad
        if not self.head.done():
            self.head.set_exception(self._bad)
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _wake(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def _pause(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()


@asynccontextmanager
async def post(
    address: Address, path: str, headers: Mapping[str, str], data: bytes, *, connect: float, silence: float
) -> AsyncIterator[Upstream]:
    """An answer whose head is there; leaving it before its end cancels it. Times in seconds.

    Unreachable when there is no connection within `connect`, TimeoutError when the answer does not begin within
    `silence`, EngineBroke when it ends before that.
    """
    upstream = await _connect(address, connect)
    try:
        lines = [f"POST {path} HTTP/1.1", f"Host: {address.authority}", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        upstream.send("\r\n".join([*lines, "Accept: */*", "Connection: close", "", ""]).encode() + data)
        del data  # an answer may take long, and a body be large
        async with asyncio.timeout(silence):
            await upstream.head
        yield upstream
    finally:
        upstream.close()


async def _connect(address: Address, seconds: float) -> Upstream:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            if address.path is not None:
                transport, upstream = await loop.create_unix_connection(Upstream, address.path)
                # asyncio takes EAGAIN, with which a full queue refuses, for a connection that is about to be.
                if transport.get_extra_info("peername") is None:
                    transport.abort()
                    raise ConnectionRefusedError("it takes no more connections")
            else:
                _, upstream = await loop.create_connection(
                    Upstream, address.host, address.port, ssl=address.tls, happy_eyeballs_delay=NEXT_ADDRESS
                )
    except (OSError, TimeoutError) as bad:
        raise Unreachable(f"{type(bad).__name__}: {bad}") from bad
    return upstream
