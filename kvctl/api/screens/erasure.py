"""Erasure: requests, and receipts that say what was not covered."""

from kvctl.api.menu import Field, Form, Page, Part
from kvctl.api.screens.common import TENANT, USER

PAGES = (
    Page(
        "/erasure",
        "Erasure",
        "Requests and their receipts.",
        group="Data",
        icon="eraser",
        parts=(
            Part(
                "Erasures",
                "erase.ls",
                "erasures",
                ("id", "tenant", "scope", "subject", "outcome", "requested_by", "received", "due", "closed"),
                "Nothing was erased yet. Begin below: what would be erased is shown first.",
                live="erasure.",
                takes=("tenant",),
                filters=(Field("tenant", "Tenant", suggest="tenants", hint="none: all"),),
            ),
        ),
        forms=(
            Form("erase.subject", "Erase a user", "Erase", (TENANT, USER), style="danger"),
            Form(
                "erase.chunks",
                "Erase a model or a time",
                "Erase",
                (
                    TENANT,
                    Field("model", "Model", hint="32 hexadecimal digits"),
                    Field("since", "Stored from (UTC)", kind="time"),
                    Field("until", "Stored before (UTC)", kind="time"),
                ),
                style="danger",
            ),
            Form(
                "erase.tenant",
                "Erase all of a tenant",
                "Erase",
                (TENANT, Field("domain", "Trust domain", hint="none: all")),
                style="danger",
                about="Destroys its keys. The tenant stays, and begins anew.",
            ),
        ),
    ),
    Page(
        "/erasure/{erasure}",
        "Erasure receipt",
        "What was erased where and how, what was not covered, and the proof.",
        parts=(Part("Receipt", "erase.receipt", view="receipt", needs=("erasure",), live="erasure."),),
    ),
)
