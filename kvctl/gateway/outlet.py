"""Where a stream goes: the client's connection, written to as fast as the client reads and no faster."""

import asyncio
from dataclasses import dataclass

from aiohttp import HttpVersion11, web

SMALL = 32 << 10  # bytes that an empty connection takes without anybody having to wait: half of asyncio's high water


class ClientGone(Exception):
    """The client takes no more."""


@dataclass(slots=True)
class Outlet:
    request: web.BaseRequest
    response: web.StreamResponse
    stall_seconds: float
    _chunked: bool = False
    _begun: bool = False  # the head is sent

    async def open(self) -> None:
        """Send the head, with the first event or before it. ClientGone."""
        if self.request.version >= HttpVersion11:
            self.response.enable_chunked_encoding()
            self._chunked = True
        try:
            await self.response.prepare(self.request)
        except ConnectionError as bad:
            raise ClientGone(type(bad).__name__) from bad

    def send_now(self, data: bytes) -> bool:
        """Write what the connection takes at once, as one chunk; whether it was written. ClientGone.

        A timer, a task's turn and a copy for each event would cost more than the event.
        """
        transport = self.request.transport
        if transport is None or transport.is_closing():
            raise ClientGone("closed")
        if not self._begun or not self._chunked or len(data) > SMALL or transport.get_write_buffer_size():
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    async def send(self, data: bytes) -> None:
        """ClientGone when the connection is, or when the client has taken nothing for `stall_seconds`."""
        if self.send_now(data):
            return
        try:
            async with asyncio.timeout(self.stall_seconds):
                await self.response.write(data)
        except (ConnectionError, TimeoutError) as bad:
            raise ClientGone(type(bad).__name__) from bad
        self._begun = True
