"""Accounts whose owners sign in with the site's OpenID provider.

An identity is issuer and subject, exactly; an e-mail address or a name is none. One is bound to one account, and an
account that is bound to one is signed in to in no other way: whoever leaves the provider has no password left here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvctl.state import accounts as state
from kvctl.types.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from kvctl.controller.core import Controller
    from kvctl.state.governance import Connection

Identity = tuple[str, str]  # issuer, subject
LONGEST = 255  # characters of a subject: OpenID Connect Core, 2


def identity_of(row: Mapping[str, Any]) -> Identity | None:
    """Who signs in to an account; None: its password."""
    return (row["oidc_issuer"], row["oidc_subject"]) if row["oidc_subject"] is not None else None


def is_subject(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= LONGEST and text.isascii() and text.isprintable()


def to_bind(ctl: Controller, db: Connection, name: str, subject: str) -> dict[str, str]:
    """The identity of the site's provider with this subject, as an event of the account `name` has it.

    UsageError KV-API-086 for no provider or no subject, RefusedError KV-API-087 when it is another account's.
    """
    settings = ctl.settings.oidc
    if settings is None:
        raise UsageError(
            "KV-API-086", "this identity cannot be bound", why="the controller has no OpenID provider",
            fix="set `oidc` in controller.yaml (docs/controller.md)",
        )  # fmt: skip
    if not is_subject(subject):
        raise UsageError(
            "KV-API-086", "this identity cannot be bound",
            why=f"a subject has 1 to {LONGEST} printable ASCII characters",
            fix="copy it from the page that its owner gets when signing in",
        )  # fmt: skip
    other = state.of_identity(db, settings.issuer, subject)
    if other is not None and other["name"] != name:
        raise RefusedError(
            "KV-API-087", f"this identity is bound to the account {other['name']!r}",
            why="an identity signs in to one account", fix="unbind it there: kvctl account change NAME --unbind-oidc",
        )  # fmt: skip
    return {"issuer": settings.issuer, "subject": subject}


def check_has_password(bound: bool, name: str) -> None:
    """RefusedError KV-API-088 for a link or an authenticator of an account that no password opens."""
    if bound:
        raise RefusedError(
            "KV-API-088", f"the account {name} has no password", why="its owner signs in with the OpenID provider",
            fix="for a password instead: kvctl account change NAME --unbind-oidc --new-link",
        )  # fmt: skip
