"""Tier moves: what one would touch, what each store is asked for, and what it came to. Plain data in and out."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvctl.types.chunks import TierName
from kvctl.types.errors import UsageError

KINDS = {"common": "common", "private": "conversation"}  # kind of chunk -> its class in the catalogue
MODEL = re.compile(r"[0-9a-f]{32}")
LEASED = "leased"  # the store's word for a chunk that somebody reads just now


@dataclass(frozen=True, slots=True)
class Selection:
    """Which chunks go from where to where. `store` None: of every store; `model`: the fingerprint's first 16 bytes."""

    tenant: str
    source: str
    target: str
    store: str | None = None
    model: str | None = None
    kind: str | None = None  # common | private

    def check(self) -> None:
        """UsageError KV-TIER-001 for what is no selection."""
        tiers = [str(tier) for tier in TierName]
        wrong = ""
        if self.source not in tiers or self.target not in tiers:
            wrong = f"a tier is one of {', '.join(tiers)}"
        elif self.source == self.target:
            wrong = f"{self.source} is where the chunks are"
        elif self.kind is not None and self.kind not in KINDS:
            wrong = f"a kind is one of {', '.join(KINDS)}"
        elif self.model is not None and not MODEL.fullmatch(self.model):
            wrong = "a model is 32 hexadecimal digits: kvctl fingerprint shows them"
        if wrong:
            raise UsageError("KV-TIER-001", "this is no move", why=wrong, fix="kvctl tier propose --help")

    @property
    def payload(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant, "source": self.source, "target": self.target, "store": self.store,
            "model": self.model, "kind": self.kind,
        }  # fmt: skip


def impact(stores: Sequence[Mapping[str, Any]], holds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the catalogue says that a move would touch: per store, and the holds it meets. What cannot be predicted is
    null, with the reason."""
    size = sum(row["bytes"] for row in stores)
    return {
        "chunks": sum(row["chunks"] for row in stores),
        "bytes": size,
        "tenants": 1,
        "stores": {row["store"]: {"chunks": row["chunks"], "bytes": row["bytes"]} for row in stores},
        "holds": [row["hold"] for row in holds],
        "held": {row["hold"]: row["chunks"] for row in holds},
        "hit_rate_change": None,
        "hit_rate_why": "reads are not predicted: kvctl size gives an estimate from a trace",
        "cost": {"bytes_read": size, "bytes_written": size, "money": None},
        "cost_why": "no prices are configured: a move reads and writes each byte once",
    }


def steps(move: str, of: Selection, stores: Iterable[str], *, back: bool = False) -> list[dict[str, Any]]:
    """What each store is asked for. Going back takes the chunks that the move itself has moved, and no others."""
    request: dict[str, Any] = {"id": f"{move}.back" if back else move}
    request |= {"source": of.target, "target": of.source} if back else {"source": of.source, "target": of.target}
    request |= {"tenant": of.tenant}
    if back:
        request["undo"] = move
    else:
        request |= {name: getattr(of, name) for name in ("model", "kind") if getattr(of, name) is not None}
    return [{"store": store, "request": request} for store in stores]


def outcome(planned: Sequence[str], ran: Mapping[str, Mapping[str, Any]], *, back: bool) -> tuple[str, str]:
    """The state that a move ends in, and why that is not all: from what each store last said, by store."""
    missing = [store for store in planned if store not in ran]
    said = [f"{store}: {row['why'] or row['state']}" for store, row in ran.items() if row["state"] != "done"]
    failed = sum(sum((row["failed"] or {}).values()) for row in ran.values())
    skipped: dict[str, int] = {}
    for row in ran.values():
        for reason, count in (row["skipped"] or {}).items():
            skipped[reason] = skipped.get(reason, 0) + count
    why = [*said, *(f"{store}: not begun" for store in missing)]
    why += [f"{count} chunks stayed: {reason}" for reason, count in sorted(skipped.items())]
    why += [f"{failed} chunks failed"] * bool(failed)
    if failed or any(row["state"] == "failed" for row in ran.values()):
        return "failed", "; ".join(why)
    if missing or said or skipped.get(LEASED):
        return "stopped", "; ".join(why)
    return ("rolled-back" if back else "done"), "; ".join(why)
