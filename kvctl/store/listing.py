"""Listing chunks page by page, in order of tier, scope and key."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kvctl.store.api import Tier
from kvctl.store.deltas import described
from kvctl.types.chunks import TierName
from kvctl.types.errors import UsageError

Mark = tuple[int, str, str, str, str]  # of a tier, tenant, domain, epoch and key


def rows(
    tiers: Mapping[TierName, Tier], tenant: str | None, domain: str | None, after: str
) -> Iterator[dict[str, Any]]:
    """Rows behind the cursor `after`, of one tenant or domain or of all; only those scopes are looked at."""
    start = _cursor(after)
    for order, (name, tier) in enumerate(tiers.items()):
        if start is not None and order < start[0]:
            continue
        if start is None or order > start[0]:
            tier.flush()  # what was written in the last moments is in the index then
        for scope in sorted(tier.scopes()):
            place = (order, scope.tenant, scope.domain, scope.epoch.hex())
            if tenant not in (None, scope.tenant) or domain not in (None, scope.domain):
                continue
            if start is not None and place < start[:4]:
                continue
            behind = bytes.fromhex(start[4]) if start is not None and place == start[:4] else b""
            about = {"tenant": scope.tenant, "domain": scope.domain, "epoch": scope.epoch.hex(), "tier": str(name)}
            for _, record in tier.walk(scope, behind):
                row = about | described(record.key, record.length, record.stored_at, record.meta)
                yield row | {"cursor": _mark((*place, record.key.hex()))}


def _mark(place: Mark) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _cursor(after: str) -> Mark | None:
    if not after:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(after), type=Mark)
    except ValueError as bad:
        raise UsageError(
            "KV-STORE-022", "not a place to go on from", where=after[:200], fix="give a row's `cursor`"
        ) from bad
