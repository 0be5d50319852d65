"""Where a stream goes: the client's connection, written to as fast as the client reads and no faster."""

import asyncio
from dataclasses import dataclass

from aiohttp import web

SMALL = 32 << 10  # bytes that an empty connection takes without anybody having to wait: half of asyncio's high water


class ClientGone(Exception):
    """The client takes no more."""


@dataclass(frozen=True, slots=True)
class Outlet:
    request: web.BaseRequest
    response: web.StreamResponse
    stall_seconds: float

    async def open(self) -> None:
        """Send the head. ClientGone."""
        try:
            await self.response.prepare(self.request)
        except ConnectionError as bad:
            raise ClientGone(type(bad).__name__) from bad

    async def send(self, data: bytes) -> None:
        """ClientGone when the connection is, or when the client has taken nothing for `stall_seconds`."""
        transport = self.request.transport
        if transport is None or transport.is_closing():
            raise ClientGone("closed")
        try:
            if len(data) <= SMALL and not transport.get_write_buffer_size():
                await self.response.write(data)  # a timer for each event would cost more than the event
                return
            async with asyncio.timeout(self.stall_seconds):
                await self.response.write(data)
        except (ConnectionError, TimeoutError) as bad:
            raise ClientGone(type(bad).__name__) from bad
