"""Authenticator apps of local accounts: put in force by their owner, taken away by the owner or an administrator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kvctl.controller import totp
from kvctl.controller.accountfile import Secret, Secrets
from kvctl.controller.identities import check_has_password, identity_of
from kvctl.state.accounts import account
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import AccountTotp

if TYPE_CHECKING:
    from kvctl.controller.core import Controller


def enrol(ctl: Controller, who: Principal, p: AccountTotp) -> dict[str, Any]:
    """One's own authenticator app: without a code, a new secret for it; with its first code it is in force and the
    recovery codes are in this answer and nowhere else; `remove` takes it away again.

    UsageError KV-API-071 for who has no local account, RefusedError KV-API-072 for a wrong code, 073 when there is
    nothing to confirm, 074 when there is one in force, 088 when no password opens the account.
    """
    kind, _, name = who.name.partition(":")
    if kind != "local":
        raise UsageError("KV-API-071", "an authenticator is of a local account", why=f"you are {who.name}")
    with ctl.books.deciding() as db:
        row = account(db, name)
    check_has_password(row is not None and identity_of(row) is not None, name)
    document = {"schema": "kvctl.account.totp/1", "dry_run": p.dry_run, "name": name}
    store = Secrets(ctl.directory)
    now = store.read().get(name, Secret())
    if p.remove:
        would = ["take the authenticator away"] if now.totp else []
    else:
        would = ["put the authenticator in force"] if p.code else ["hand out a new secret"]
        if now.totp is not None:
            raise RefusedError(
                "KV-API-074", "this account has an authenticator", fix="remove it first, then begin anew"
            )
    if p.dry_run:
        return {**document, "would": would}
    if p.remove:
        ctl.books.commit(who, [Event("account.totp-removed", {"name": name}, who.tenant)])
        Secrets(ctl.directory).without_totp(name)
        return {**document, "active": False}
    return {**document, **(_confirmed(ctl, who, name, p.code) if p.code else _begun(ctl, name))}


def _begun(ctl: Controller, name: str) -> dict[str, Any]:
    secret = totp.new_secret()
    with Secrets(ctl.directory).changing() as found:
        found.setdefault(name, Secret()).totp_new = secret
    return {"active": False, "secret": secret, "uri": totp.uri(secret, name, ctl.site)}


def _confirmed(ctl: Controller, who: Principal, name: str, code: str) -> dict[str, Any]:
    codes = totp.recovery_codes()
    # The books first, as whoever changes an account does: in the other order each waits for the other.
    with ctl.books.deciding(), Secrets(ctl.directory).changing() as found:
        entry = found.get(name, Secret())
        if entry.totp_new is None:
            raise RefusedError("KV-API-073", "there is no authenticator to confirm", fix="ask for a secret first")
        step = totp.step_of(entry.totp_new, totp.plain(code), time.time())
        if step is None:
            raise RefusedError(
                "KV-API-072", "this is not the code of that secret", why="codes last 30 seconds",
                fix="look at the telephone's clock, and give the present code",
            )  # fmt: skip
        ctl.books.commit(who, [Event("account.totp-enrolled", {"name": name}, who.tenant)])
        entry.totp, entry.totp_new, entry.totp_step = entry.totp_new, None, step
        entry.recovery = [totp.digest(one) for one in codes]
    return {"active": True, "recovery_codes": codes}
