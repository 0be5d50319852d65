"""Signing in with the site's OpenID provider: authorization code and PKCE, bound to the browser that began.

The page that the browser comes back to is opened by another site, so the session's cookie, SameSite=Strict, does not
come with it. A cookie of its own does, for the minutes of one sign-in, and the page then opens the console by itself.
"""

import math
import secrets
import shlex
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from kvctl.api.identity import CALLER, Accounts, Caller, Identify, cookie_of, foreign
from kvctl.api.idtoken import LEEWAY, DeniedError, Proof
from kvctl.api.login import CONFIRMING, NOBODY, Door, address_of, give, session_of
from kvctl.api.pending import LIFE, Flow, Pending
from kvctl.api.provider import CALLBACK, Provider, refused
from kvctl.api.sessions import UNKNOWN
from kvctl.api.throttle import Throttle
from kvctl.controller.core import Controller
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.principals import Role

BEGIN, AGAIN = "/login/oidc", "/session/oidc"
PUBLIC = (BEGIN, CALLBACK)
COOKIE = "__Host-kvctl-oidc"
GO_ON = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    '<link rel="icon" href="/static/favicon.svg" type="image/svg+xml"><title>Signed in</title></head>'
    '<body><p><a href="{0}">Go on</a></p></body></html>'
)


class OidcDoor:
    """What the routes below share."""

    def __init__(
        self, controller: Controller, identify: Identify, accounts: Accounts, door: Door, clock: Callable[[], float]
    ) -> None:
        self._controller = controller
        self._identify = identify
        self._accounts = accounts
        self._throttle = Throttle(clock)  # apart from that of passwords, which work on whatever happens there
        self._door = door
        self._pending = Pending(clock)
        self._made: Provider | None = None

    @property
    def label(self) -> str:
        """How the provider is called; "" while there is none."""
        settings = self._controller.settings.oidc
        return settings.label if settings else ""

    @property
    def _provider(self) -> Provider:
        """As the settings file says now. UsageError KV-API-011 when it has none any more."""
        settings = self._controller.settings.oidc
        if settings is None:
            raise UsageError("KV-API-011", "there is nothing at this path", why="no OpenID provider is set")
        if self._made is None or self._made.settings != settings:
            self._made = Provider(settings)
        return self._made

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        before: Caller | None = request.scope.get(CALLER)
        flow = partial(Flow, session=before.session if before else None)
        return await self._send_there(request, flow)

    async def again(self, request: Request) -> Response:
        """The same for somebody who is signed in, and must be asked for the password there: step-up."""
        session, _ = session_of(request)
        if session.identity is None:
            raise UsageError(
                "KV-API-091", "this session was opened by a password", why="no OpenID provider confirms it",
                fix="confirm your password",
            )  # fmt: skip
        kept = request.query_params.get("again", "")
        back = f"/confirmed/{kept}" if kept.isascii() and kept.isalnum() else "/access"
        return await self._send_there(request, partial(Flow, session=session, step_up=True, back=back))

    async def _send_there(self, request: Request, made: Any) -> Response:
        provider, address = self._provider, address_of(request)
        site = request.headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none"):
            raise foreign(f"Sec-Fetch-Site is {site[:20]!r}")
        flow: Flow = made(provider.settings, address, time.time(), self._pending.clock())
        self._throttle.enter(flow.name, address)
        answer = RedirectResponse(await provider.address(flow), 303)
        # Lax: the provider's page leads back here, and Strict would leave the cookie at home.
        answer.set_cookie(
            COOKIE, self._pending.put(flow), max_age=int(LIFE), path="/", secure=True, httponly=True, samesite="lax"
        )
        return answer

    async def callback(self, request: Request) -> Response:
        """Where the provider sends the browser back to."""
        provider, address, query = self._provider, address_of(request), request.query_params
        flow = self._pending.take(cookie_of(request.headers, COOKIE), query.get("state", ""))
        if flow is None or flow.provider != provider.settings:
            error = not_begun(provider.settings.console)
            self._throttle.enter(f"oidc {secrets.token_hex(8)}", address)
            await self._failed(error, address, "sign-in", None)
            raise error
        request.scope[CONFIRMING] = flow.step_up
        name = flow.session.account if flow.session and flow.step_up else None
        try:
            proof = await self._proof(provider, flow, query)
            if not flow.step_up:
                name = await anyio.to_thread.run_sync(self._accounts.of_identity, proof.identity)
            answer = await (self._confirm(flow, proof) if flow.step_up else self._open(flow, proof, name, address))
        except KvctlError as error:
            await self._failed(error, address, "step-up" if flow.step_up else "sign-in", name)
            raise
        self._throttle.succeeded(flow.name, flow.address)
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
        return answer

    async def _proof(self, provider: Provider, flow: Flow, query: Any) -> Proof:
        issuer = query.get("iss")  # RFC 9207: an answer of another provider than the one that was asked
        if issuer != provider.settings.issuer and (issuer is not None or provider.names_itself):
            raise DeniedError(
                "iss", "KV-API-083", "the OpenID provider did not sign you in", why="another issuer answered",
                fix="sign in again",
            )  # fmt: skip
        if "error" in query or not query.get("code"):
            raise refused(query.get("error"))
        return await provider.prove(query["code"], flow)

    async def _open(self, flow: Flow, proof: Proof, name: str | None, address: str) -> Response:
        find = partial(self._accounts.signed_in, name or "", proof.identity)
        principal = await anyio.to_thread.run_sync(find) if name else None
        if principal is None:
            raise unbound(proof, closed=name is not None)
        at = proof.at if strong(proof, flow) else None
        age = UNKNOWN if at is None else max(0.0, time.time() - at)
        token, _ = await self._door.open(principal, address, flow.session, identity=proof.identity, age=age)
        answer = go_on(flow.back)
        give(answer, token)
        return answer

    async def _confirm(self, flow: Flow, proof: Proof) -> Response:
        session = flow.session
        assert session is not None
        find = partial(self._accounts.signed_in, session.account, session.identity)
        principal = await anyio.to_thread.run_sync(find)
        if principal is None or not self._identify.sessions.lasts(session):
            raise DeniedError("over", "KV-API-080", "the session is over that was to be confirmed", fix="sign in again")
        if proof.identity != session.identity:
            raise DeniedError(
                "other", "KV-API-090", "you were not asked again by the OpenID provider",
                why="somebody else signed in there", fix="sign in there as the person whose session this is",
            )  # fmt: skip
        if proof.at is None or proof.at < flow.began - LEEWAY:
            why = "it does not say when you signed in" if proof.at is None else "it took a sign-in of before"
            raise DeniedError(
                "auth_time", "KV-API-090", "you were not asked again by the OpenID provider", why=why,
                fix="the provider must do prompt=login and max_age=0, and say auth_time: ask whoever runs it",
            )  # fmt: skip
        if not strong(proof, flow):
            raise DeniedError(
                "acr", "KV-API-090", "you were not asked again by the OpenID provider",
                why="it asked for less than `oidc.step_up_acr` wants",
                fix="sign in there with your second factor; if it asks for none, ask whoever runs it",
            )  # fmt: skip
        self._identify.sessions.confirm(session, max(0.0, time.time() - proof.at))
        await self._door.record(principal, "session.confirmed", {"session": session.id, "method": "oidc"})
        return go_on(flow.back)

    async def _failed(self, error: KvctlError, address: str, purpose: str, account: str | None) -> None:
        reason = error.reason if isinstance(error, DeniedError) else "provider"
        data = {
            "account": account, "address": address, "purpose": purpose, "code": error.code, "method": "oidc",
            "reason": reason,
        }  # fmt: skip
        await self._door.record(NOBODY, "session.failed", data, "denied")


