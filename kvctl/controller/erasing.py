"""One erasure at its stores and gateways: erase, remove what is left, flush, and look whether anything answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kvctl.controller import epochs
from kvctl.controller.catalogue import address_of, sync
from kvctl.controller.clock import now
from kvctl.controller.stores import StoreAddress, ask
from kvctl.govern.erasure import LONGEST, AtStore, Scope
from kvctl.state import erasures, tenants
from kvctl.state.governance import Connection
from kvctl.types.errors import KvctlError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

SECONDS = 600.0  # for one store's erasure: index files are written anew
FLUSH_SECONDS = 60.0
PROBED = 20_000  # chunks of one store; of more, the first in the order of their names
BATCH = 5000  # keys of one request
Names = list[tuple[str, str, str]]  # domain, epoch, key


@dataclass(frozen=True, slots=True)
class About:
    """An erasure as it is on record: when it was received, and at which entry of the log."""

    erasure: str
    received: str
    index: int

    def reach(self, db: Connection) -> erasures.Reach:
        return erasures.reach(db, self.erasure, self.received, self.index, now())


def look_ahead(ctl: Controller, db: Connection, row: dict[str, Any]) -> None:
    """When it begins on a clock that was put back: put on record up to when what is there was placed."""
    erasure, tenant = str(row["id"]), str(row["tenant"])
    begun = row["receipt_idx"] is not None or erasures.attempts(db, erasure, None)[0]
    upto = None if begun else erasures.newest(db, tenant, now())
    if upto is not None:
        ctl.books.commit(SYSTEM, [Event("erasure.reaches", {"erasure": erasure, "upto": upto}, tenant)])


def destroy_keys(
    ctl: Controller, who: Principal, scope: Scope, index: int, held: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Destroy the keys of the epochs that were on record when the request came, at `index` of the log; a domain that is
    in use gets a new one.

    (rows with domain, epoch, receipt; domains whose keys a hold keeps). A key is of a whole domain, so any hold in
    the domain keeps it.
    """
    if not scope.by_key:
        return [], []
    with ctl.books.deciding() as db:
        before = tenants.epochs_before(db, scope.tenant, index)
        doomed = [e for e in tenants.epochs(db, scope.tenant, scope.domain) if (e["domain"], e["epoch"]) in before]
        kept = sorted({e["domain"] for e in doomed for h in held if h["domain"] in (None, e["domain"])})
        doomed = [e for e in doomed if e["domain"] not in kept]
        for domain in sorted({e["domain"] for e in doomed if e["retired_at"] is None}):
            old = [e for e in doomed if e["domain"] == domain and e["retired_at"] is None]
            fresh = epochs.create(ctl, scope.tenant, domain)
            retired = [Event("epoch.retired", {"domain": domain, "epoch": e["epoch"]}, scope.tenant) for e in old]
            ctl.books.commit(who, [fresh, *retired])
        if ours := [e for e in doomed if e["destroyed_at"] is None]:
            epochs.destroy(ctl, who, scope.tenant, ours)
        after = {(e["domain"], e["epoch"]): e for e in tenants.epochs(db, scope.tenant, scope.domain)}
    found = [after[e["domain"], e["epoch"]] for e in doomed]
    return [
        {"domain": e["domain"], "epoch": e["epoch"], "destroyed_at": e["destroyed_at"], "receipt": e["destroy_receipt"]}
        for e in found
    ], kept


def erase_at(ctl: Controller, store: str, scope: Scope, about: About, keys: list[dict[str, Any]]) -> AtStore:
    """Erase at one store, and probe it afterwards. What kept it from being done is in `error`."""
    done = AtStore(store)
    try:
        address = address_of(ctl, store)
        for body in _bodies(ctl, store, scope, keys):
            answer = ask(address, "erase", body, timeout=SECONDS)
            for tier, count in answer["removed"].items():
                done.removed[tier] = done.removed.get(tier, 0) + count
            done.held += answer.get("held", 0)
        _follow(ctl, store)
        with ctl.books.state.reading() as db:
            left = erasures.left(db, store, asdict(scope), about.reach(db))
        names = sorted({copy[:3] for copy in left})
        done.held = max(done.held, _remove(address, scope, names))
        _follow(ctl, store)
        _probe(ctl, address, done, scope, about, left)
    except KvctlError as error:
        done.error = f"{error.code}: {error.what}" + (f": {error.why}" if error.why else "")
    return done


