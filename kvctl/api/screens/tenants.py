"""Tenants: who may use the cache, with which keys and under which policies, and what they used."""

from kvctl.api.menu import Action, Field, Form, Page, Part, Row
from kvctl.api.screens.common import REASON

BY_TENANT = (("tenant", "tenant"),)
OF = ("tenant",)


def active(row: Row) -> bool:
    return bool(row["state"] == "active")


def suspended(row: Row) -> bool:
    return bool(row["state"] == "suspended")


def usable(row: Row) -> bool:
    return not row["revoked_at"]


REVOKE = Action("key.revoke", "Revoke", (("tenant", "tenant"), ("key", "id")), usable, "danger")
RESUME = Action("tenant.resume", "Resume", (*BY_TENANT, ("reason", "=from the console")), suspended)
KEYS = ("id", "tenant", "domain", "label", "created_by", "created_at", "expires_at", "revoked_at")
LIMITS = (
    Field("quota_bytes", "Quota in bytes", kind="number", hint="on all stores together; none: no limit"),
    Field("requests_per_minute", "Requests a minute", kind="number"),
    Field("tokens_per_day", "Tokens a day", kind="number"),
)
NEW_KEY = (
    Field("domain", "Trust domain", hint="user, unless it is said"),
    Field("label", "Label"),
    Field("days", "Days until it ends", kind="number", hint="90"),
)

PAGES = (
    Page(
        "/tenants",
        "Tenants",
        "Who may use the cache, and what they hold now.",
        group="Data",
        icon="people",
        parts=(
            Part(
                "Tenants",
                "tenant.ls",
                "tenants",
                ("tenant", "state", "sla", "entity", "quota_bytes", "requests_per_minute", "created_at"),
                "No tenant yet. Take one in below.",
                (RESUME,),
                live="tenant.",
            ),
            Part(
                "Bytes now",
                "usage.show",
                "stored",
                ("tenant", "store", "tier", "copies", "bytes"),
                "No store holds anything of a tenant.",
            ),
            Part(
                "API keys", "key.ls", "keys", KEYS, "No key yet. Make one on the tenant's page.", (REVOKE,), live="key."
            ),
        ),
        forms=(
            Form(
                "tenant.create",
                "Take a tenant in",
                "Take in",
                (
                    Field("tenant", "Name", required=True, hint="lower case, digits and dashes"),
                    Field("entity", "Legal entity", required=True),
                    Field("entity_country", "Its country", hint="two letters, such as FR"),
                    Field("sla", "SLA", choices=("silver", "gold", "bronze")),
                    *LIMITS,
                    Field("domains", "Trust domains", hint="comma separated; user, unless it is said"),
                ),
            ),
        ),
    ),
    Page(
        "/tenants/{tenant}",
        "Tenant",
        "Everything the controller has about one tenant.",
        parts=(
            Part("About", "tenant.show", view="tenant", live="tenant. key. epoch. hold.", needs=OF),
            Part(
                "Epochs",
                "tenant.show",
                "epochs",
                ("domain", "epoch", "created_at", "retired_at", "destroyed_at", "destroy_receipt"),
                "No epoch.",
                live="epoch. tenant.",
                about="Each trust domain's keys. A destroyed one makes every copy under it unreadable.",
                needs=OF,
            ),
            Part("API keys", "key.ls", "keys", KEYS, "No key yet. Make one below.", (REVOKE,), live="key.", needs=OF),
            Part(
                "Bytes now",
                "usage.show",
                "stored",
                ("store", "tier", "copies", "bytes"),
                "No store holds anything of it.",
                needs=OF,
            ),
            Part(
                "Requests",
                "usage.show",
                "requests",
                ("model", "requests", "prompt_tokens", "cached_tokens", "output_tokens", "without_user", "unmetered"),
                "No gateway has metered a request of it.",
                needs=OF,
            ),
            Part(
                "Residency policy",
                "policy.show",
                "residency",
                (
                    "version",
                    "storage_countries",
                    "processing_countries",
                    "support_countries",
                    "controlled_by",
                    "valid_from",
                    "approval",
                ),
                "No residency policy: its copies stay in the controller's own country.",
                live="policy.",
                needs=OF,
            ),
            Part(
                "Retention policy",
                "policy.show",
                "retention",
                ("kind", "version", "minimum", "maximum", "idle", "valid_from", "approval"),
                "No retention policy: only room makes its copies go.",
                live="policy.",
                needs=OF,
            ),
            Part(
                "Subprocessors",
                "policy.show",
                "subprocessors",
                ("entity", "country", "notified", "effective"),
                "None is named.",
                live="policy.",
                needs=OF,
            ),
            Part(
                "Holds",
                "hold.ls",
                "holds",
                ("id", "state", "domain", "subject", "reason", "set_by", "from_at", "until_at"),
                "Nothing of it is held.",
                live="hold.",
                needs=OF,
            ),
            Part(
                "Erasures",
                "erase.ls",
                "erasures",
                ("id", "scope", "subject", "outcome", "received", "due", "closed"),
                "Nothing of it was erased.",
                live="erasure.",
                needs=OF,
            ),
            Part(
                "Tier moves",
                "move.ls",
                "moves",
                ("id", "state", "approval_state", "source", "target", "moved", "bytes"),
                "No move of it.",
                live="move. approval.",
                needs=OF,
            ),
        ),
        forms=(
            Form("key.create", "A new API key", "Make key", NEW_KEY, fills=BY_TENANT, about="It is shown once."),
            Form(
                "key.rotate",
                "A new epoch for a trust domain",
                "Rotate",
                (
                    Field("domain", "Trust domain", required=True),
                    Field("destroy_old", "Destroy the old epoch's key: erases it everywhere", kind="flag"),
                ),
                style="danger",
                fills=BY_TENANT,
                about="The domain is cold afterwards.",
            ),
            Form(
                "tenant.suspend",
                "Suspend",
                "Suspend",
                (REASON,),
                style="danger",
                fills=BY_TENANT,
                about="Stops it at gateways and stores within seconds. Its data stays.",
            ),
            Form("tenant.resume", "Resume", "Resume", (REASON,), fills=BY_TENANT),
            Form(
                "tenant.offboard",
                "Off-board",
                "Off-board",
                (),
                style="danger",
                fills=BY_TENANT,
                about="Destroys its keys: every copy is unreadable from then on, wherever it is. It cannot be undone.",
            ),
        ),
    ),
)
