"""Telling every store what it must know of tenants: who there is and in which state, revoked leases, destroyed scopes.

Everything is told each time. A store that has heard it before has nothing to do, and one that was away or lost its
state hears all of it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvctl.connector.canary import TENANT as CANARY
from kvctl.controller.clock import now
from kvctl.controller.stores import StoreAddress, ask
from kvctl.govern.policy import Policy, of_rows
from kvctl.govern.residency import decide
from kvctl.state import policies
from kvctl.state import tenants as state
from kvctl.types.errors import KvctlError, UnreachableError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal

if TYPE_CHECKING:
    from kvctl.controller.core import Controller

AT_ONCE = 16  # stores
SECONDS = 4.0  # for one answer: within the five in which a revocation is everywhere
ERASE_SECONDS = 120.0
IDS = 1000  # of one revocation, as many as a store takes
UNKNOWN = "refuse"  # what a store does with a tenant that is not on the list
SERVED = {"active": "active", "suspended": "suspended", "offboarding": "suspended"}
LANDING = "flash"  # the tier that a PUT goes to
# The scope in which a deployment writes one chunk and reads it back.
CANARY_TENANT = {"tenant": CANARY, "state": "active", "quota_bytes": 64 << 20}
NO_VERB = "KV-STORE-012"
HELD, MANY = "KV-TEN-011", "KV-TEN-013"
CODES = {
    "KV-TEN-011": "A store keeps chunks that were to be erased: they are held.",
    "KV-TEN-013": "There are more tenants than a store can be told of.",
}
MOST = 30_000  # tenants of one list: with the longest names it is as long as a store's admin side takes (4 MiB)
OLDER = "KV-STORE-024"  # a store has a later list already


@dataclass(frozen=True, slots=True)
class Message:
    """What stores are told; `tenants` and `erase` by store, as requests."""

    version: int
    tenants: dict[str, list[dict[str, Any]]] | None  # by store; None: this site never had one
    revoked: list[str]
    erase: dict[str, list[dict[str, str]]]


def push(ctl: Controller, who: Principal = SYSTEM) -> list[dict[str, Any]]:
    """Tell every store, at the same time: [{store, ok, ms, answers: [{verb, ok, answer | error}]}].

    On record is what changed: a version that a store took, a scope that it erased, or that it did not answer.
    """
    stores = {name: StoreAddress.of(how) for name, how in ctl.settings.stores.items()}
    if not stores:
        return []
    with ctl.books.deciding() as db:
        message = _message(db, list(stores), ctl.settings.country)
    with ThreadPoolExecutor(AT_ONCE, "push") as pool:
        told = list(pool.map(lambda name: _tell(name, stores[name], message), stores))
    _record(ctl, who, message.version, told)
    return told


def has_erased(one: dict[str, Any]) -> bool:
    """Whether a store, by its entry in the answer of `push`, has erased all it was to erase."""
    return all(a["ok"] or (a["verb"] != "erase" and not a["unreachable"]) for a in one["answers"])


def _message(db: Any, stores: list[str], home: str) -> Message:
    known = [row for row in state.tenants(db) if row["state"] in SERVED]
    policy = of_rows(policies.in_force(db))
    tenants = {store: [CANARY_TENANT, *(_at_store(row, policy, store, home) for row in known)] for store in stores}
    done = state.erased_scopes(db)
    erase = {
        store: [
            {"tenant": str(r["tenant"]), "domain": str(r["domain"]), "epoch": str(r["epoch"])}
            for r in state.destroyed(db)
            if (store, r["tenant"], r["domain"], r["epoch"]) not in done
        ]
        for store in stores
    }
    told = tenants if state.tenants(db) else None
    return Message(state.number(db), told, state.revoked_capabilities(db, now()), erase)


def _at_store(row: dict[str, Any], policy: Policy, store: str, home: str) -> dict[str, Any]:
    """A tenant as one store serves it: suspended where its residency policy does not let its bytes land."""
    tenant, served = str(row["tenant"]), SERVED[str(row["state"])]
    if tenant in policy.residency and not decide(policy, tenant, store, LANDING, home=home).allowed:
        served = "suspended"
    return {"tenant": tenant, "state": served, "quota_bytes": row["quota_bytes"]}


def _tell(name: str, address: StoreAddress, message: Message) -> dict[str, Any]:
    begun = time.monotonic()
    answers: list[dict[str, Any]] = []
    for verb, body, seconds in _requests(name, message):
        answer = _ask(address, verb, body, seconds)
        answers.append(answer)
        if answer.get("unreachable"):
            break
    return {
        "store": name,
        "ok": all(a["ok"] for a in answers),
        "ms": round((time.monotonic() - begun) * 1000),
        "answers": answers,
    }


def _requests(name: str, message: Message) -> list[tuple[str, dict[str, Any], float]]:
    asked: list[tuple[str, dict[str, Any], float]] = []
    ids = message.revoked
    asked += [("revoke", {"ids": ids[at : at + IDS]}, SECONDS) for at in range(0, len(ids), IDS)]
    if message.tenants is not None:  # a site without tenants governs none: stores keep to their own configuration
        body = {"version": message.version, "tenants": message.tenants[name], "unknown": UNKNOWN}
        asked.append(("tenants", body, SECONDS))
    return asked + [("erase", dict(scope), ERASE_SECONDS) for scope in message.erase[name]]


def _ask(address: StoreAddress, verb: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
    about = {"verb": verb, **({"asked": body} if verb == "erase" else {})}
    if verb == "tenants" and len(body["tenants"]) > MOST:
        why = f"{len(body['tenants']) - 1} tenants; its list holds {MOST - 1}, and it keeps to the one it has"
        found = {"code": MANY, "what": CODES[MANY], "why": why}
        return {**about, "ok": False, "error": found, "unreachable": False}
    try:
        answer = ask(address, verb, body, timeout=seconds)
    except KvctlError as error:
        found = {"code": error.code, "what": error.what, "why": error.why}
        if error.code == NO_VERB:
            found["what"] = f"this store's version does not know {verb!r}: it goes by leases and its own configuration"
        return {**about, "ok": False, "error": found, "unreachable": isinstance(error, UnreachableError)}
    if verb == "erase" and (held := answer.get("held", 0)):
        found = {"code": HELD, "what": f"{held} chunks are held there", "why": "the store was told of a hold"}
        return {**about, "ok": False, "answer": answer, "error": found, "unreachable": False}
    return {**about, "ok": True, "answer": answer}


def _record(ctl: Controller, who: Principal, version: int, told: list[dict[str, Any]]) -> None:
    with ctl.books.deciding() as db:
        last = state.last_told(db)
        if state.number(db) > version:
            _overtaken(told)
        events = [
            Event("scope.erased", {"store": one["store"], "answer": a["answer"], **a["asked"]}, a["asked"]["tenant"])
            for one in told
            for a in one["answers"]
            if a["verb"] == "erase" and a["ok"]
        ]
        for one in told:
            outcome = "ok" if one["ok"] else "failed"
            if last.get(one["store"]) != (version, outcome):
                events.append(Event("store.told", _summary(one, version), outcome=outcome))
        ctl.books.commit(who, events)


def _overtaken(told: list[dict[str, Any]]) -> None:
    """A later change was pushed at the same time and came first: nothing is missing."""
    for one in told:
        for answer in one["answers"]:
            if not answer["ok"] and answer["error"]["code"] == OLDER:
                answer["ok"] = True
        one["ok"] = all(answer["ok"] for answer in one["answers"])


def _summary(one: dict[str, Any], version: int) -> dict[str, Any]:
    errors = [{"verb": a["verb"], "code": a["error"]["code"]} for a in one["answers"] if not a["ok"]]
    return {"store": one["store"], "version": version, "ms": one["ms"], "errors": errors[:20]}
