"""Who sent a request: exactly one principal, from the connection or from a session, or nobody."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Protocol

from kvctl.api.problems import nobody
from kvctl.api.sessions import Session, Sessions
from kvctl.client.controller import local_principal
from kvctl.controller.pki import Services
from kvctl.types.errors import RefusedError
from kvctl.types.principals import Kind, Principal, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

COOKIE = "__Host-kvctl"
CALLER = "kvctl.caller"  # in a request's scope
PEER = "kvctl.peer"


class Accounts(Protocol):
    """Local accounts, as kvctl.controller.accounts keeps them."""

    def authenticate(self, name: str, password: str, code: str = "") -> Principal: ...

    def principal(self, name: str) -> Principal | None: ...

    def signed_in(self, name: str, identity: tuple[str, str] | None) -> Principal | None: ...

    def of_identity(self, identity: tuple[str, str]) -> str | None: ...

    def redeem(self, token: str, password: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection, as the kernel or TLS proved it."""

    address: str  # for throttling and logs; "unix" on a socket
    uid: int | None = None  # of the process, on a unix socket
    certificate: bytes | None = None  # DER; TLS has verified that the site's CA signed it


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request is from. `session` is there when a session said so."""

    principal: Principal
    session: Session | None
    address: str


def cookie_of(headers: Mapping[str, str], name: str = COOKIE) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return found.value if found else None


class Identify:
    """Decides for each request. A claim that does not hold is refused; it never falls back to another one."""

    def __init__(self, sessions: Sessions, accounts: Accounts | None, services: Services) -> None:
        self.sessions = sessions
        self.accounts = accounts
        self._services = services

    def __call__(self, peer: Peer | None, headers: Mapping[str, str], *, touch: bool = True) -> Caller | None:
        """None: nobody. RefusedError KV-API-010 for a session or certificate that is not one, or for both at once."""
        token = cookie_of(headers)
        certificate = peer.certificate if peer else None
        address = peer.address if peer else ""
        if token is not None:
            if certificate is not None:
                raise nobody("the request has a session and a certificate: it can be of one only")
            return self._of_session(token, address, touch)
        if certificate is not None:
            return Caller(self._of_certificate(certificate), None, address)
        if peer is not None and peer.uid is not None and peer.uid in (0, os.geteuid()):
            return Caller(local_principal(peer.uid), None, address)
        return None

    def _of_session(self, token: str, address: str, touch: bool) -> Caller:
        session = self.sessions.find(token, touch=touch)
        if session is None:
            raise nobody("the session is over")
        # Asked for each time: a role that was taken away, an account that was disabled or that is signed in to in
        # another way, counts from now on.
        principal = self.accounts.signed_in(session.account, session.identity) if self.accounts else None
        if principal is None:
            self._end(session)
            raise nobody("the account is disabled or gone, or is signed in to in another way")
        return Caller(replace(principal, fresh=self.sessions.is_fresh(session)), session, address)

    def _end(self, session: Session) -> None:
        """With all others of the account, unless it may still be used by who signs in to it as it is now."""
        if self.accounts is not None and self.accounts.principal(session.account) is not None:
            self.sessions.close(session)
        else:
            self.sessions.close_account(session.account)

    def _of_certificate(self, certificate: bytes) -> Principal:
        name = self._services.name_of(certificate)
        if name is None:
            raise nobody("the certificate is not, or no longer, one of this site's services")
        return Principal(f"service:{name}", frozenset({Role.SERVICE}), kind=Kind.SERVICE)


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """The caller of a request that the gate let in. KV-API-010 for a public path that asks after all."""
    caller = scope.get(CALLER)
    if caller is None:
        raise nobody()
    assert isinstance(caller, Caller)
    return caller


def foreign(why: str) -> RefusedError:
    return RefusedError(
        "KV-API-017", "the request came from another site", why=why,
        fix="send it from the console's own pages, with the session's token",
    )  # fmt: skip
