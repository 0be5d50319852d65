"""Policies, people who vote, and copies in the catalogue, for the tests of what is governed."""

from typing import Any

from kvctl.controller.core import Controller
from kvctl.types.principals import Principal, Role
from kvctl.types.requests import ApprovalNamed, ApprovalVote, PolicyApply

OPERATOR = Principal("unix:op", frozenset({Role.OPERATOR}), fresh=True)
OTHER_OPERATOR = Principal("unix:op2", frozenset({Role.OPERATOR}), fresh=True)
ANN, BOB, EVE = (
    Principal(f"local:{name}", frozenset({Role.APPROVER}), fresh=True) for name in ("ann", "bob", "eve")
)  # fmt: skip
DPO = Principal("local:dora", frozenset({Role.DPO}), fresh=True)

POLICY = """\
schema: kvctl.policy/1
entities:
  - {name: Acme SAS, country: FR}
  - {name: Host GmbH, country: DE, controlled_by: US}
sites:
  - {name: paris, country: FR, entity: Acme SAS}
  - {name: berlin, country: DE, entity: Host GmbH}
  - {name: dallas, country: US, entity: Host GmbH}
places:
  - {store: s1, site: paris}
  - {store: s1, tier: object, site: dallas}
  - {store: s2, site: berlin}
residency:
  - {tenant: acme, storage_countries: [FR, DE]}
retention:
  - {tenant: acme, class: conversation, minimum: 1h, maximum: 30d, idle: 7d}
"""


def apply(ctl: Controller, text: str = POLICY, who: Principal = OPERATOR, **more: Any) -> dict[str, Any]:
    return ctl.call("policy.apply", who, PolicyApply(text, **more))


def put_copies(
    ctl: Controller, count: int = 1, *, store: str = "s1", tier: str = "flash", tenant: str = "acme", first: int = 0,
    placed: str = "2026-01-01", removed: str | None = None, size: int = 100, kind: str = "conversation",
    subject: str | None = None, model: str = "0f" * 16,
) -> None:  # fmt: skip
    """Rows of the catalogue, as a store's deltas make them."""
    with ctl.books.state.writing() as db:
        db.execute(
            """INSERT INTO chunks BY NAME SELECT $store AS store, $tier AS tier, $tenant AS tenant, 'user' AS domain,
               'ee' AS epoch, ($first + i)::VARCHAR::BLOB AS key, $size AS bytes, $subject AS subject, $model AS model,
               $kind AS class, $placed::TIMESTAMP AS stored_at, $placed::TIMESTAMP AS placed_at,
               $removed::TIMESTAMP AS removed_at, 'xaes-256-gcm' AS sealed FROM range($count) r(i)""",
            {
                "store": store, "tier": tier, "tenant": tenant, "first": first, "size": size, "subject": subject,
                "model": model, "kind": kind, "placed": placed, "removed": removed, "count": count,
            },
        )  # fmt: skip


def payload_of(ctl: Controller, approval: str) -> str:
    found: str = ctl.call("approve.show", OPERATOR, ApprovalNamed(approval))["payload_sha256"]
    return found


def vote(ctl: Controller, who: Principal, approval: str, decision: str = "yes") -> dict[str, Any]:
    return ctl.call("approve.vote", who, ApprovalVote(approval, decision, payload_of(ctl, approval)))


def state_of(ctl: Controller, approval: str) -> str:
    found: str = ctl.call("approve.show", OPERATOR, ApprovalNamed(approval))["state"]
    return found


TABLES = (
    "events", "entities", "sites", "site_versions", "places", "subprocessors", "residency_policies",
    "retention_policies", "approvals", "votes", "decisions", "moves",
)  # fmt: skip


def tables(ctl: Controller) -> dict[str, list[tuple[Any, ...]]]:
    """What must be the same after every event was applied once more."""
    with ctl.books.state.reading() as db:
        return {name: db.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall() for name in TABLES}  # noqa: S608
