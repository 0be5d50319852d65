"""The pages of the terminal console as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvctl.types import requests as r

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Screen:
    """One table: an operation, which list of its answer is shown, and which columns."""

    name: str
    operation: str
    request: Any
    rows: str
    columns: tuple[str, ...]
    identity: tuple[str, ...]  # columns that tell one row from another
    faults: tuple[str, ...] = ()  # states that need eyes; the first column of `states` has them
    states: str = "state"


SCREENS = (
    Screen(
        "findings",
        "fleet.findings",
        r.Nothing(),
        "findings",
        ("node", "check", "subject", "verdict", "severity"),
        ("node", "check", "subject"),
        ("fail", "unknown"),
        "verdict",
    ),
    Screen(
        "stores",
        "store.ls",
        r.Nothing(),
        "stores",
        ("store", "state", "seen_at", "why"),
        ("store",),
        ("unreachable", "failed", "gap"),
    ),
    Screen(
        "tenants",
        "tenant.ls",
        r.TenantScope(),
        "tenants",
        ("tenant", "state", "sla", "entity"),
        ("tenant",),
        ("suspended", "offboarding"),
    ),
    Screen(
        "tiers",
        "usage.show",
        r.UsageShow(),
        "stored",
        ("tenant", "store", "tier", "copies", "bytes"),
        ("tenant", "store", "tier"),
    ),
    Screen(
        "moves",
        "move.ls",
        r.TenantScope(),
        "moves",
        ("id", "tenant", "state", "source", "target", "moved"),
        ("id",),
        ("failed", "stopped"),
    ),
    Screen(
        "approvals",
        "approve.ls",
        r.ApprovalList(),
        "approvals",
        ("id", "kind", "tenant", "state", "requester", "reason"),
        ("id",),
        ("pending",),
    ),
    Screen(
        "runs",
        "run.ls",
        r.Listed(),
        "runs",
        ("id", "state", "started", "steps", "done", "failed"),
        ("id",),
        ("failed", "interrupted"),
    ),
    Screen(
        "audit",
        "audit.log",
        r.AuditLog(),
        "events",
        ("idx", "ts", "kind", "actor", "tenant", "outcome"),
        ("idx",),
        ("denied", "failed", "refused"),
        "outcome",
    ),
)
