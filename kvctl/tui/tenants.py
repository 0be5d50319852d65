"""Tenants with what they hold and use, and the stores that were asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kvctl.tui.moves import PROPOSE
from kvctl.tui.tables import Ask, Column, Doc, Level, Table, of, whole
from kvctl.tui.words import NOT_KNOWN, counted, described, moment, plain, size, state
from kvctl.types.errors import KvctlError
from kvctl.types.requests import Nothing, TenantScope, UsageShow

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


def stores(ask: Ask) -> Sequence[Doc]:
    return list(ask("store.ls", Nothing())["stores"])


def known(count: int | None) -> str:
    return NOT_KNOWN if count is None else str(count)


def tenant_level(doc: Doc) -> Level:
    return whole(plain(doc["tenant"]), described(doc))


def store_level(doc: Doc) -> Level:
    return whole(plain(doc["store"]), described(doc))


TENANTS = Table(
    "tenants",
    (
        Column("tenant", 16, of("tenant")), Column("state", 14, of("state"), state),
        Column("sla", 7, of("sla"), rank=2), Column("bytes by tier", 0, held),
        Column("requests", 9, of("requests"), known, rank=1),
    ),
    of("tenant"), tenants, lambda t: t["state"] in UNEASY, tenant_level, (PROPOSE,),
    lambda docs: counted(doc["state"] for doc in docs), "no tenants: kvctl tenant create NAME makes one",
)  # fmt: skip
STORES = Table(
    "stores",
    (
        Column("store", 16, of("store")), Column("state", 16, of("state"), state),
        Column("read (UTC)", 20, of("seen_at"), moment, rank=1), Column("why", 0, of("why")),
    ),
    of("store"), stores, lambda s: s["state"] != "ok", store_level,
    count=lambda docs: counted(doc["state"] for doc in docs),
    empty="no stores: kvctl deploy storage, then the controller's settings name them",
)  # fmt: skip
