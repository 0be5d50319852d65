"""Tenants with what they hold and use, moves between tiers, and what waits for approval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kvctl.tui.tables import Ask, Column, Doc, Level, Table, never, of, whole
from kvctl.tui.words import NOT_KNOWN, described, moment, plain, size, state
from kvctl.types.errors import KvctlError
from kvctl.types.requests import ApprovalList, Nothing, TenantScope, UsageShow

UNEASY = ("suspended", "offboarding")


def tenants(ask: Ask) -> Sequence[Doc]:
    """Each tenant with `tiers` (tier -> bytes) and `requests`; None for what cannot be said."""
    found = ask("tenant.ls", TenantScope())["tenants"]
    try:
        usage = ask("usage.show", UsageShow())
    except KvctlError as error:
        return [{**tenant, "tiers": None, "requests": None, "usage_error": error.code} for tenant in found]
    tiers: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in usage["stored"]:
        tiers[row["tenant"]][row["tier"]] += row["bytes"]
    counts: dict[str, int] = defaultdict(int)
    for row in usage["requests"]:
        counts[row["tenant"]] += row["requests"]
    partial = [row["store"] for row in usage["stores"] if row["state"] != "ok"]
    metered = all(row["state"] == "ok" for row in usage["gateways"]) and bool(usage["gateways"])
    return [
        {
            **tenant, "tiers": dict(tiers[tenant["tenant"]]), "stores_not_read": partial,
            "requests": counts[tenant["tenant"]] if metered or tenant["tenant"] in counts else None,
        }
        for tenant in found
    ]  # fmt: skip


def held(tenant: Doc) -> str:
    """Bytes by tier. What a store did not say is missing from them, and the text says so."""
    if tenant["tiers"] is None:
        return f"{NOT_KNOWN}: {plain(tenant['usage_error'])}"
    parts = [f"{plain(tier)} {size(count)}" for tier, count in sorted(tenant["tiers"].items())]
    missing = "? not all stores read" if tenant["stores_not_read"] else ""
    return "; ".join([*parts, *([missing] if missing else [])]) or "nothing"


def moves(ask: Ask) -> Sequence[Doc]:
    return list(ask("move.ls", TenantScope())["moves"])


def progress(move: Doc) -> str:
    """Chunks and bytes that are moved, as the stores that are at work say, or as the books do."""
    stores = move.get("progress")
    if stores:
        return "; ".join(f"{plain(store)} {plain(how)}" for store, how in stores.items())
    if move.get("moved") is None:
        return f"approval {plain(move.get('approval_state'))}" if move["state"] == "proposed" else NOT_KNOWN
    return f"{move['moved']} chunks, {size(move.get('bytes'))}"


def approvals(ask: Ask) -> Sequence[Doc]:
    return list(ask("approve.ls", ApprovalList())["approvals"])


def pending(ask: Ask) -> Sequence[Doc]:
    return list(ask("approve.ls", ApprovalList(state="pending"))["approvals"])


def stores(ask: Ask) -> Sequence[Doc]:
    return list(ask("store.ls", Nothing())["stores"])


def known(count: int | None) -> str:
    return NOT_KNOWN if count is None else str(count)


def document(name: str) -> Any:
    def behind(doc: Doc) -> Level:
        return whole(plain(doc.get(name)), described(doc))

    return behind


TENANTS = Table(
    "tenants",
    (
        Column("tenant", 16, of("tenant")), Column("state", 14, of("state"), state), Column("sla", 7, of("sla")),
        Column("bytes by tier", 0, held), Column("requests", 9, of("requests"), known),
    ),
    of("tenant"), tenants, lambda t: t["state"] in UNEASY, document("tenant"),
)  # fmt: skip
MOVES = Table(
    "tier moves",
    (
        Column("move", 14, of("id")), Column("tenant", 12, of("tenant")), Column("state", 14, of("state"), state),
        Column("from", 7, of("source")), Column("to", 7, of("target")), Column("progress", 0, progress),
    ),
    of("id"), moves, lambda m: m["state"] in ("failed", "stopped"), document("id"),
)  # fmt: skip
APPROVAL = (
    Column("approval", 14, of("id")), Column("what", 14, of("kind")), Column("tenant", 10, of("tenant")),
    Column("state", 11, of("state"), state), Column("yes", 4, lambda a: f"{a['yes']}/{a['required']}"),
    Column("by", 0, of("requester")), Column("expires", 16, of("expires"), lambda at: moment(at)[:16]),
)  # fmt: skip
PENDING = Table("pending approvals", APPROVAL, of("id"), pending, never, document("id"))
APPROVALS = Table(
    "approvals", APPROVAL, of("id"), approvals, lambda a: a["state"] in ("pending", "aborted"), document("id")
)
STORES = Table(
    "stores",
    (
        Column("store", 16, of("store")), Column("state", 16, of("state"), state),
        Column("read", 20, of("seen_at"), moment), Column("why", 0, of("why")),
    ),
    of("store"), stores, lambda s: s["state"] != "ok", document("store"),
)  # fmt: skip
