"""The verbs by which a controller governs a kvstored: what changed, what goes, what must stay, who is served."""

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta as Rule

from kvctl.store.api import Why
from kvctl.store.holds import HoldSet
from kvctl.store.requests import MOST, Hex16, Hex32, Request, Text
from kvctl.store.service import Service
from kvctl.store.tenants import TenantSet
from kvctl.types.chunks import Scope

LONGEST_WAIT = 60_000  # ms
WHY = {"expired": Why.EXPIRED, "retention": Why.REMOVED, "erased": Why.ERASED}


class Deltas(Request, frozen=True, kw_only=True):
    """Without `boot` the answer is a gap: the caller knows nothing of this run yet."""

    boot: str | None = None
    after: Annotated[int, Rule(ge=0)] = 0
    limit: Annotated[int, Rule(ge=1, le=MOST)] = 1000
    wait_ms: Annotated[int, Rule(ge=0, le=LONGEST_WAIT)] = 0


class Keys(Request, frozen=True, kw_only=True):
    tenant: Text
    domain: Text
    epoch: Hex16
    keys: Annotated[list[Hex32], Rule(min_length=1, max_length=MOST)]

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.domain, bytes.fromhex(self.epoch))

    @property
    def names(self) -> list[bytes]:
        return [bytes.fromhex(key) for key in self.keys]


class Remove(Keys, frozen=True, kw_only=True):
    why: Literal["expired", "retention", "erased"]


class Cancel(Request, frozen=True):
    id: Text


def deltas(service: Service, asked: Deltas) -> Any:
    seconds = asked.wait_ms / 1000
    told = service.store.deltas(asked.boot, asked.after, asked.limit, seconds, lambda: service.stopping)
    return {**told, "now": round(time.time(), 3)}


def remove(service: Service, asked: Remove) -> Any:
    done = service.store.remove(asked.scope, asked.names, WHY[asked.why])
    service.log.info("removed", tenant=asked.tenant, why=asked.why, chunks=done["removed"], held=len(done["held"]))
    return done


def probe(service: Service, asked: Keys) -> Any:
    return service.store.probe(asked.scope, asked.names)


def holds(service: Service, asked: HoldSet) -> Any:
    service.store.hold(asked)
    service.log.info("holds in force", version=asked.version, holds=len(asked.holds))
    return governance(service, Request())


def tenants(service: Service, asked: TenantSet) -> Any:
    service.push_tenants(asked)
    return governance(service, Request())


def governance(service: Service, _: Request) -> Any:
    """Versions in force."""
    given = service.live.served.given
    suspended = sorted(one.tenant for one in given.tenants if one.state == "suspended")
    about = {"version": given.version, "count": len(given.tenants), "suspended": suspended, "unknown": given.unknown}
    return {**service.store.governance(), "tenants": about}


def moves(service: Service, _: Request) -> Any:
    return {"moves": service.store.moves()}


def cancel(service: Service, asked: Cancel) -> Any:
    return service.store.cancel_move(asked.id)


Verb = tuple[Any, Callable[[Service, Any], Any]]  # the request's type, and what answers it
READS: dict[str, Verb] = {
    "/v1/deltas": (Deltas, deltas),
    "/v1/governance": (Request, governance),
    "/v1/moves": (Request, moves),
}
CHANGES: dict[str, Verb] = {
    "/v1/holds": (HoldSet, holds),
    "/v1/move/cancel": (Cancel, cancel),
    "/v1/probe": (Keys, probe),
    "/v1/remove": (Remove, remove),
    "/v1/tenants": (TenantSet, tenants),
}
