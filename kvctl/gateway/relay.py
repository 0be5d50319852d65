"""An engine's answer on its way to the client: a stream event by event, anything else as a whole."""

import aiohttp
import msgspec
from aiohttp import web

from kvctl.gateway.answers import Refused, event
from kvctl.gateway.config import Limits
from kvctl.gateway.flight import Flight
from kvctl.gateway.job import Job
from kvctl.gateway.outlet import Outlet
from kvctl.gateway.sse import Events, TooLong
from kvctl.gateway.tally import Tally
from kvctl.gateway.usage import Meter, whole

STREAM = "text/event-stream"
NOT_BACK = ("kv_transfer_params", "ec_transfer_params")  # between engines
TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])


class EngineBroke(Exception):
    """The engine stopped in the middle of its answer."""


def headers(flight: Flight, kind: str) -> dict[str, str]:
    """Of every answer; both families' clients find the request's id."""
    return {"Content-Type": kind, "X-Request-Id": flight.id, "Request-Id": flight.id, "Cache-Control": "no-store"}


async def relay(
    request: web.BaseRequest, flight: Flight, job: Job, upstream: aiohttp.ClientResponse, tally: Tally, limits: Limits
) -> web.StreamResponse:
    """ClientGone; Refused with 502 when the engine's answer is none. A stream that breaks ends with an error event."""
    if upstream.status == 200 and upstream.content_type == STREAM:
        return await _stream(request, flight, job, upstream, tally, limits)
    return await _whole(flight, job, upstream, tally, limits)


async def _whole(
    flight: Flight, job: Job, upstream: aiohttp.ClientResponse, tally: Tally, limits: Limits
) -> web.StreamResponse:
    try:
        data = await _read(upstream, limits.event)
    except (aiohttp.ClientError, TimeoutError) as bad:
        raise Refused(502, "KV-GATE-044", "engine_broke", "the engine stopped in its answer") from bad
    if upstream.status == 200 and job.route.computes:
        tally.record(flight, whole(job.api, data), 200)
        tally.first_byte(flight)
        data = without_params(data)
    more = {"Retry-After": after} if (after := upstream.headers.get("Retry-After")) else {}
    kind = upstream.headers.get("Content-Type", "application/json")
    return web.Response(status=upstream.status, body=data, headers=headers(flight, kind) | more)


async def _read(upstream: aiohttp.ClientResponse, most: int) -> bytes:
    parts, size = [], 0
    async for part in upstream.content.iter_any():
        size += len(part)
        if size > most:
            raise Refused(502, "KV-GATE-045", "answer_too_large", f"the engine's answer has more than {most} bytes")
        parts.append(part)
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
    request: web.BaseRequest, flight: Flight, job: Job, upstream: aiohttp.ClientResponse, tally: Tally, limits: Limits
) -> web.StreamResponse:
    flight.meter = Meter(job.api)
    events = Events(flight.meter, limits.event, hide=job.hide, plain=job.plain)
    more = {"X-Accel-Buffering": "no"}
    response = web.StreamResponse(headers=headers(flight, STREAM + "; charset=utf-8") | more)
    outlet = flight.outlet = Outlet(request, response, limits.stall_seconds)
    try:
        await outlet.open()
        await _pump(flight, upstream, events, outlet, tally, limits)
    except EngineBroke as broke:
        tally.record_partial(flight, "engine")
        refused = Refused(502, "KV-GATE-044", "engine_broke", f"the engine stopped in its answer: {broke}")
        tally.refused(refused)
        await outlet.send(event(refused, job.route.family, flight.id))
    else:
        tally.record(flight, flight.meter.used, 200)
    return response


async def _pump(
    flight: Flight,
    upstream: aiohttp.ClientResponse,
    events: Events,
    outlet: Outlet,
    tally: Tally,
    limits: Limits,
) -> None:
    """Until the engine's end. Reading waits for writing: what an engine is ahead of its client stays at the engine."""
    meter = flight.meter
    assert meter is not None
    first = True
    while data := await _next(upstream):
        try:
            out = events.feed(data)
        except TooLong:
            raise EngineBroke(f"an event of more than {int(limits.event)} bytes") from None
        if first and meter.deltas:
            first = False
            tally.first_byte(flight)
        if meter.final:  # on record before the client sees the end
            tally.record(flight, meter.used, 200)
        if out:
            await outlet.send(out)
    if rest := events.close():
        await outlet.send(rest)


async def _next(upstream: aiohttp.ClientResponse) -> bytes:
    """What is there, at most the connection's buffer; empty at the end."""
    try:
        return await upstream.content.readany()
    except (aiohttp.ClientError, TimeoutError, OSError) as bad:
        raise EngineBroke(type(bad).__name__) from bad
