"""Approvals: nobody approves what they asked for, and a vote is for the payload that is shown."""

from kvctl.api.menu import Field, Page, Part

STATES = ("", "pending", "approved", "rejected", "expired", "executed", "aborted")

PAGES = (
    Page(
        "/approvals",
        "Approvals",
        "Nobody approves what they asked for. A vote is for the payload that is shown.",
        group="Change",
        icon="check",
        parts=(
            Part(
                "Waits for approval",
                "approve.ls",
                "approvals",
                ("id", "kind", "tenant", "yes", "required", "requester", "reason", "expires"),
                "Nothing waits for a second person.",
                given=(("state", "pending"),),
                live="approval.",
            ),
            Part(
                "All requests",
                "approve.ls",
                "approvals",
                (
                    "id",
                    "kind",
                    "tenant",
                    "state",
                    "yes",
                    "required",
                    "requester",
                    "reason",
                    "created",
                    "decided",
                    "executed",
                ),
                "No request was made yet.",
                takes=("state", "tenant"),
                live="approval.",
                filters=(
                    Field("state", "State", choices=STATES),
                    Field("tenant", "Tenant", suggest="tenants", hint="none: all"),
                ),
            ),
        ),
    ),
    Page(
        "/approvals/{approval}",
        "Request",
        "What is asked for, what it would do, and who said what.",
        parts=(
            Part("Request", "approve.show", view="approval", needs=("approval",), live="approval."),
            Part(
                "Votes",
                "approve.show",
                "votes",
                ("voter", "role", "decision", "counts", "reason", "ts", "fresh"),
                "No vote yet.",
                needs=("approval",),
                live="approval.",
            ),
            Part(
                "History",
                "approve.show",
                "history",
                ("idx", "ts", "kind", "actor", "outcome"),
                "Nothing happened yet.",
                needs=("approval",),
                live="approval.",
            ),
        ),
    ),
)
