"""Stores that are no more: somebody says so, somebody else agrees, and erasures no longer wait for them.

Nobody can look: a receipt says who declared it, and that nothing was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvctl.controller import approvals
from kvctl.govern.approvals import Request
from kvctl.state import catalogue, erasures
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import StoreDestroyed

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

KIND = "store.destroyed"
VOTES = 1  # four eyes: who declares it, and one other


def declare(ctl: Controller, who: Principal, p: StoreDestroyed) -> dict[str, Any]:
    """Ask for a store to be taken for destroyed. `impact`: what the catalogue has there.

    UsageError KV-STORE-036 without a reason, 037 for one that the catalogue never had; RefusedError KV-STORE-035 while
    the controller has it in its settings.
    """
    if not p.reason.strip():
        raise UsageError("KV-STORE-036", "a store that is destroyed needs a reason", fix="say how, and who saw it")
    payload = {"store": p.store, "reason": p.reason}
    impact = impact_of(ctl, payload)
    document = {"schema": "kvctl.store.destroyed/1", "store": p.store, "impact": impact}
    if p.dry_run:
        return document | {"would": f"ask for {VOTES} approval", "approval": None}
    asked = approvals.request(ctl, who, KIND, None, payload, impact, VOTES, p.reason)
    return document | {"state": "pending", **asked}


def impact_of(ctl: Controller, payload: Mapping[str, Any]) -> dict[str, Any]:
    store = payload["store"]
    if store in ctl.settings.stores:
        raise RefusedError(
            "KV-STORE-035", f"{store} is in the controller's settings", why="what is asked there is not destroyed",
            fix="take it out of `stores` in controller.yaml first",
        )  # fmt: skip
    with ctl.books.state.reading() as db:
        found = erasures.at_store(db, store)
        if not found["copies"] and catalogue.source(db, store) is None:
            raise UsageError("KV-STORE-037", f"the catalogue never had a store {store[:80]!r}")
    return found


def execute(ctl: Controller, who: Principal, request: Request) -> list[Event]:
    """What is recorded when somebody else agreed: from then on its copies are gone."""
    content = request.content
    impact_of(ctl, content)
    agreed = sorted({*(v for v, vote in request.votes.items() if vote == "yes" and v not in request.void)})
    about = {"declared_by": request.requester, "agreed_by": agreed, "approval": request.id}
    return [Event(KIND, {"store": content["store"], "reason": content["reason"], **about})]


EXECUTE = {KIND: approvals.Executor(impact_of, execute)}
