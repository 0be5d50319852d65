"""A request's body, in whole, within the memory and the time that it is given."""

import asyncio
from dataclasses import dataclass

from aiohttp import web

from kvctl.gateway.answers import Refused
from kvctl.gateway.config import Limits


def check_framing(request: web.BaseRequest) -> None:
    """Refused with 400 for what a proxy on the way may have read as another request; the connection ends with it.

    RFC 9112, 6.1 and 6.3: chunked is the only transfer coding here, and HTTP/1.0 has none.
    """
    codings = [text.strip().lower() for text in request.headers.getall("Transfer-Encoding", ())]
    if request.version < (1, 0) or (codings and (codings != ["chunked"] or request.version < (1, 1))):
        raise Refused(400, "KV-GATE-036", "framing", "where this request ends is not certain", close=True)


def only_one(request: web.BaseRequest, name: str) -> str | None:
    """A header of ours. Refused with 400 when it was sent with two values."""
    found = set(request.headers.getall(name, ()))
    if len(found) > 1:
        raise Refused(400, "KV-GATE-036", "framing", f"{name} was sent twice", close=True)
    return found.pop() if found else None


@dataclass
class Held:
    """Bytes of bodies that are here, of all requests together."""

    most: int
    bytes: int = 0

    def take(self, size: int) -> None:
        if self.bytes + size > self.most:
            raise Refused(503, "KV-GATE-034", "memory", "too many requests are here at once", retry_after=2)
        self.bytes += size

    def give(self, size: int) -> None:
        self.bytes -= size


@dataclass
class Intake:
    """One body, counted until `release`."""

    held: Held
    data: bytes = b""
    _counted: int = 0

    async def read(self, request: web.BaseRequest, limits: Limits) -> bytes:
        """Refused with 408, 413, 415 or 503."""
        if any(text.lower() != "identity" for text in request.headers.getall("Content-Encoding", ())):
            raise Refused(415, "KV-GATE-028", "encoding", "a body is sent as it is, without Content-Encoding")
        if (request.content_length or 0) > limits.body:
            raise _too_large(limits)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        seconds = limits.header_seconds + (request.content_length or limits.body) / limits.body_rate
        try:
            async with asyncio.timeout(seconds):
                await self._parts(request, limits)
        except TimeoutError:
            raise Refused(408, "KV-GATE-029", "slow_body", f"the body was not here within {seconds:.0f} s") from None
        return self.data

    async def _parts(self, request: web.BaseRequest, limits: Limits) -> None:
        parts = []
        async for part in request.content.iter_any():
            self.held.take(len(part))
            self._counted += len(part)
            if self._counted > limits.body:
                raise _too_large(limits)
            parts.append(part)
        self.data = b"".join(parts)

    def release(self) -> None:
        self.held.give(self._counted)
        self._counted, self.data = 0, b""


def _too_large(limits: Limits) -> Refused:
    return Refused(413, "KV-GATE-035", "too_large", f"a body has {int(limits.body)} bytes at most")
