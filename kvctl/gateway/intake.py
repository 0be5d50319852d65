"""A request's body, in whole, within the memory and the time that it is given."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from aiohttp import web

from kvctl.gateway.answers import Refused
from kvctl.gateway.config import Classes, Limits
from kvctl.gateway.engines import ORDER
from kvctl.types.snapshot import Sla, TenantView


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


class Held:
    """Bytes of bodies that are here, of all requests together.

    A class and those below it have the same part of them as of an engine's slots, and two bodies at least. Of that a
    tenant may have as many as are left then: one alone half of it, two that send all they can a third each. Choudhury,
    Hahne: Dynamic Queue Length Thresholds (IEEE/ACM Transactions on Networking 1998).
    """

    def __init__(self, limits: Limits, classes: Classes) -> None:
        shares = {"gold": classes.gold_share, "silver": classes.silver_share, "bronze": classes.bronze_share}
        self._parts = {sla: max(2 * limits.body, int(share * limits.held)) for sla, share in shares.items()}
        self._most = limits.held
        self._classes: Counter[Sla] = Counter()
        self._tenants: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        return self._classes.total()

    def take(self, tenant: TenantView, size: int) -> None:
        """Refused with 503 when its class has its part, with 429 when the tenant has."""
        below = sum(self._classes[sla] for sla in ORDER[ORDER.index(tenant.sla) :])
        left = min(self._most - self.bytes, self._parts[tenant.sla] - below) - size
        if left < 0:
            raise Refused(503, "KV-GATE-034", "memory", "too many requests are here at once", retry_after=2)
        if self._tenants[tenant.name] + size > left:
            message = "this tenant's requests have their part of the memory for bodies"
            raise Refused(429, "KV-GATE-039", "tenant_memory", message, retry_after=2)
        self._classes[tenant.sla] += size
        self._tenants[tenant.name] += size

    def give(self, tenant: TenantView, size: int) -> None:
        self._classes[tenant.sla] -= size
        self._tenants[tenant.name] -= size
        if not self._tenants[tenant.name]:
            del self._tenants[tenant.name]


@dataclass
class Intake:
    """One body, counted until `release`."""

    held: Held
    tenant: TenantView
    data: bytes = b""
    _counted: int = 0

    async def read(self, request: web.BaseRequest, limits: Limits) -> bytes:
        """Refused with 408, 413, 415, 429 or 503."""
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
            self.held.take(self.tenant, len(part))
            self._counted += len(part)
            if self._counted > limits.body:
                raise _too_large(limits)
            parts.append(part)
        self.data = b"".join(parts)

    def release(self) -> None:
        self.held.give(self.tenant, self._counted)
        self._counted, self.data = 0, b""


def _too_large(limits: Limits) -> Refused:
    return Refused(413, "KV-GATE-035", "too_large", f"a body has {int(limits.body)} bytes at most")
