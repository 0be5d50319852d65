"""Signing in and out, proving a password once more, and setting the first one from a one-time link."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from kvctl.api.gate import FORM, form_of
from kvctl.api.identity import COOKIE, PEER, Accounts, Caller, Identify, caller_of, cookie_of
from kvctl.api.sessions import ABSOLUTE, IDLE, Session
from kvctl.api.throttle import Throttle
from kvctl.controller.core import Controller
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.operations import TABLE
from kvctl.types.principals import Kind, Principal, Role

T = TypeVar("T")
HASHING = 2  # passwords looked at at once: each takes tens of MiB and of milliseconds
MAX_TEXT = 1024
NAMED = "kvctl.named"  # in a request's scope: who wanted to sign in, for the form that is shown again
CONFIRMING = "kvctl.confirming"  # in a request's scope: it is about a session that is open, but not from it
NOBODY = Principal("nobody", frozenset(), kind=Kind.SERVICE)


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""
    password: str = ""
    code: str = ""  # of an authenticator app, for accounts that have one

    def __repr__(self) -> str:
        return f"Credentials({self.name!r}, ...)"


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    account: str


class Door:
    """What the routes below share."""

    def __init__(self, controller: Controller, identify: Identify, throttle: Throttle) -> None:
        self._controller = controller
        self._identify = identify
        self._throttle = throttle
        self._hashing = anyio.CapacityLimiter(HASHING)

    @property
    def _accounts(self) -> Accounts:
        if self._identify.accounts is None:
            raise UsageError("KV-API-020", "there are no local accounts here", fix="use the controller's socket")
        return self._identify.accounts

    async def sign_in(self, request: Request) -> Response:
        asked, form = await read(request, Credentials)
        request.scope[NAMED] = asked.name
        address = address_of(request)
        principal = await self._prove(asked.name, asked.password, address, "sign-in", asked.code)
        old = cookie_of(request.headers)
        before = self._identify.sessions.find(old, touch=False) if old else None
        token, session = await self.open(principal, address, before)
        answer: Response = (
            RedirectResponse("/", 303) if form else JSONResponse(about(Caller(principal, session, address)))
        )
        give(answer, token)
        return answer

    async def open(
        self, principal: Principal, address: str, before: Session | None, *,
        identity: tuple[str, str] | None = None, age: float = 0.0,
    ) -> tuple[str, Session]:  # fmt: skip
        """A session that is on record, in the place of the one that the browser had."""
        token, session = self._identify.sessions.open(account_of(principal), address, identity=identity, age=age)
        data = {"session": session.id, "address": address} | ({"method": "oidc"} if identity else {})
        try:
            await self.record(principal, "session.opened", data)
        except BaseException:
            self._identify.sessions.close(session)
            raise
        if before is not None:
            self._identify.sessions.close(before)
        return token, session

    async def confirm(self, request: Request) -> Response:
        session, principal = session_of(request)
        asked, form = await read(request, Credentials)
        await self.prove_again(session, principal, asked.password, address_of(request), asked.code)
        return Response(status_code=204) if form else JSONResponse({"schema": "kvctl.session.confirm/1", "fresh": True})

    async def prove_again(
        self, session: Session, principal: Principal, password: str, address: str, code: str = ""
    ) -> None:
        """Make a session fresh. RefusedError as `_prove` raises it, UsageError KV-API-089 when no password does."""
        if session.identity is not None:
            raise UsageError(
                "KV-API-089", "this session was opened at the OpenID provider", why="no password confirms it",
                fix="open /session/oidc in the browser that has it",
            )  # fmt: skip
        await self._prove(session.account, password, address, "step-up", code)
        self._identify.sessions.confirm(session)
        await self.record(principal, "session.confirmed", {"session": session.id})

    async def sign_out(self, request: Request) -> Response:
        session, principal = session_of(request)
        self._identify.sessions.close(session)
        await self.record(principal, "session.closed", {"session": session.id, "account": session.account})
        _, form = await read(request, Credentials)
        answer: Response = (
            RedirectResponse("/login", 303) if form else JSONResponse({"schema": "kvctl.session.close/1"})
        )
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    async def end_sessions(self, request: Request) -> Response:
        """End every session of an account: one's own, or any for an administrator of accounts."""
        caller = caller_of(request.scope)
        asked, form = await read(request, Named)
        own = caller.session is not None and caller.session.account == asked.account
        if not own and not caller.principal.has(Role.ADMIN):
            raise RefusedError("KV-API-001", f"{caller.principal.name} may not end those sessions")
        ended = self._identify.sessions.close_account(asked.account)
        await self.record(caller.principal, "session.ended", {"account": asked.account, "sessions": ended})
        if form:
            return RedirectResponse("/access", 303)
        return JSONResponse({"schema": "kvctl.session.end/1", "account": asked.account, "sessions": ended})

    async def join(self, token: str, request: Request) -> Response:
        asked, form = await read(request, Credentials)
        address = address_of(request)
        self._throttle.enter(f"join from {address}", address)
        name = await self._work(partial(self._accounts.redeem, token, asked.password))
        self._throttle.succeeded(f"join from {address}", address)
        self._identify.sessions.close_account(name)  # of whoever knew the password before
        return RedirectResponse("/login", 303) if form else JSONResponse({"schema": "kvctl.join/1", "account": name})

    async def _prove(self, name: str, password: str, address: str, purpose: str, code: str) -> Principal:
        """Who gave the right password. RefusedError KV-API-019, or what the accounts raise."""
        tried = f"sign-in as {name}"  # apart from those of links, whatever the name is
        self._throttle.enter(tried, address)
        try:
            principal = await self._work(partial(self._accounts.authenticate, name, password, code))
        except RefusedError as refused:
            known = await self._work(partial(self._accounts.principal, name))
            # A name that is no account may be a password in the wrong field.
            data = {"account": name if known else None, "address": address, "purpose": purpose, "code": refused.code}
            await self.record(NOBODY, "session.failed", data, "denied")
            raise
        self._throttle.succeeded(tried, address)
        return principal

    async def _work(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._hashing)

    async def record(self, who: Principal, kind: str, data: dict[str, Any], outcome: str = "ok") -> None:
        event = Event(kind, data, who.tenant, outcome)
        await anyio.to_thread.run_sync(partial(self._controller.books.commit, who, [event]))


