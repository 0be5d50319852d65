"""Local accounts. Who there is and what they may is in the books; passwords and links are in a file of secrets.

A new account sets its own password by a one-time link: nobody else ever knows it. One that is bound to an identity of
the OpenID provider has none (kvctl.controller.identities).
"""

from __future__ import annotations

import secrets
import time
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kvctl.controller import authenticator, identities, totp
from kvctl.controller.accountfile import LINK_SECONDS, Secret, Secrets, digest, lock
from kvctl.controller.identities import Identity, identity_of
from kvctl.govern import accounts as rules
from kvctl.state import accounts as state
from kvctl.types.errors import RefusedError
from kvctl.types.events import Event
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import AccountChange, AccountCreate, Nothing

if TYPE_CHECKING:
    from argon2 import PasswordHasher

    from kvctl.controller.books import Books
    from kvctl.controller.core import Controller, Service


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
        return self._usable(self._row(name))

    def signed_in(self, name: str, identity: Identity | None) -> Principal | None:
        """The same for whoever signed in by this identity, or by the password (None); None when that is no way in."""
        row = self._row(name)
        return self._usable(row) if row is not None and identity_of(row) == identity else None

    def of_identity(self, identity: Identity) -> str | None:
        """The name of the account that is bound to it, whether or not that may be used now."""
        with self._books.state.reading() as db:
            row = state.of_identity(db, *identity)
        return row["name"] if row else None

    def _row(self, name: str) -> state.Row | None:
        with self._books.state.reading() as db:
            return state.account(db, name)

    def _usable(self, row: state.Row | None) -> Principal | None:
        if row is None or row["disabled"] or (row["until_at"] and _seconds(row["until_at"]) <= self._clock()):
            return None
        return Principal(f"local:{row['name']}", frozenset(map(Role, row["roles"])), row["tenant"])

    def authenticate(self, name: str, password: str, code: str = "") -> Principal:
        """Whose password this is, and whose one-time code where the account has an authenticator.

        RefusedError KV-API-062, in the same words and after the same work for any reason; KV-API-075 when the password
        is right and a code is missing.
        """
        who = self.signed_in(name, None)
        with lock:
            secret = self._secrets.read().get(name, Secret())
        usable = who is not None and secret.password is not None and self._clock() >= secret.closed_until
        right = self._verify(secret.password if usable and secret.password else self._nobody, password)
        if not usable or not right:
            if who is not None and usable:
                self._failed(name)
            raise _not_in()
        assert who is not None
        if secret.totp is not None:
            self._second(name, code)
        self._succeeded(name, password, secret)
        return Principal(who.name, who.roles, who.tenant, fresh=True)

    def redeem(self, token: str, password: str) -> str:
        """Set a password by a one-time link; the account's name. RefusedError KV-API-060 for a link that is not one
        any more, UsageError KV-API-061 for a password that is not taken: the link then stays."""
        given = digest(token)
        name = self._of_link(given)
        text = rules.check_password(_normal(password), name)
        hashed = self._hasher.hash(text)
        with self._secrets.changing() as found:
            if found[name].link != given:  # somebody else was faster with it
                raise _no_link()
            entry = found[name]  # a link is for the password alone: it does not take the authenticator away
            entry.password, entry.link, entry.link_until, entry.failures, entry.closed_until = hashed, None, 0, 0, 0
        self._books.commit(Principal(f"local:{name}", frozenset()), [Event("account.joined", {"name": name})])
        return name

    def _of_link(self, digest: str) -> str:
        with lock:
            found = self._secrets.read()
        for name, secret in found.items():
            if secret.link == digest and self._clock() < secret.link_until and self.signed_in(name, None):
                return name
        raise _no_link()

    def _verify(self, hashed: str, password: str) -> bool:
        from argon2.exceptions import VerifyMismatchError

        try:
            return self._hasher.verify(hashed, _normal(password))
        except VerifyMismatchError:
            return False

    def _second(self, name: str, code: str) -> None:
        """Take a one-time code, or a recovery code, for good. A wrong one counts as a wrong password does."""
        given, used = totp.plain(code), ""
        if not given:
            raise RefusedError(
                "KV-API-075", "a code of your authenticator app is needed, too", why="this account has one",
                fix="give its present code, or one of your recovery codes",
            )  # fmt: skip
        with self._secrets.changing() as found:
            entry = found[name]
            step = totp.step_of(entry.totp, given, self._clock()) if entry.totp else None
            if step is not None and step > entry.totp_step:
                entry.totp_step, used = step, "code"
            elif totp.digest(given) in entry.recovery:
                entry.recovery.remove(totp.digest(given))
                used = "recovery"
        if not used:
            self._failed(name)
            raise _not_in()
        if used == "recovery":
            left = {"name": name, "left": len(entry.recovery)}
            self._books.commit(Principal(f"local:{name}", frozenset()), [Event("account.recovery-used", left)])

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


