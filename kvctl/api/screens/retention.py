"""Retention and holds: what must go, what keeps the rest, and why one chunk is kept."""

from kvctl.api.menu import Action, Field, Form, Page, Part
from kvctl.api.screens.common import ANY_TENANT, TENANT
from kvctl.api.screens.posture import in_force

LIFT = Action(
    "hold.lift", "Ask to lift", (("tenant", "tenant"), ("hold", "id"), ("reason", "=from the console")), in_force
)


PAGES = (
    Page(
        "/retention",
        "Retention and holds",
        "What must go, and what stays whatever else says.",
        group="Data",
        icon="clock",
        parts=(
            Part(
                "By rule",
                "retention.plan",
                "totals",
                ("tenant", "class", "tier", "go", "rule", "hold", "copies", "bytes", "oldest_due", "late_p99_s"),
                "No copies.",
                takes=("tenant",),
                filters=(ANY_TENANT,),
                about="Each copy is kept, or must go, by the first rule that decides: hold, maximum, minimum, idle.",
                live="hold. policy. retention.",
            ),
            Part(
                "What would go first",
                "retention.plan",
                "items",
                ("tenant", "key", "class", "rule", "store", "tier", "bytes", "stored_at", "due"),
                "Nothing must go.",
                takes=("tenant",),
                live="hold. policy. retention.",
                per=20,
            ),
            Part(
                "Why is a chunk kept",
                "retention.explain",
                view="explain",
                needs=("tenant", "key"),
                empty="Give a tenant and a chunk's key, or its first four digits.",
                filters=(TENANT, Field("key", "Chunk's key", required=True, hint="4 to 64 hexadecimal digits")),
            ),
            Part(
                "Holds",
                "hold.ls",
                "holds",
                (
                    "id",
                    "state",
                    "tenant",
                    "domain",
                    "subject",
                    "model",
                    "reason",
                    "set_by",
                    "from_at",
                    "until_at",
                    "lifted_at",
                ),
                "Nothing is held.",
                (LIFT,),
                live="hold. approval.",
            ),
            Part(
                "Policies in force",
                "policy.show",
                "retention",
                ("tenant", "kind", "version", "minimum", "maximum", "idle", "valid_from", "approval"),
                "No policy: only room makes copies go. Apply one on the page Residency.",
                live="policy.",
            ),
        ),
        forms=(
            Form(
                "hold.set",
                "Set a hold",
                "Hold",
                (
                    TENANT,
                    Field("reason", "Reason", required=True),
                    Field("user", "User's id", hint="only its pseudonym is kept; none: all users"),
                    Field("domain", "Trust domain", hint="none: all"),
                    Field("model", "Model", hint="first 32 digits of its fingerprint; none: all"),
                    Field("until", "Until (UTC)", kind="time", hint="none: until it is lifted"),
                ),
                about="In force at once, before any retention or erasure. Lifting it needs two approvals.",
            ),
            Form(
                "retention.apply",
                "Remove what must go",
                "Remove",
                (ANY_TENANT,),
                style="danger",
                about="Stores look at holds once more before they remove anything.",
            ),
        ),
    ),
)
