"""The clients' connections: how many, and whether each takes what it was sent."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

LOOKS = 10  # at a connection, at least, before it has taken nothing for too long
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(eq=False, slots=True)
class Line:
    """One connection."""

    transport: asyncio.Transport
    waiting: int = 0  # bytes that its client had to take at the last look
    idle: float = 0.0  # seconds of looks since the client was seen to take something, or had nothing to take

    @property
    def size(self) -> int:
        """Bytes that it has to take."""
        beneath = getattr(getattr(self.transport, "_ssl_protocol", None), "_transport", None)  # TLS does not count it
        return self.transport.get_write_buffer_size() + (beneath.get_write_buffer_size() if beneath else 0)


class Door(web.Server):
    """An HTTP server that has room for so many connections: one more is closed as it comes.

    A client that takes nothing of what it was sent for `stall` seconds is left, whatever it was sent.
    """

    def __init__(self, handler: Handler, most: int, stall: float, **how: Any) -> None:
        super().__init__(handler, **how)
        self._most = most
        self._stall = stall
        self._every = min(1.0, stall / LOOKS)
        self._lines: dict[web.RequestHandler, Line] = {}
        self._nobody = asyncio.Event()
        self._nobody.set()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > self._most:
            transport.abort()
        self._lines[handler] = Line(transport)
        self._nobody.clear()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        del self._lines[handler]
        if not self._lines:
            self._nobody.set()

    async def watch(self) -> None:
        """For ever: leave clients that take nothing."""
        while True:
            await asyncio.sleep(self._every)
            self._look()

    def _look(self) -> None:
        """Looks are counted, not the time: while this loop had no turn, no client was served."""
        for line in self._lines.values():
            size = line.size
            line.idle = 0.0 if not size or size < line.waiting else line.idle + self._every
            if line.idle >= self._stall:
                line.transport.abort()
            line.waiting = size

    async def shut(self, seconds: float) -> None:
        """Let clients take what they were sent, for so long; then end what is left."""
        self.pre_shutdown()
        try:
            async with asyncio.timeout(seconds):
                await self.shutdown(seconds)
                await self._nobody.wait()
        except TimeoutError:
            for line in self._lines.values():
                line.transport.abort()
            await self._nobody.wait()
