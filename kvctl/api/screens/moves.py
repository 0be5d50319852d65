"""Tier moves: proposed with their impact, approved by somebody else, carried out with progress."""

from collections.abc import Callable

from kvctl.api.menu import Action, Field, Form, Page, Part, Row
from kvctl.api.screens.common import REASON, TENANT
from kvctl.api.screens.posture import under_way

MOVE = (("move", "id"),)
TIERS = ("flash", "disk", "object", "archive")


def in_state(*states: str) -> Callable[[Row], bool]:
    return lambda row: row["state"] in states


def may_begin(row: Row) -> bool:
    return bool(row["approval_state"] == "approved" and row["state"] == "proposed")


ACTIONS = (
    Action("tier.move", "Carry out", MOVE, may_begin),
    Action("tier.stop", "Stop", MOVE, under_way, "danger"),
    Action("tier.resume", "Resume", MOVE, in_state("stopped", "failed")),
    Action("tier.rollback", "Bring back", MOVE, in_state("done", "stopped", "failed")),
)

PAGES = (
    Page(
        "/moves",
        "Tier moves",
        "Between flash, disk and object stores: decided by residency, approved, verified at the other end.",
        group="Change",
        icon="arrows",
        parts=(
            Part(
                "Tier moves",
                "move.ls",
                "moves",
                (
                    "id",
                    "tenant",
                    "state",
                    "progress",
                    "source",
                    "target",
                    "store",
                    "moved",
                    "bytes",
                    "failed",
                    "approval",
                    "approval_state",
                    "why",
                    "proposed_at",
                ),
                "No move yet. Propose one below; a second person approves it.",
                ACTIONS,
                live="move. approval.",
                busy=under_way,
                takes=("tenant",),
                filters=(Field("tenant", "Tenant", suggest="tenants", hint="none: all"),),
            ),
        ),
        forms=(
            Form(
                "tier.propose",
                "Propose a move",
                "Propose",
                (
                    TENANT,
                    Field("source", "From", choices=TIERS),
                    Field("target", "To", choices=("disk", "object", "archive", "flash")),
                    Field("store", "Store", hint="none: all", suggest="stores"),
                    Field("model", "Model", hint="none: all"),
                    Field("kind", "Kind", choices=("", "common", "private"), hint="none: both"),
                    REASON,
                ),
                about="Shows how many chunks and bytes, which holds it meets, and which rule would refuse it.",
            ),
        ),
    ),
)
