"""Epochs of trust domains: made, retired, and their keys destroyed.

A key is in the key store before the event that says so. To destroy one is three steps: the event that it must go, its
destruction, the event with the receipt. `complete` takes up what a process that died in between has left.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kvctl.controller.clock import now
from kvctl.govern.tenants import check_holds
from kvctl.state import tenants as state
from kvctl.types.chunks import Scope
from kvctl.types.errors import KvctlError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

log = logging.getLogger(__name__)
AT_ONCE = 1000  # capability ids in one event: an entry of the log has at most 64 KiB


def create(ctl: Controller, tenant: str, domain: str) -> Event:
    """Make a key. The event that says so, for the caller to commit."""
    epoch = ctl.keystore.create(tenant, domain)
    fingerprint = ctl.keystore.fingerprint(Scope(tenant, domain, epoch))
    return Event("epoch.created", {"domain": domain, "epoch": epoch.hex(), "fingerprint": fingerprint}, tenant)


def revoked(tenant: str, ids: Sequence[str], reason: str) -> list[Event]:
    """Capabilities that stores are told to refuse."""
    return [
        Event("capability.revoked", {"ids": list(ids[at : at + AT_ONCE]), "reason": reason}, tenant)
        for at in range(0, len(ids), AT_ONCE)
    ]


def destroy(
    ctl: Controller, who: Principal, tenant: str, epochs: Iterable[dict[str, Any]], also: Sequence[Event] = ()
) -> list[dict[str, Any]]:
    """Destroy the keys of epochs of one tenant (rows with domain and epoch); `also` is committed with the intent.

    [{domain, epoch, receipt}]. RefusedError KV-TEN-008 under a hold: then nothing is done. OSError when a key could not
    be destroyed: it is taken up again when the books are opened, and by asking again.
    """
    scopes = [(str(row["domain"]), str(row["epoch"])) for row in epochs]
    with ctl.books.deciding() as db:
        at = now()
        check_holds(state.holds(db, at, tenant), [domain for domain, _ in scopes])
        leases = revoked(tenant, state.live_capabilities(db, at, tenant, scopes), "its key is destroyed")
        intents = [Event("epoch.destroying", {"domain": d, "epoch": e}, tenant) for d, e in scopes]
        ctl.books.commit(who, [*also, *leases, *intents])
        return [_finish(ctl, who, tenant, domain, epoch) for domain, epoch in scopes]


def complete(ctl: Controller) -> list[dict[str, Any]]:
    """Destroy what a process that died was to destroy; the same as `destroy`, with the tenants.

    Never raises for a key that still cannot be destroyed: its row has `error` in place of `receipt`, the log has it,
    and the next time the books are opened it is tried again.
    """
    with ctl.books.deciding() as db:
        return [_completed(ctl, str(r["tenant"]), str(r["domain"]), str(r["epoch"])) for r in state.unfinished(db)]


def _completed(ctl: Controller, tenant: str, domain: str, epoch: str) -> dict[str, Any]:
    try:
        return {"tenant": tenant, **_finish(ctl, SYSTEM, tenant, domain, epoch)}
    except (OSError, KvctlError) as error:
        log.error("the key of %s/%s, epoch %s, is not destroyed yet: %s", tenant, domain, epoch, error)
        return {"tenant": tenant, "domain": domain, "epoch": epoch, "error": str(error)}


def _finish(ctl: Controller, who: Principal, tenant: str, domain: str, epoch: str) -> dict[str, Any]:
    receipt = ctl.keystore.destroy(Scope(tenant, domain, bytes.fromhex(epoch)))
    done = {"domain": domain, "epoch": epoch, "receipt": receipt}
    ctl.books.commit(who, [Event("epoch.destroyed", done, tenant)])
    return done
