"""Packs: evidence that verifies without this site."""

from kvctl.api.menu import Action, Field, Form, Page, Part

PAGES = (
    Page(
        "/packs",
        "Packs",
        "Evidence that verifies without this site: Python and one package are enough.",
        group="Evidence",
        icon="box",
        parts=(
            Part(
                "Packs",
                "audit.packs",
                "packs",
                ("pack", "title", "rules"),
                "This controller has no packs.",
                (Action("audit.run", "Run", (("pack", "pack"),)),),
            ),
            Part(
                "Evidence checks",
                "audit.checks",
                view="checks",
                calm=10,
                live="approval. erasure. hold. move. policy. audit.waived",
            ),
            Part(
                "Packs that were made",
                "audit.log",
                "events",
                ("idx", "ts", "actor", "tenant", "data"),
                "No pack was made yet. Run one above.",
                given=(("kind", "audit.packed"),),
                live="audit.packed",
                per=20,
            ),
        ),
        forms=(
            Form(
                "audit.run",
                "Run a pack for one tenant",
                "Run",
                (
                    Field("pack", "Pack", required=True, suggest="packs"),
                    Field("tenant", "Tenant", suggest="tenants", required=True),
                ),
                dry=False,
                about="With that tenant's own rows and events alone.",
            ),
        ),
    ),
)