def router(door: Door) -> APIRouter:
    """POST /login, /logout, /join/TOKEN, /session/confirm, /session/end, and GET /session."""
    made = APIRouter(tags=["session"])
    anyone = {"x-kvctl-roles": sorted(Role)}
    for path, function, public in (
        ("/login", door.sign_in, True),
        ("/join/{token}", door.join, True),
        ("/logout", door.sign_out, False),
        ("/session/confirm", door.confirm, False),
        ("/session/end", door.end_sessions, False),
    ):
        extra: dict[str, Any] = {"security": []} if public else anyone
        made.add_api_route(path, function, methods=["POST"], openapi_extra=extra, response_class=JSONResponse)

    async def session(request: Request) -> JSONResponse:
        """Who the caller is, what it may do, and the session's token for changes."""
        return JSONResponse(about(caller_of(request.scope)))

    made.add_api_route("/session", session, methods=["GET"], openapi_extra=anyone)
    return made


def give(answer: Response, token: str) -> None:
    """The session's cookie: for this host alone, no script, and no request that another site causes."""
    answer.set_cookie(COOKIE, token, path="/", secure=True, httponly=True, samesite="strict")


def about(caller: Caller) -> dict[str, Any]:
    who, session = caller.principal, caller.session
    allowed = [
        o.name for o in TABLE
        if who.has(*o.roles) and (who.tenant is None or (o.names_tenant and not o.site))
    ]  # fmt: skip
    return {
        "schema": "kvctl.session/1", "name": who.name, "roles": sorted(who.roles), "tenant": who.tenant,
        "kind": str(who.kind), "fresh": who.fresh, "operations": allowed,
        "csrf": session.csrf if session else None, "session": session.id if session else None,
        "idle_seconds": IDLE if session else None, "absolute_seconds": ABSOLUTE if session else None,
    }  # fmt: skip


async def read(request: Request, kind: type[Any]) -> tuple[Any, bool]:
    """The body as JSON or as a form, and whether it was a form. UsageError KV-API-016."""
    body = await request.body()
    form = request.headers.get("content-type", "").split(";")[0].strip() == FORM
    try:
        data: Any = form_of(body) if form else msgspec.json.decode(body or b"{}")
        if form and isinstance(data, dict):
            data.pop("csrf", None)
        found = msgspec.convert(data, kind)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        # The reason might quote what somebody typed into the wrong field.
        raise not_right("it is JSON or a form, with the fields that docs/api.md lists") from None
    if any(len(value) > MAX_TEXT for value in values(found)):
        raise not_right(f"a field has more than {MAX_TEXT} characters")
    return found, form


def values(found: Any) -> list[str]:
    return [value for value in msgspec.structs.asdict(found).values() if isinstance(value, str)]


def not_right(why: str) -> UsageError:
    return UsageError("KV-API-016", "the request is not right", why=why, fix="see docs/api.md")


def session_of(request: Request) -> tuple[Session, Principal]:
    caller = caller_of(request.scope)
    if caller.session is None:
        raise UsageError("KV-API-021", "this is for sessions", why=f"{caller.principal.name} came without one")
    return caller.session, caller.principal


def account_of(principal: Principal) -> str:
    """local:alice -> alice."""
    return principal.name.partition(":")[2] or principal.name


def address_of(request: Request) -> str:
    peer = request.scope.get(PEER)
    return str(peer.address) if peer else "unknown"
