"""The audit log: what happened, newest first, with proofs. Every reading by an auditor is in it, too."""

from kvctl.api.menu import Action, Field, Form, Page, Part

COLUMNS = ("idx", "ts", "kind", "actor", "tenant", "outcome", "data")
FILTERS = (
    Field("kind", "Kind", hint="such as tenant.* or approval.voted"),
    Field("tenant", "Tenant", suggest="tenants"),
    Field("actor", "Actor", hint="such as local:ann"),
    Field("since", "From (UTC)", kind="time"),
    Field("until", "Before (UTC)", kind="time"),
)
PROVE = Action("audit.prove", "Prove", (("index", "idx"),))

PAGES = (
    Page(
        "/audit",
        "Audit log",
        "What happened, newest first. Every reading by an auditor is in it, too.",
        group="Evidence",
        icon="list",
        parts=(
            Part("Control log", "controller.status", view="log", live="audit.verified"),
            Part(
                "Events",
                "audit.log",
                "events",
                COLUMNS,
                "No event matches. Take a filter away, or widen the time.",
                (PROVE,),
                takes=("kind", "tenant", "actor", "since", "until", "before"),
                filters=FILTERS,
                view="events",
                given=(("limit", 50),),
            ),
        ),
        forms=(
            Form(
                "audit.verify",
                "Verify the whole log now",
                "Verify",
                (Field("since", "An earlier checkpoint that you kept", kind="long", hint="none: only what is here"),),
                dry=False,
                about="Every entry is computed again, and the tables are compared with it.",
            ),
            Form(
                "audit.export",
                "Export",
                "Export",
                (
                    Field("format", "Format", choices=("jsonl", "csv", "parquet")),
                    Field("tenant", "Tenant", suggest="tenants", hint="none: all"),
                    Field("since", "From (UTC)", kind="time"),
                    Field("until", "Before (UTC)", kind="time"),
                ),
                dry=False,
                about="The export itself is on record.",
            ),
            Form(
                "audit.waive",
                "Accept what a check finds, until a time",
                "Waive",
                (
                    Field("check", "Check", required=True, hint="such as R1"),
                    Field("until", "Until (UTC)", required=True, kind="time"),
                    Field("reason", "Reason", required=True),
                ),
            ),
        ),
    ),
)