def _not_in() -> RefusedError:
    return RefusedError(
        "KV-API-062", "this name and password do not let you in",
        why="one of them or the code is wrong, the account is disabled, or it is closed after wrong ones for a while",
    )  # fmt: skip


def _no_link() -> RefusedError:
    return RefusedError(
        "KV-API-060", "this link does not open an account", why="it was used, replaced, or is older than 24 hours",
        fix="ask an administrator for a new one: kvctl account change NAME --new-link",
    )  # fmt: skip


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


# --- services -------------------------------------------------------------------------------------------------------
def create(ctl: Controller, who: Principal, p: AccountCreate) -> dict[str, Any]:
    """A new account. `link`, a path below `console`, is in this answer and nowhere else. The first account of a site
    may go without roles: it administers accounts and operates."""
    rules.check_name(p.name)
    with ctl.books.deciding() as db:
        rules.check_absent(state.account(db, p.name))
        names = p.roles or ([] if state.accounts(db) else [str(role) for role in rules.FIRST])
        roles = rules.check_roles(names, p.tenant)
        until = rules.check_until(p.until)
        if until is None and Role.AUDITOR in roles:
            until = datetime.now(UTC) + timedelta(days=rules.AUDITOR_DAYS)
        about: dict[str, Any] = {
            "name": p.name, "roles": sorted(roles), "tenant": p.tenant, "until": _text(until)
        }  # fmt: skip
        if p.oidc_subject is not None:
            about["oidc"] = identities.to_bind(ctl, db, p.name, p.oidc_subject)
        document = {"schema": "kvctl.account.create/1", "dry_run": p.dry_run, **about}
        if p.dry_run:
            return {**document, "would": [f"make account {p.name} with {', '.join(sorted(roles))}"]}
        ctl.books.commit(who, [Event("account.created", about, p.tenant)])
        return {**document, **({} if "oidc" in about else _linked(ctl, p.name))}


def _text(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None


def _linked(ctl: Controller, name: str) -> dict[str, str | None]:
    token = Secrets(ctl.directory).new_link(name, now=time.time())
    end = datetime.now(UTC) + timedelta(seconds=LINK_SECONDS)
    return {"link": Accounts.link(token), "link_until": _text(end), "console": ctl.console}


def change(ctl: Controller, who: Principal, p: AccountChange) -> dict[str, Any]:
    """Other roles, disabled or not, a new link for a password that was forgotten, another way to sign in.

    Nobody changes their own account.
    """
    with ctl.books.deciding() as db:
        row = rules.check_there(state.account(db, p.name), p.name)
        rules.check_other(who, p.name)
        data: dict[str, Any] = {"name": p.name}
        if p.roles is not None:
            data["roles"] = sorted(rules.check_roles(p.roles, row["tenant"]))
        if p.disabled is not None:
            data["disabled"] = p.disabled
        if p.unbind_oidc:
            data["oidc"] = None
        if p.oidc_subject is not None:
            data["oidc"] = identities.to_bind(ctl, db, p.name, p.oidc_subject)
        if p.new_link or p.reset_totp:
            identities.check_has_password(data.get("oidc", identity_of(row)) is not None, p.name)
        if p.new_link:
            data["new_link"] = True
        if p.reset_totp:
            data["reset_totp"] = True
        document = {"schema": "kvctl.account.change/1", "dry_run": p.dry_run, **data}
        if p.dry_run:
            return {**document, "would": [f"change {key} of {p.name}" for key in data if key != "name"]}
        if len(data) > 1:
            ctl.books.commit(who, [Event("account.changed", data, row["tenant"])])
        if data.get("oidc"):
            Secrets(ctl.directory).without(p.name)
        if p.reset_totp:
            Secrets(ctl.directory).without_totp(p.name)
        return {**document, **(_linked(ctl, p.name) if p.new_link else {})}


def listed(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    known = Secrets(ctl.directory).read()
    with ctl.books.deciding() as db:
        found = state.accounts(db)
    for row in found:
        secret = known.get(row["name"], Secret())
        row["joined"] = secret.password is not None or row["oidc_subject"] is not None
        row["authenticator"] = secret.totp is not None
        row["link_pending"] = secret.link is not None and secret.link_until > time.time()
    return {"schema": "kvctl.account.ls/1", "accounts": found}


SERVICES: dict[str, Service] = {
    "account.change": change, "account.create": create, "account.ls": listed, "account.totp": authenticator.enrol,
}  # fmt: skip
