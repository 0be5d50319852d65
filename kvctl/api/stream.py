"""GET /v1/stream: events of the control log as they are recorded (server-sent events, HTML standard 9.2).

An event's id is its index in the log; `Last-Event-ID` goes on behind it. A principal of one tenant sees that tenant's.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from kvctl.api.identity import CALLER, PEER, Caller, Identify, caller_of
from kvctl.controller.books import Books
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event, Recorded
from kvctl.types.operations import READERS
from kvctl.types.principals import Principal, Role

HEARTBEAT = 15.0  # seconds
BATCH = 200
FURTHEST = 10_000  # events that a stream goes back; what is older is a gap that it is told of
MOST = 200  # streams at once
READING = 4  # streams that read the log at once


class Feed:
    """Wakes the streams when something was recorded. `recorded` may be called from any thread."""

    def __init__(self, books: Books, heartbeat: float = HEARTBEAT) -> None:
        self.books = books
        self.heartbeat = heartbeat
        self.stopped = False
        self._streams: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._reading = anyio.CapacityLimiter(READING)
        books.on_commit.append(self.recorded)

    def recorded(self, events: Sequence[Recorded]) -> None:
        for news, loop in list(self._streams.items()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(news.set)

    def stop(self) -> None:
        """End every stream: the controller is going down."""
        self.stopped = True
        self.recorded(())

    async def follow(
        self, start: int, caller: Callable[[], Caller | None], text: Callable[[Recorded], str] | None = None
    ) -> AsyncIterator[str]:
        """Texts of a stream. `caller` is asked again all the time: a session that ended ends its stream."""
        news = asyncio.Event()
        self._streams[news] = asyncio.get_running_loop()
        try:
            yield "retry: 3000\n\n"
            size = self.books.log.size
            if size - start > FURTHEST:
                gap = {"from": start, "to": size - FURTHEST}
                yield f"event: gap\ndata: {json.dumps(gap)}\n\n"
                start = size - FURTHEST
            while not self.stopped:
                news.clear()
                who = await self._still(caller)
                if who is None:
                    return
                found = await self._read(start)
                for event in found:
                    if visible(who, event):
                        yield (text or text_of)(event)
                if found:
                    start = found[-1].index + 1
                elif not await awaited(news, self.heartbeat):
                    yield ": still here\n\n"
        finally:
            del self._streams[news]

    async def _still(self, caller: Callable[[], Caller | None]) -> Principal | None:
        try:
            found = await anyio.to_thread.run_sync(caller, limiter=self._reading)
        except RefusedError:
            return None
        return found.principal if found and found.principal.has(*READERS) else None

    async def _read(self, start: int) -> list[Recorded]:
        def read() -> list[Recorded]:
            return list(self.books.recorded(start, start + BATCH))

        return await anyio.to_thread.run_sync(read, limiter=self._reading)

    @property
    def count(self) -> int:
        return len(self._streams)


async def awaited(news: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(news.wait(), seconds)
    except TimeoutError:
        return False
    return True


def visible(who: Principal, event: Recorded) -> bool:
    return who.tenant is None or event.tenant == who.tenant


def text_of(event: Recorded) -> str:
    document: dict[str, Any] = {
        "index": event.index, "at": event.at, "actor": event.actor, "kind": event.kind, "tenant": event.tenant,
        "outcome": event.outcome, "data": dict(event.data),
    }  # fmt: skip
    return f"id: {event.index}\nevent: {event.kind}\ndata: {json.dumps(document)}\n\n"


def router(feed: Feed, identify: Identify) -> APIRouter:
    made = APIRouter(tags=["stream"])

    async def stream(request: Request) -> StreamingResponse:
        """Events as they are recorded, as text/event-stream."""
        return await followed(feed, identify, request)

    made.add_api_route(
        "/v1/stream", stream, methods=["GET"], response_class=StreamingResponse, operation_id="stream",
        openapi_extra={"x-kvctl-roles": sorted(READERS)},
    )  # fmt: skip
    return made


async def followed(
    feed: Feed, identify: Identify, request: Request, text: Callable[[Recorded], str] | None = None
) -> StreamingResponse:
    """The stream of whoever asks. RefusedError KV-API-001 for who may read nothing, 022 for one too many."""
    caller = caller_of(request.scope)
    if not caller.principal.has(*READERS):
        raise RefusedError("KV-API-001", f"{caller.principal.name} may not follow events")
    if feed.count >= MOST:
        raise RefusedError("KV-API-022", "too many streams are open", fix="close some")
    if caller.principal.has(Role.AUDITOR):
        read = Event("stream.opened", {"address": caller.address}, caller.principal.tenant)
        await anyio.to_thread.run_sync(partial(feed.books.commit, caller.principal, [read]))
    start = first(request.headers.get("last-event-id"), feed.books.log.size)
    again = partial(identify, request.scope.get(PEER), request.headers, touch=False)
    if caller.session is None:
        again = partial(request.scope.get, CALLER)
    return StreamingResponse(feed.follow(start, again, text), media_type="text/event-stream")


def first(last_id: str | None, size: int) -> int:
    """The index to begin at: behind the event that the caller had last, or with what comes next."""
    if last_id is None or last_id == "":
        return size
    if not (last_id.isascii() and last_id.isdigit() and len(last_id) < 19):
        raise UsageError("KV-API-016", "the request is not right", why="Last-Event-ID is the index of an event")
    return min(int(last_id) + 1, size)
