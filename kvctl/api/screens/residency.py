"""Residency: where copies are and were, by the rule that lets them be there, and what another policy would change."""

from kvctl.api.menu import Field, Form, Page, Part
from kvctl.api.screens.common import ANY_TENANT, POLICY, REASON, TENANT

PLACE = ("tenant", "verdict", "rule", "country", "site", "store", "tier", "chunks", "bytes")


PAGES = (
    Page(
        "/residency",
        "Residency",
        "Where copies are, by the rule that lets them be there.",
        group="Data",
        icon="globe",
        parts=(
            Part(
                "Outside the policy",
                "residency.now",
                "outside",
                PLACE,
                "No copy is outside the policy in force.",
                takes=("tenant",),
                live="policy. move.",
            ),
            Part(
                "Copies by place",
                "residency.now",
                "copies",
                PLACE,
                "No copies. They show when a store is registered and a tenant's prompts have been cached.",
                filters=(ANY_TENANT,),
                takes=("tenant",),
                live="policy. move.",
            ),
            Part(
                "At another time",
                "residency.history",
                "copies",
                PLACE,
                "Choose a tenant and a time, to see where its copies were and which policy was in force.",
                needs=("tenant", "at"),
                filters=(TENANT, Field("at", "Time (UTC)", required=True, kind="time")),
            ),
            Part(
                "Policies in force",
                "policy.show",
                "residency",
                (
                    "tenant",
                    "version",
                    "storage_countries",
                    "processing_countries",
                    "support_countries",
                    "controlled_by",
                    "valid_from",
                    "approval",
                ),
                "No policy: copies stay in the controller's own country. Apply one below.",
                live="policy.",
            ),
            Part(
                "Sites",
                "policy.show",
                "sites",
                ("name", "country", "entity"),
                "No site is declared.",
                live="policy.",
            ),
            Part(
                "Places",
                "policy.show",
                "places",
                ("store", "tier", "site", "country", "entity_country", "controlled_by"),
                "No store's tier has a declared site: it counts as unknown.",
                live="policy.",
            ),
        ),
        forms=(
            Form(
                "residency.whatif",
                "What if",
                "Show what would change",
                (POLICY,),
                dry=False,
                about="What would be outside under another policy. Nothing is changed.",
            ),
            Form(
                "policy.apply",
                "Put a policy in force",
                "Apply",
                (POLICY, REASON),
                about="What weakens it waits for two approvals; what tightens it, for one.",
            ),
        ),
    ),
)