def router(door: OidcDoor) -> APIRouter:
    """GET /login/oidc, /login/oidc/callback and /session/oidc. None of them has a session's power by itself."""
    made = APIRouter(tags=["session"])
    for path, function in ((BEGIN, door.begin), (CALLBACK, door.callback), (AGAIN, door.again)):
        extra: dict[str, Any] = {"security": []} if path in PUBLIC else {"x-kvctl-roles": sorted(Role)}
        made.add_api_route(path, function, methods=["GET"], openapi_extra=extra, response_class=JSONResponse)
    return made


def strong(proof: Proof, flow: Flow) -> bool:
    """Whether it is a sign-in that may count as fresh, as with a second factor."""
    wanted = flow.provider.step_up_acr
    return not wanted or proof.acr in wanted


def go_on(path: str) -> HTMLResponse:
    """A page of this host that opens another: that one gets the cookie which this one could not have."""
    return HTMLResponse(GO_ON.format(path), headers={"refresh": f"0; url={path}"})


def not_begun(console: str) -> DeniedError:
    return DeniedError(
        "state", "KV-API-080", "this is no sign-in that this browser began, or it took too long",
        why=f"one is good for {math.ceil(LIFE / 60)} minutes, once, and in the browser that began it",
        fix=f"begin again at {console.rstrip('/')}/login",
    )  # fmt: skip


def unbound(proof: Proof, *, closed: bool) -> RefusedError:
    issuer, subject = proof.identity
    if closed:
        return DeniedError(
            "closed", "KV-API-085", "your identity does not let you in", where=f"issuer {issuer}, subject {subject}",
            why="its account is disabled, or its time is over", fix="ask an administrator of accounts",
        )  # fmt: skip
    return DeniedError(
        "unbound", "KV-API-085", "your identity does not let you in", where=f"issuer {issuer}, subject {subject}",
        why="no account is bound to it",
        fix="ask an administrator of accounts: kvctl account create NAME --role ROLE --oidc-subject "
        + shlex.quote(subject),
    )  # fmt: skip
