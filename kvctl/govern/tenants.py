"""Rules about tenants, trust domains, API keys and epochs: what may be asked for, and in which state. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.requests import TenantCreate, TenantQuota

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")  # no dot, no slash, no underscore: it is part of file names and keys
RESERVED = "kvctl-"
COUNTRY = re.compile(r"[A-Z]{2}")
EPOCH = re.compile(r"[0-9a-f]{32}")
HOLDER = re.compile(r"[0-9a-f]{64}")
SLAS = ("gold", "silver", "bronze")
SUBJECTS = ("refuse", "warn", "off")
MOST_DOMAINS = 16
MOST_DAYS = 366
MOST_TEXT = 200
LIMITS = ("quota_bytes", "requests_per_minute", "tokens_per_day", "max_concurrent")
BIGGEST = 2**53  # the largest whole number that every JSON reader keeps
MOST_CONCURRENT = 2**31 - 1


def check_name(name: str, what: str = "tenant") -> str:
    """UsageError KV-TEN-001 for what cannot be the name of a tenant or a trust domain."""
    if not NAME.fullmatch(name):
        raise UsageError(
            "KV-TEN-001", f"{name[:80]!r} cannot be the name of a {what}",
            why="names are 1 to 63 of a-z, 0-9 and -, and do not begin with -", fix="choose another name",
        )  # fmt: skip
    return name


def check_new(asked: TenantCreate) -> None:
    """UsageError KV-TEN-001 for names, KV-TEN-002 for everything else that a new tenant cannot have."""
    check_name(asked.tenant)
    if asked.tenant.startswith(RESERVED):
        raise UsageError(
            "KV-TEN-001", f"{asked.tenant!r} cannot be the name of a tenant", why=f"{RESERVED}* is kvctl's own"
        )
    for domain in asked.domains:
        check_name(domain, "trust domain")
    if not 0 < len(set(asked.domains)) == len(asked.domains) <= MOST_DOMAINS:
        raise _wrong("domains", f"a tenant has 1 to {MOST_DOMAINS} trust domains, each once")
    check_text("entity", asked.entity)
    if asked.entity_country and not COUNTRY.fullmatch(asked.entity_country):
        raise _wrong("entity_country", "a country is two capital letters (ISO 3166-1)")
    if asked.sla not in SLAS:
        raise _wrong("sla", f"it is one of {', '.join(SLAS)}")
    if asked.require_subject not in SUBJECTS:
        raise _wrong("require_subject", f"it is one of {', '.join(SUBJECTS)}")
    check_limits({name: getattr(asked, name) for name in LIMITS})


def check_limits(limits: Mapping[str, int | None]) -> None:
    for name, limit in limits.items():
        most = MOST_CONCURRENT if name == "max_concurrent" else BIGGEST
        if limit is not None and not 1 <= limit <= most:
            raise _wrong(name, f"a limit is 1 to {most}; leave it out for no limit")


def new_limits(asked: TenantQuota, known: Mapping[str, Any]) -> dict[str, int | None]:
    """Every limit as it is to be, by name. UsageError KV-TEN-002 for what cannot be one, or is asked for twice."""
    given = {name: getattr(asked, name) for name in LIMITS if getattr(asked, name) is not None}
    check_limits(given)
    for name in asked.unlimited:
        if name not in LIMITS or name == "max_concurrent":
            raise _wrong(name[:40], f"what can be without a limit is {', '.join(LIMITS[:-1])}")
        if name in given:
            raise _wrong(name, "it is given a limit and taken one away")
    if not given and not asked.unlimited:
        raise UsageError("KV-TEN-012", "no limit was named", fix=f"name one of {', '.join(LIMITS)}")
    return {name: known[name] for name in LIMITS} | given | dict.fromkeys(asked.unlimited)


def check_text(name: str, text: str, least: int = 1) -> str:
    """UsageError KV-TEN-002 for a text that is too long, missing or not printable."""
    if not least <= len(text) <= MOST_TEXT or not text.isprintable() or text != text.strip():
        raise _wrong(name, f"it is {least} to {MOST_TEXT} printable characters")
    return text


def check_days(days: int) -> None:
    if not 1 <= days <= MOST_DAYS:
        raise _wrong("days", f"an API key lives 1 to {MOST_DAYS} days")


def _wrong(name: str, why: str) -> UsageError:
    return UsageError("KV-TEN-002", f"{name} cannot be that", why=why, fix="give another value")


def check_free(tenant: Mapping[str, Any] | None) -> None:
    """RefusedError KV-TEN-003 when the name is taken, now or formerly: records of two tenants must not be one."""
    if tenant is not None:
        gone = tenant["state"] == "offboarded"
        raise RefusedError(
            "KV-TEN-003", f"there {'was' if gone else 'is'} a tenant {tenant['tenant']!r}",
            why="its records go on under that name" if gone else "names are given once", fix="choose another name",
        )  # fmt: skip


def check_entity(entity: str, country: str, known: Mapping[str, Any] | None) -> None:
    """UsageError KV-TEN-006 when the entity is known to be of another country."""
    if known is not None and country and known["country"] != country:
        raise UsageError(
            "KV-TEN-006", f"{entity} is on record as an entity of {known['country']}, not of {country}",
            fix="leave the country out, or name the entity that is meant",
        )  # fmt: skip


def require(tenant: Mapping[str, Any] | None, name: str, *states: str) -> Mapping[str, Any]:
    """The tenant, if there is one in one of these states. UsageError KV-TEN-004, RefusedError KV-TEN-005."""
    if tenant is None:
        raise UsageError("KV-TEN-004", f"there is no tenant {name[:80]!r}", fix="kvctl tenant ls shows those there are")
    if states and tenant["state"] not in states:
        raise RefusedError(
            "KV-TEN-005", f"tenant {name} is {tenant['state']}", why=f"this needs one that is {' or '.join(states)}"
        )
    return tenant


def check_confirmed(name: str, typed: str) -> None:
    if typed != name:
        raise UsageError(
            "KV-TEN-007", f"off-boarding {name} was not confirmed", why="it destroys the tenant's keys for good",
            fix="type the tenant's name as the confirmation",
        )  # fmt: skip


def check_holds(holds: Iterable[Mapping[str, Any]], domains: Iterable[str] | None = None) -> None:
    """RefusedError KV-TEN-008 when a hold in force covers one of the domains (None: all). Hold > erasure > retention.

    A key is of a whole domain, so a hold on one subject or model in it keeps the key as well.
    """
    named = None if domains is None else set(domains)
    for hold in holds:
        if named is None or hold["domain"] is None or hold["domain"] in named:
            raise RefusedError(
                "KV-TEN-008", f"hold {hold['id']} forbids to destroy these keys",
                where=f"tenant {hold['tenant']}, domain {hold['domain'] or 'any'}", why=str(hold["reason"]),
                fix="lift the hold first: kvctl hold lift",
            )  # fmt: skip


def key_text(tenant: str, identifier: str, secret: str) -> str:
    """An API key. The tenant may have dashes, the other parts have none: read from the end, it has one meaning."""
    return f"kv-{tenant}-{identifier}-{secret}"
