"""Rules about local accounts: names, roles that exclude each other, passwords, and waits after wrong ones. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.principals import APART, Principal, Role

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
FIRST = (Role.ADMIN, Role.OPERATOR)  # of the first account of a site: somebody must be able to begin
BOUND = (Role.VIEWER, Role.TENANT_ADMIN)  # roles that an account of one tenant may have
LEAST, MOST = 12, 256  # characters of a password
FREE = 5  # wrong passwords before waits begin
MOST_WAIT = 900.0  # seconds
AUDITOR_DAYS = 90  # how long an auditor's access is when nobody says


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(
            "KV-API-065", f"{name[:80]!r} cannot be the name of an account",
            why="names are 1 to 63 of a-z, 0-9, '.', '_' and -, and begin with a letter or digit", fix="choose another",
        )  # fmt: skip
    return name


def check_roles(names: Iterable[str], tenant: str | None) -> frozenset[Role]:
    """UsageError KV-API-063 for a role that there is not, RefusedError KV-API-064 for roles not to be held together."""
    given = list(names)
    known = {str(role): role for role in Role if role is not Role.SERVICE}
    if not given or any(name not in known for name in given):
        raise UsageError("KV-API-063", "an account needs roles", fix=f"one or more of: {', '.join(sorted(known))}")
    roles = frozenset(known[name] for name in given)
    apart = sorted(roles.intersection(APART))
    if len(apart) > 1:
        raise RefusedError(
            "KV-API-064", f"nobody is {' and '.join(apart)} at once",
            why="who changes, who approves and who audits are different people", fix="make an account for each",
        )  # fmt: skip
    if tenant is None and Role.TENANT_ADMIN in roles:
        raise RefusedError("KV-API-064", "a tenant-admin is of one tenant", fix="name it with --tenant")
    if tenant is not None and (wide := sorted(roles.difference(BOUND))):
        raise RefusedError(
            "KV-API-064", f"{wide[0]} is a role of the whole site", why="the account is bound to one tenant",
            fix=f"give it {' or '.join(BOUND)}, or no tenant",
        )  # fmt: skip
    return roles


def check_until(until: str | None) -> datetime | None:
    """UsageError KV-API-067 for what is no time with its zone."""
    if until is None:
        return None
    try:
        at = datetime.fromisoformat(until)
    except ValueError:
        at = datetime.min
    if at.tzinfo is None:
        raise UsageError("KV-API-067", f"{until[:40]!r} is no time", fix="write it like 2027-01-31T00:00:00Z")
    return at


def check_other(who: Principal, name: str) -> None:
    """RefusedError KV-API-066: who decides on roles does not decide on its own."""
    if who.name == f"local:{name}":
        raise RefusedError("KV-API-066", "nobody changes their own account", fix="ask another administrator")


def check_there(account: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    if account is None:
        raise UsageError("KV-API-068", f"there is no account {name[:80]!r}", fix="kvctl account ls shows them")
    return account


def check_absent(account: Mapping[str, Any] | None) -> None:
    if account is not None:
        raise RefusedError(
            "KV-API-069", f"there is an account {account['name']!r}",
            fix="choose another name, or change it: kvctl account change",
        )  # fmt: skip


def check_password(password: str, name: str) -> str:
    """UsageError KV-API-061. Length is what counts (NIST SP 800-63B-4, 3.1.1.2)."""
    if not LEAST <= len(password) <= MOST or name in password.lower() or len(set(password)) < 5:
        raise UsageError(
            "KV-API-061", "this password is not taken",
            why=f"it has {LEAST} to {MOST} characters, 5 different ones, and not the account's name in it",
            fix="choose a longer sentence",
        )  # fmt: skip
    return password


def wait(failures: int) -> float:
    """Seconds after so many wrong passwords in a row in which no password is looked at."""
    return 0.0 if failures < FREE else min(MOST_WAIT, 2.0 ** min(failures - FREE, 30))
