"""Sign-ins that are at the OpenID provider just now, each bound to the browser that began it."""

import hmac
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from kvctl.api.sessions import Session, digest
from kvctl.controller.settings import OidcSettings

LIFE = 600.0  # seconds that somebody is given at the provider
MOST = 2000  # at once; the oldest make room
TOKEN_BYTES = 32


def token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


@dataclass(frozen=True, slots=True)
class Flow:
    """One of them. `began` is Unix seconds, `opened` of the clock that `Pending` was given."""

    provider: OidcSettings  # as it was set when this began
    address: str
    began: float
    opened: float
    session: Session | None = None  # to be confirmed, or to be replaced by the new one
    step_up: bool = False
    back: str = "/"
    state: str = field(default_factory=token, repr=False)
    nonce: str = field(default_factory=token, repr=False)
    verifier: str = field(default_factory=token, repr=False)  # of PKCE (RFC 7636)
    name: str = field(default_factory=lambda: f"oidc {secrets.token_hex(8)}")  # for the throttle


class Pending:
    """All of them, in memory. Safe from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._flows: dict[str, Flow] = {}  # by the SHA-256 of the browser's cookie, oldest first

    def put(self, flow: Flow) -> str:
        """The cookie's value, which is kept nowhere."""
        cookie = token()
        with self._lock:
            self._sweep()
            while len(self._flows) >= MOST:
                del self._flows[next(iter(self._flows))]
            self._flows[digest(cookie)] = flow
        return cookie

    def take(self, cookie: str | None, state: str) -> Flow | None:
        """The flow that this browser began with this state; it is taken once."""
        key = digest(cookie or "")
        with self._lock:
            self._sweep()
            flow = self._flows.get(key)
            if flow is None or not hmac.compare_digest(flow.state.encode(), state.encode()):
                return None
            return self._flows.pop(key)

    def _sweep(self) -> None:
        now = self.clock()
        for key in [key for key, one in self._flows.items() if now - one.opened >= LIFE]:
            del self._flows[key]
