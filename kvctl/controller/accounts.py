"""Local accounts. Who there is and what they may is in the books; passwords and links are in a file of secrets.

A new account sets its own password by a one-time link: nobody else ever knows it.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kvctl.connector.secretfile import read_secret, write_secret
from kvctl.govern import accounts as rules
from kvctl.state import accounts as state
from kvctl.types.errors import KvctlError, RefusedError
from kvctl.types.events import Event
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import AccountChange, AccountCreate, Nothing

if TYPE_CHECKING:
    from argon2 import PasswordHasher

    from kvctl.controller.books import Books
    from kvctl.controller.core import Controller, Service

FILE = "accounts.json"
MAX_BYTES = 16 << 20
LINK_SECONDS = 24 * 3600
LINK_BYTES = 32
_lock = threading.RLock()  # of the file, which the services and the sign-in change


class Secret(msgspec.Struct, forbid_unknown_fields=True):
    """Of one account. Times are Unix seconds."""

    password: str | None = None  # argon2id, as its encoded text
    link: str | None = None  # SHA-256 of the one-time link's token
    link_until: float = 0
    failures: int = 0  # wrong passwords since the last right one
    closed_until: float = 0  # no password is looked at before

    def __repr__(self) -> str:
        return "Secret(...)"


class Secrets:
    """The file of secrets of accounts in a controller's directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE

    def read(self) -> dict[str, Secret]:
        """KvctlError KV-API-070 for a file that cannot be read: nobody is let in by guess."""
        if not self._path.exists():
            return {}
        try:
            return msgspec.json.decode(read_secret(self._path, MAX_BYTES), type=dict[str, Secret])
        except msgspec.DecodeError as error:
            raise KvctlError(
                "KV-API-070", "the accounts' passwords cannot be read", where=str(self._path), why=str(error),
                fix="restore the file, or remove it and make new links: kvctl account change NAME --new-link",
            ) from None  # fmt: skip

    @contextmanager
    def changing(self) -> Iterator[dict[str, Secret]]:
        """All of them, to be changed; written when the block ends well."""
        with _lock:
            found = self.read()
            yield found
            write_secret(self._path, msgspec.json.format(msgspec.json.encode(found)) + b"\n")

    def new_link(self, name: str, *, now: float) -> str:
        """A token that sets the account's password once, within LINK_SECONDS. An older one is void."""
        token = secrets.token_urlsafe(LINK_BYTES)
        with self.changing() as found:
            entry = found.setdefault(name, Secret())
            entry.link, entry.link_until = _digest(token), now + LINK_SECONDS
        return token


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Accounts:
    """Signing in. Methods may be called from any thread; `authenticate` and `redeem` take tens of MiB and of ms."""

    def __init__(
        self, books: Books, *, hasher: PasswordHasher | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        if hasher is None:
            from argon2 import PasswordHasher

            hasher = PasswordHasher()  # argon2id; parameters of RFC 9106, 4, for machines with less memory
        self._books = books
        self._secrets = Secrets(books.directory)
        self._hasher = hasher
        self._clock = clock
        self._nobody = hasher.hash(secrets.token_hex(16))

    @staticmethod
    def link(token: str) -> str:
        """The path that the owner of a new account opens."""
        return f"/join/{token}"

    def principal(self, name: str) -> Principal | None:
        """The account as it is now; None when there is none, it is disabled or its time is over."""
        with self._books.state.reading() as db:
            row = state.account(db, name)
        if row is None or row["disabled"] or (row["until_at"] and _seconds(row["until_at"]) <= self._clock()):
            return None
        return Principal(f"local:{name}", frozenset(map(Role, row["roles"])), row["tenant"])

    def authenticate(self, name: str, password: str) -> Principal:
        """Whose password this is. RefusedError KV-API-062, in the same words and after the same work for any reason."""
        who = self.principal(name)
        with _lock:
            secret = self._secrets.read().get(name, Secret())
        usable = who is not None and secret.password is not None and self._clock() >= secret.closed_until
        right = self._verify(secret.password if usable and secret.password else self._nobody, password)
        if not usable or not right:
            if who is not None and usable:
                self._failed(name)
            raise RefusedError(
                "KV-API-062", "this name and password do not let you in",
                why="one of them is wrong, the account is disabled, or it is closed after wrong passwords for a while",
            )  # fmt: skip
        assert who is not None
        self._succeeded(name, password, secret)
        return Principal(who.name, who.roles, who.tenant, fresh=True)

    def redeem(self, token: str, password: str) -> str:
        """Set a password by a one-time link; the account's name. RefusedError KV-API-060 for a link that is not one
        any more, UsageError KV-API-061 for a password that is not taken: the link then stays."""
        given = _digest(token)
        name = self._of_link(given)
        text = rules.check_password(_normal(password), name)
        hashed = self._hasher.hash(text)
        with self._secrets.changing() as found:
            if found[name].link != given:  # somebody else was faster with it
                raise _no_link()
            found[name] = Secret(hashed)
        self._books.commit(Principal(f"local:{name}", frozenset()), [Event("account.joined", {"name": name})])
        return name

    def _of_link(self, digest: str) -> str:
        with _lock:
            found = self._secrets.read()
        for name, secret in found.items():
            if secret.link == digest and self._clock() < secret.link_until and self.principal(name) is not None:
                return name
        raise _no_link()

    def _verify(self, hashed: str, password: str) -> bool:
        from argon2.exceptions import VerifyMismatchError

        try:
            return self._hasher.verify(hashed, _normal(password))
        except VerifyMismatchError:
            return False

    def _failed(self, name: str) -> None:
        with self._secrets.changing() as found:
            entry = found[name]
            entry.failures += 1
            entry.closed_until = self._clock() + rules.wait(entry.failures)

    def _succeeded(self, name: str, password: str, secret: Secret) -> None:
        stale = secret.password is not None and self._hasher.check_needs_rehash(secret.password)
        if not stale and not secret.failures:
            return
        hashed = self._hasher.hash(_normal(password)) if stale else secret.password
        with self._secrets.changing() as found:
            if found[name].password == secret.password:  # not changed by a link in between
                found[name].password, found[name].failures, found[name].closed_until = hashed, 0, 0


def _normal(password: str) -> str:
    """One form for letters that keyboards write in several (NIST SP 800-63B-4, 3.1.1.2)."""
    return unicodedata.normalize("NFKC", password)


def _no_link() -> RefusedError:
    return RefusedError(
        "KV-API-060", "this link does not open an account", why="it was used, replaced, or is older than 24 hours",
        fix="ask an administrator for a new one: kvctl account change NAME --new-link",
    )  # fmt: skip


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


# --- services -------------------------------------------------------------------------------------------------------
def create(ctl: Controller, who: Principal, p: AccountCreate) -> dict[str, Any]:
    """A new account. `link` is in this answer and nowhere else. The first account of a site may go without roles: it
    administers accounts and operates."""
    rules.check_name(p.name)
    with ctl.books.deciding() as db:
        rules.check_absent(state.account(db, p.name))
        names = p.roles or ([] if state.accounts(db) else [str(role) for role in rules.FIRST])
        roles = rules.check_roles(names, p.tenant)
        until = rules.check_until(p.until)
        if until is None and Role.AUDITOR in roles:
            until = datetime.now(UTC) + timedelta(days=rules.AUDITOR_DAYS)
        about = {"name": p.name, "roles": sorted(roles), "tenant": p.tenant, "until": _text(until)}
        document = {"schema": "kvctl.account.create/1", "dry_run": p.dry_run, **about}
        if p.dry_run:
            return {**document, "would": [f"make account {p.name} with {', '.join(sorted(roles))}"]}
        ctl.books.commit(who, [Event("account.created", about, p.tenant)])
        return {**document, **_linked(ctl, p.name)}


def _text(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None


def _linked(ctl: Controller, name: str) -> dict[str, str | None]:
    token = Secrets(ctl.directory).new_link(name, now=time.time())
    end = datetime.now(UTC) + timedelta(seconds=LINK_SECONDS)
    return {"link": Accounts.link(token), "link_until": _text(end)}


def change(ctl: Controller, who: Principal, p: AccountChange) -> dict[str, Any]:
    """Other roles, disabled or not, a new link for a password that was forgotten. Nobody changes their own account."""
    with ctl.books.deciding() as db:
        row = rules.check_there(state.account(db, p.name), p.name)
        rules.check_other(who, p.name)
        data: dict[str, Any] = {"name": p.name}
        if p.roles is not None:
            data["roles"] = sorted(rules.check_roles(p.roles, row["tenant"]))
        if p.disabled is not None:
            data["disabled"] = p.disabled
        if p.new_link:
            data["new_link"] = True
        document = {"schema": "kvctl.account.change/1", "dry_run": p.dry_run, **data}
        if p.dry_run:
            return {**document, "would": [f"change {key} of {p.name}" for key in data if key != "name"]}
        if len(data) > 1:
            ctl.books.commit(who, [Event("account.changed", data, row["tenant"])])
        return {**document, **(_linked(ctl, p.name) if p.new_link else {})}


def listed(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    known = Secrets(ctl.directory).read()
    with ctl.books.deciding() as db:
        found = state.accounts(db)
    for row in found:
        secret = known.get(row["name"], Secret())
        row["joined"] = secret.password is not None
        row["link_pending"] = secret.link is not None and secret.link_until > time.time()
    return {"schema": "kvctl.account.ls/1", "accounts": found}


SERVICES: dict[str, Service] = {"account.change": change, "account.create": create, "account.ls": listed}
