"""Erasure: what a request covers, how it ends, and the receipt that says so. Pure: docs/erasure.md shows a receipt."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

DAYS = 30  # to answer a request: GDPR, Article 12(3)
AGAIN, LATEST = timedelta(minutes=4), timedelta(hours=6)  # the first wait is below the interval of the job
SCHEMA = "kvctl.erasure-receipt/1"
MOST = 25  # entries of a list in a receipt, which is one entry of the log: 64 KiB; the rest is a number
NAMED = 3  # holds in one line
LONGEST = 200  # characters of a reason
KEY_DESTROYED = "key destroyed, then removed from the tier"
REMOVED = "removed from the tier: index entries erased, space given back"
ALWAYS_NOT_COVERED = (
    "page cache and swap of engines, and what an engine computes from a prompt that is sent again",
    "blocks inside a drive that its controller has retired: see the drive's certificate of sanitization",
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to be erased: a tenant, one of its domains, one of its users, or what it stored for a model or in a
    time. Times are RFC 3339 texts of one form; what was stored at `until` is not in it."""

    kind: str  # tenant | domain | subject | model | time
    tenant: str
    domain: str | None = None
    subject: str | None = None
    model: str | None = None
    stored_from: str | None = None
    stored_until: str | None = None

    @property
    def by_key(self) -> bool:
        """Whether it is all of a domain, so that destroying keys erases it."""
        return self.kind in ("tenant", "domain")

    def sha256(self, received: str) -> str:
        """Of the query that selects the copies, so that two receipts for the same one can be told."""
        text = json.dumps({**asdict(self), "received": received}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def meets(self, hold: Mapping[str, Any]) -> bool:
        """Whether a hold in force may be of something in this scope."""
        if hold["tenant"] != self.tenant:
            return False
        if self.domain is not None and hold["domain"] not in (None, self.domain):
            return False
        if self.model is not None and hold["model"] not in (None, self.model):
            return False
        return self.subject is None or hold["subject"] in (None, self.subject)


@dataclass(slots=True)
class AtStore:
    """What happened at one store."""

    store: str
    removed: dict[str, int] = field(default_factory=dict)  # chunks by tier, as the store counted them
    held: int = 0
    probed: int = 0
    absent: int = 0
    present: int = 0  # of the probed ones; not held, and not stored anew
    anew: int = 0
    known: int = 0  # names that could be probed
    not_reached: list[str] = field(default_factory=list)  # mounts and buckets
    error: str = ""
    destroyed: str = ""  # declared by whom, when: nobody can be asked

    @property
    def done(self) -> bool:
        return not (self.error or self.not_reached or self.present)

    def document(self) -> dict[str, Any]:
        cut = {"error": self.error[:LONGEST], "destroyed": self.destroyed[:LONGEST]}
        return {**asdict(self), **cut, "done": self.done}


def wait(attempts: int) -> timedelta:
    """Until an erasure that was tried so often is tried again by itself: each try has every engine drop its caches."""
    return min(AGAIN * 2 ** min(attempts - 1, 16), LATEST) if attempts else timedelta(0)


def outcome(stores: Sequence[AtStore], kept_keys: Sequence[str]) -> str:
    """open: it is tried again; restricted: a hold keeps something of it (GDPR, Article 18); erased."""
    if not all(store.done for store in stores):
        return "open"
    return "restricted" if kept_keys or any(store.held for store in stores) else "erased"


def receipt(
    *, scope: Scope, about: Mapping[str, Any], copies: Sequence[Mapping[str, Any]], stores: Sequence[AtStore],
    keys: Sequence[Mapping[str, Any]], kept_keys: Sequence[str], flushes: Sequence[Mapping[str, Any]],
    backups: Sequence[Mapping[str, Any]], holds: Sequence[str], unknown_users: int, versions: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The document. `about`: erasure, received, due, started, ended, requested_by, index_at_snapshot."""
    method = KEY_DESTROYED if scope.by_key else REMOVED
    by_key = {key["domain"] for key in keys}
    return {
        "schema": SCHEMA, **about, "scope": asdict(scope), "query_sha256": scope.sha256(about["received"]),
        "outcome": outcome(stores, kept_keys),
        "copies": [
            {**row, "method": method if row["domain"] in by_key else REMOVED}
            for row in copies[:MOST]
        ],
        "totals": {name: sum(row[name] for row in copies) for name in ("copies", "bytes")} | {"rows": len(copies)},
        "stores": [store.document() for store in stores[:MOST]], "stores_count": len(stores),
        "negative_probes": {
            name: sum(getattr(store, name) for store in stores)
            for name in ("known", "probed", "absent", "present", "anew")
        },
        "keys_destroyed": list(keys[:MOST]), "keys_destroyed_count": len(keys), "keys_kept_under_hold": list(kept_keys),
        "engines": [{**one, "why": one["why"][:LONGEST]} for one in flushes[:MOST]],
        "holds": list(holds[:MOST]), "approvals": [],
        "policy_versions": dict(versions),
        "not_covered": not_covered(scope, stores, flushes, backups, unknown_users, holds, kept_keys),
    }  # fmt: skip


def not_covered(
    scope: Scope, stores: Sequence[AtStore], flushes: Sequence[Mapping[str, Any]],
    backups: Sequence[Mapping[str, Any]], unknown_users: int, holds: Sequence[str] = (), kept_keys: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """What this erasure did not reach, in words."""
    found = [f"store {s.store}: {s.error[:LONGEST]}; it is tried again" for s in stores if s.error]
    found += [f"store {s.store}: {s.destroyed[:LONGEST]}; nothing was asked" for s in stores if s.destroyed]
    found += [f"store {s.store}: {place} could not be read" for s in stores for place in s.not_reached]
    named = f"under hold {', '.join(holds[:NAMED])}" if holds else "under a hold"
    found += [f"store {s.store}: {s.held} chunks {named}, which nobody can read" for s in stores if s.held]
    found += [f"the keys of {domain}: kept {named}" for domain in kept_keys]
    if not stores:
        found.append("no store is configured: nothing was asked")
    if not flushes:
        found.append("memory of engines (HBM and DRAM): no gateway is registered, so no engine was told")
    found += [
        f"memory of engine {one['engine']} (HBM and DRAM): it did not answer: {one['why'][:LONGEST]}"
        for one in flushes
        if not one["answered"]
    ]
    found += [
        f"backup {one['id']}, kept at {one['site']}: names and keys in it are there until {one['expires_at']}"
        for one in backups
    ]
    if scope.kind == "subject" and unknown_users:
        found.append(f"{unknown_users} copies for which no user was named: any of them may be of this user")
    return [*found[:MOST], *([f"{len(found) - MOST} more"] if len(found) > MOST else []), *ALWAYS_NOT_COVERED]