def _follow(ctl: Controller, store: str) -> None:
    found = sync(ctl, store)
    if found["state"] != "ok":
        raise KvctlError("KV-ERA-005", "the catalogue could not follow the store", why=found["why"])


def _bodies(ctl: Controller, store: str, scope: Scope, keys: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if scope.kind == "subject":
        return [{"tenant": scope.tenant, "subject": scope.subject}]
    if not scope.by_key:
        return []  # the catalogue has their names: they go by those
    with ctl.books.state.reading() as db:
        present = {
            (e["domain"], e["epoch"])
            for e in tenants.current_epochs(db, scope.tenant)
            if scope.domain in (None, e["domain"])
        }
        there = {one for one in erasures.epochs_held(db, store, scope.tenant) if scope.domain in (None, one[0])}
    # What is in the present epoch is from after the request, or a hold keeps its key: that goes name by name.
    chosen = {(key["domain"], key["epoch"]) for key in keys} | (there - present)
    return [{"tenant": scope.tenant, "domain": d, "epoch": e} for d, e in sorted(chosen)]


def _remove(address: StoreAddress, scope: Scope, names: Names) -> int:
    """Remove by name what is left; how many of them are held."""
    held = 0
    for (domain, epoch), keys in _by_scope(names):
        body = {"tenant": scope.tenant, "domain": domain, "epoch": epoch, "keys": keys, "why": "erased"}
        held += len(ask(address, "remove", body, timeout=SECONDS)["held"])
    return held


def _probe(
    ctl: Controller, address: StoreAddress, done: AtStore, scope: Scope, about: About, left: list[erasures.Copy]
) -> None:
    with ctl.books.state.reading() as db:
        reach = about.reach(db)
        done.known, names = erasures.names(db, done.store, asdict(scope), reach, PROBED)
        anew = erasures.anew(db, done.store, scope.tenant, reach) if names else set()
        if reach.upto > about.received:  # a time that is still to come tells nothing of what came since: the rows do
            anew |= {copy[:3] for copy in set(erasures.left(db, done.store, asdict(scope), reach)) - set(left)}
    for (domain, epoch), keys in _by_scope(names):
        body = {"tenant": scope.tenant, "domain": domain, "epoch": epoch, "keys": keys}
        answer = ask(address, "probe", body, timeout=SECONDS)
        done.probed += len(answer["keys"])
        done.absent += answer["absent"]
        done.not_reached = sorted({*done.not_reached, *answer["not_reached"]})
        for row in answer["keys"]:
            if row["places"] and not row["held"]:
                fresh = (domain, epoch, row["key"]) in anew
                done.anew, done.present = done.anew + fresh, done.present + (not fresh)


def _by_scope(names: Names) -> list[tuple[tuple[str, str], list[str]]]:
    found = []
    for place, group in groupby(names, key=lambda name: name[:2]):
        keys = [name[2] for name in group]
        found += [(place, keys[at : at + BATCH]) for at in range(0, len(keys), BATCH)]
    return found


def flush(ctl: Controller) -> list[dict[str, Any]]:
    """Have every gateway's engines reset their caches: [{gateway, engine, answered, why}]."""
    found: list[dict[str, Any]] = []
    for name, settings in sorted(ctl.settings.gateways.items()):
        try:
            answer = ask(StoreAddress.of(settings), "flush", {}, timeout=FLUSH_SECONDS)
        except KvctlError as error:
            why = f"gateway {name} does not answer: {error.why or error.what}"
            found.append({"gateway": name, "engine": f"{name}/*", "answered": False, "why": why[:LONGEST]})
            continue
        found += [
            {
                "gateway": name,
                "engine": f"{name}/{one['engine']}",
                "answered": one["success"],
                "why": one["why"][:LONGEST],
            }
            for one in answer["engines"]
        ]
    return found
