"""Who a client is: an API key's tenant and domain, from the snapshot in force."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvctl.gateway.answers import Refused
from kvctl.types.snapshot import DomainView, KeyView, Snapshot, TenantView

MAX_KEY = 512  # characters of an API key


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of a request's sender once its key is."""

    tenant: TenantView
    domain: DomainView
    key: KeyView


@dataclass(frozen=True, slots=True)
class Directory:
    """A snapshot's keys by digest."""

    snapshot: Snapshot
    callers: Mapping[str, Caller]

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Directory":
        callers: dict[str, Caller] = {}
        for tenant in snapshot.tenants:
            domains = {domain.name: domain for domain in tenant.domains}
            callers |= {key.sha256: Caller(tenant, domains[key.domain], key) for key in tenant.keys}
        return cls(snapshot, callers)

    def find(self, text: str, now: float) -> Caller:
        """Whose key `text` is. Refused with 401 for a key that is unknown or over, with 403 for a suspended tenant.

        The table is asked for the digest, whose bits an attacker cannot choose one by one: how long that takes says
        nothing about any key.
        """
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        caller = self.callers.get(digest)
        if caller is None or len(text) > MAX_KEY or not hmac.compare_digest(caller.key.sha256, digest):
            raise Refused(401, "KV-GATE-021", "unknown_key", "this API key is not known")
        self._judge(caller, now)
        return caller

    def still(self, caller: Caller, scope: str, now: float) -> Refused | None:
        """Why a request that is under way may not go on; None: it may."""
        found = self.callers.get(caller.key.sha256)
        if found is None or found.tenant.name != caller.tenant.name:
            return Refused(401, "KV-GATE-021", "unknown_key", "this API key was revoked")
        try:
            self._judge(found, now)
            check_scope(found, scope)
        except Refused as refused:
            return refused
        return None

    @staticmethod
    def _judge(caller: Caller, now: float) -> None:
        if caller.tenant.state == "suspended":
            raise Refused(403, "KV-GATE-022", "suspended", "this tenant is suspended")
        if caller.key.expires_at is not None and now >= caller.key.expires_at:
            raise Refused(401, "KV-GATE-023", "expired_key", "this API key is over")


def key_of(authorization: Iterable[str], x_api_key: Iterable[str]) -> str:
    """The API key that a client sent, in either family's way. Refused with 401 when there is none, or two.

    Each is the header as often as it was sent: a proxy on the way may have gone by another one than the first.
    """
    split = [text.partition(" ") for text in authorization]
    bearers = [rest.strip() for scheme, _, rest in split if scheme.lower() == "bearer"]
    found = {text for text in [*bearers, *x_api_key] if text}
    if len(found) != 1:
        why = "no API key was sent" if not found else "two different API keys were sent"
        raise Refused(401, "KV-GATE-024", "no_key", why, headers={"WWW-Authenticate": "Bearer"})
    return found.pop()


def check_scope(caller: Caller, scope: str) -> None:
    """Refused with 403 when the key is for other routes."""
    if caller.key.scopes and scope not in caller.key.scopes:
        raise Refused(403, "KV-GATE-025", "scope", f"this API key is not for {scope}")
