"""An engine's answer on its way to the client: a stream event by event, anything else as a whole."""

from dataclasses import dataclass

import msgspec
from aiohttp import web

from kvctl.gateway.answers import Refused, event, of_engine
from kvctl.gateway.config import Limits
from kvctl.gateway.flight import Flight
from kvctl.gateway.job import Job
from kvctl.gateway.outlet import Outlet
from kvctl.gateway.sse import Events, TooLong
from kvctl.gateway.tally import Tally
from kvctl.gateway.upstream import EngineBroke, Upstream
from kvctl.gateway.usage import Meter, whole

STREAM = "text/event-stream"
NOT_BACK = ("kv_transfer_params", "ec_transfer_params")  # between engines
TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])


def headers(flight: Flight, kind: str) -> dict[str, str]:
    """Of every answer; both families' clients find the request's id."""
    return {"Content-Type": kind, "X-Request-Id": flight.id, "Request-Id": flight.id, "Cache-Control": "no-store"}


async def relay(
    request: web.BaseRequest, flight: Flight, job: Job, upstream: Upstream, tally: Tally, limits: Limits
) -> web.StreamResponse:
    """ClientGone; Refused with 502 for an answer that is too long; EngineBroke when it stops and is no stream.

    A stream that breaks ends with an error event.
    """
    if upstream.status == 200 and upstream.content_type == STREAM:
        return await _stream(request, flight, job, upstream, tally, limits)
    return await _whole(flight, job, upstream, tally, limits)


async def _whole(flight: Flight, job: Job, upstream: Upstream, tally: Tally, limits: Limits) -> web.StreamResponse:
    try:
        data = await _read(upstream, limits)
    except Refused:
        tally.record_partial(flight, "engine")
        raise
    if upstream.status == 200 and job.route.computes:
        tally.record(flight, whole(job.api, data), 200)
        tally.first_byte(flight)
        data = without_params(data)
    if upstream.status >= 400:
        data = of_engine(data, upstream.status, job.route.family, flight.id)
    more = {"Retry-After": after} if (after := upstream.headers.get("retry-after")) else {}
    kind = upstream.headers.get("content-type", "application/json")
    return web.Response(status=upstream.status, body=data, headers=headers(flight, kind) | more)


async def _read(upstream: Upstream, limits: Limits) -> bytes:
    """EngineBroke; Refused with 502 for more than `limits.event`."""
    parts, size, most = [], 0, int(limits.event)

    def take(part: bytes) -> bool:
        nonlocal size
        size += len(part)
        if size > most:
            raise Refused(502, "KV-GATE-045", "answer_too_large", f"the engine's answer has more than {most} bytes")
        parts.append(part)
        return True

    async def drain() -> None:
        """There is always room, up to the limit."""

    await upstream.deliver(take, drain, limits.silence_seconds)
    return b"".join(parts)


def without_params(data: bytes) -> bytes:
    if not any(name.encode() in data for name in NOT_BACK):
        return data
    try:
        top = TOP.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data
    found = [name for name in NOT_BACK if bytes(top.get(name, b"null")) != b"null"]
    for name in found:
        del top[name]
    return msgspec.json.encode(top) if found else data


async def _stream(
    request: web.BaseRequest, flight: Flight, job: Job, upstream: Upstream, tally: Tally, limits: Limits
) -> web.StreamResponse:
    flight.meter = Meter(job.api, job.choices)
    events = Events(flight.meter, limits.event, hide=job.hide, plain=job.plain)
    more = {"X-Accel-Buffering": "no"}
    response = web.StreamResponse(headers=headers(flight, STREAM + "; charset=utf-8") | more)
    outlet = flight.outlet = Outlet(request, response, limits.stall_seconds)
    way = Way(flight, flight.meter, events, outlet, tally)
    try:
        await outlet.open()
        await upstream.deliver(way.take, way.drain, limits.silence_seconds)
        if rest := events.close():
            await outlet.send(rest)
    except (EngineBroke, TooLong) as broke:
        tally.record_partial(flight, "engine")
        why = f"an event of more than {int(limits.event)} bytes" if isinstance(broke, TooLong) else str(broke)
        refused = Refused(502, "KV-GATE-044", "engine_broke", f"the engine stopped in its answer: {why}")
        tally.refused(refused)
        await way.drain()
        await outlet.send(event(refused, job.route.family, flight.id))
    else:
        tally.record(flight, flight.meter.used, 200)
    return response


@dataclass(slots=True)
class Way:
    """From an engine's connection to its client's. What an engine is ahead of its client stays at the engine."""

    flight: Flight
    meter: Meter
    events: Events
    outlet: Outlet
    tally: Tally
    _begun: bool = False
    _waits: bytes = b""  # what the client did not take at once

    def take(self, data: bytes) -> bool:
        """Whether the client has it all. TooLong; ClientGone."""
        out = self.events.feed(data)
        if not self._begun and self.meter.deltas:
            self._begun = True
            self.tally.first_byte(self.flight)
        if self.meter.over:  # on record before the client sees the end
            self.tally.record(self.flight, self.meter.used, 200)
        if not out or self.outlet.send_now(out):
            return True
        self._waits = out
        return False

    async def drain(self) -> None:
        """Wait for the client to take what it has not. ClientGone."""
        out, self._waits = self._waits, b""
        if out:
            await self.outlet.send(out)
