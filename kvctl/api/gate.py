"""What every request passes first: who it is from, that no other site made a browser send it, its size, its headers.

Default deny: a path that is not public needs a principal before anything looks at it.
"""

import asyncio
import hmac
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvctl.api.identity import CALLER, PEER, Caller, Identify, foreign
from kvctl.api.problems import Instead, answer, fault, nobody
from kvctl.types.errors import KvctlError, RefusedError, UsageError

MAX_BODY = 1 << 20
BODY_SECONDS = 30.0
SAFE = ("GET", "HEAD", "OPTIONS")
TOKEN_HEADER = "x-csrf-token"
TOKEN_FIELD = "csrf"
FORM = "application/x-www-form-urlencoded"
WATCHING = "x-kvctl-watching"  # a page that reads itself again: no use that keeps a session alive
PUBLIC = ("/healthz", "/login", "/join/", "/static/")
HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; font-src 'none'; object-src 'none'; frame-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    "strict-transport-security": "max-age=63072000; includeSubDomains",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Gate:
    """The application behind it sees only requests whose scope has a Caller, except on public paths."""

    def __init__(
        self, app: ASGIApp, identify: Identify, public: Sequence[str] = PUBLIC, instead: Instead | None = None
    ) -> None:
        self._app = app
        self._identify = identify
        self._public = tuple(public)
        self._instead = instead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                add_headers(message)
            await send(message)

        try:
            await self._app(scope, await self._admit(scope, receive), watched)
        except KvctlError as error:
            await self._refuse(scope, receive, watched, error)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            told = fault(error, f"{scope['method']} {scope['path'][:200]}")
            if started:
                raise
            await self._refuse(scope, receive, watched, told)

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        """Give the scope its caller, read the body, and hand back what gives it again."""
        headers = Headers(scope=scope)
        public = is_public(scope["path"], self._public)
        caller: Caller | None = None
        try:
            peer = scope.get(PEER)
            caller = await anyio.to_thread.run_sync(
                partial(self._identify, peer, headers, touch=WATCHING not in headers)
            )
        except RefusedError:
            if not public:
                raise
        if caller is None and not public:
            raise nobody()
        scope[CALLER] = caller
        if scope["method"] in SAFE:
            return receive
        # A client without a browser's habits says where it comes from, too, as soon as a session is at stake.
        check_origin(scope, headers, required=public or (caller is not None and caller.session is not None))
        body = await read_body(headers, receive)
        if caller is not None and caller.session is not None and not public:
            check_token(headers, body, caller.session.csrf)
        return replayed(body, receive)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, error: KvctlError) -> None:
        page = self._instead(scope, error) if self._instead else None
        await (page or answer(error))(scope, receive, send)


def is_public(path: str, public: Sequence[str]) -> bool:
    return any(path == one or (one.endswith("/") and path.startswith(one)) for one in public)


def add_headers(message: Message) -> None:
    message.setdefault("headers", [])
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("cache-control", "no-store")


def check_origin(scope: Scope, headers: Headers, *, required: bool) -> None:
    """RefusedError KV-API-017 when a browser says that another site made this request, or nobody says anything."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site != "same-origin":
        raise foreign(f"Sec-Fetch-Site is {site[:20]!r}")
    if origin is not None and origin != f"{scope['scheme']}://{headers.get('host', '')}":
        raise foreign("Origin is another one")
    if required and site is None and origin is None:
        raise foreign("it has neither Origin nor Sec-Fetch-Site")


def check_token(headers: Headers, body: bytes, expected: str) -> None:
    """The session's own token, in a header or, from a plain form, in a field."""
    given = headers.get(TOKEN_HEADER)
    if given is None and headers.get("content-type", "").split(";")[0].strip() == FORM:
        given = form_of(body).get(TOKEN_FIELD)
    if given is None or not hmac.compare_digest(given.encode(), expected.encode()):
        raise foreign(f"the session's token is missing or another one: header {TOKEN_HEADER}")


def form_of(body: bytes) -> dict[str, str]:
    """UsageError KV-API-016 for what is no form."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise UsageError("KV-API-016", "the request is not right", why="the form cannot be read") from error


async def read_body(headers: Headers, receive: Receive) -> bytes:
    """UsageError KV-API-013 for more than MAX_BODY, 014 for one that does not come."""
    length = headers.get("content-length", "")
    if length.isdigit() and (len(length) > 9 or int(length) > MAX_BODY):
        raise too_long()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError("the caller went away")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MAX_BODY:
                    raise too_long()
    except TimeoutError:
        raise UsageError(
            "KV-API-014", "the request's body did not come", why=f"{BODY_SECONDS:.0f} s are given"
        ) from None
    return bytes(body)


def too_long() -> UsageError:
    return UsageError("KV-API-013", "the request's body is too long", why=f"{MAX_BODY >> 20} MiB are taken")


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever comes after it."""
    waiting: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
