"""Sessions of people over https: a random reference that the browser holds, and everything else here, in memory.

A restart of the controller ends every session; nothing that could be one is ever written to a disk.
"""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

IDLE = 15 * 60.0  # seconds without a request
ABSOLUTE = 8 * 3600.0
FRESH = 5 * 60.0  # how long a password that was just given counts as one
UNKNOWN = float("inf")  # age of a proof of which nobody says when it was
MOST = 20  # sessions of one account; the oldest makes room
TOKEN_BYTES = 32


@dataclass(slots=True)
class Session:
    """One person's browser or command. Times are of the clock that `Sessions` was given."""

    id: str  # for logs and lists: no secret
    account: str
    address: str
    csrf: str
    opened: float
    used: float
    proved: float  # when the password was last given, here or to the OpenID provider
    proof: str = ""  # SHA-256 of the token
    identity: tuple[str, str] | None = None  # issuer and subject, of one that an OpenID provider opened

    def fresh(self, now: float) -> bool:
        return 0 <= now - self.proved < FRESH

    def over(self, now: float) -> bool:
        return now - self.used >= IDLE or now - self.opened >= ABSOLUTE


class Sessions:
    """All sessions of this controller. Safe from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}  # by the token's SHA-256, oldest first

    def open(
        self, account: str, address: str, *, identity: tuple[str, str] | None = None, age: float = 0.0
    ) -> tuple[str, Session]:
        """A new session and its token, which is kept nowhere. `age`: seconds since the person proved itself."""
        token, now = secrets.token_urlsafe(TOKEN_BYTES), self._clock()
        csrf = secrets.token_urlsafe(TOKEN_BYTES)
        session = Session(
            secrets.token_hex(4), account, address, csrf, now, now, now - age, digest(token), identity
        )  # fmt: skip
        with self._lock:
            self._sweep(now)
            mine = [key for key, one in self._open.items() if one.account == account]
            for key in mine[: max(0, len(mine) + 1 - MOST)]:
                del self._open[key]
            self._open[session.proof] = session
        return token, session

    def find(self, token: str, *, touch: bool = True) -> Session | None:
        """The session of a token; None when there is none or it is over. `touch`: this is use, not watching."""
        key, now = digest(token), self._clock()
        with self._lock:
            session = self._open.get(key)
            if session is None:
                return None
            if session.over(now):
                del self._open[key]
                return None
            if touch:
                session.used = now
            return session

    def is_fresh(self, session: Session) -> bool:
        return session.fresh(self._clock())

    def confirm(self, session: Session, age: float = 0.0) -> None:
        """The person proved itself once more, `age` seconds ago."""
        session.proved = self._clock() - age

    def lasts(self, session: Session) -> bool:
        """Whether it is still open. Asking is no use of it."""
        with self._lock:
            return session.proof in self._open and not session.over(self._clock())

    def close(self, session: Session) -> None:
        with self._lock:
            self._open.pop(session.proof, None)

    def close_account(self, account: str) -> int:
        """End every session of an account; how many there were."""
        with self._lock:
            mine = [key for key, one in self._open.items() if one.account == account]
            for key in mine:
                del self._open[key]
        return len(mine)

    def ls(self) -> list[Session]:
        with self._lock:
            self._sweep(self._clock())
            return list(self._open.values())

    def ages(self) -> list[tuple[Session, float, float]]:
        """All sessions, each with the seconds since it was opened and since it was last used."""
        now = self._clock()
        return [(one, now - one.opened, now - one.used) for one in self.ls()]

    def _sweep(self, now: float) -> None:
        for key in [key for key, one in self._open.items() if one.over(now)]:
            del self._open[key]


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
