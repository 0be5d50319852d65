"""The console's pages as data: which operations each shows, and which it offers."""

from kvctl.api.menu import Action, Field, Form, Page, Part, Row

TENANT = Field("tenant", "Tenant", required=True)
REASON = Field("reason", "Reason")


def pending(row: Row) -> bool:
    return row.get("state") == "pending"


PAGES = (
    Page(
        "/",
        "Posture",
        "What needs eyes.",
        (
            Part(
                "Waits for approval",
                "approve.ls",
                "approvals",
                ("id", "kind", "tenant", "state", "requester", "reason", "expires"),
                "Nothing waits.",
                fits=pending,
            ),
            Part(
                "Stores",
                "store.ls",
                "stores",
                ("store", "state", "why", "seen_at", "next"),
                "No store is registered: kvctl deploy storage.",
            ),
            Part(
                "Holds in force",
                "hold.ls",
                "holds",
                ("id", "tenant", "subject", "reason", "set_by", "from_at"),
                "Nothing is held.",
                fits=lambda row: not row.get("lifted_at"),
            ),
            Part(
                "Jobs of the controller",
                "controller.status",
                "jobs",
                ("job", "outcome", "last", "failed"),
                "No schedule runs.",
            ),
        ),
    ),
    Page(
        "/fleet",
        "Fleet",
        "Nodes as they were last read.",
        (
            Part(
                "Nodes",
                "fleet.status",
                "nodes",
                ("node", "role", "state", "reason", "age"),
                "No node was read yet: kvctl check.",
            ),
            Part(
                "Findings",
                "fleet.findings",
                "findings",
                ("node", "check", "subject", "verdict", "observed", "expected"),
                "Nothing to see to.",
            ),
            Part("Runs", "run.ls", "runs", ("id", "state", "started", "steps", "done", "failed"), "No runs."),
        ),
    ),
    Page(
        "/tenants",
        "Tenants",
        "Who may use the cache, and what they used.",
        (
            Part(
                "Tenants",
                "tenant.ls",
                "tenants",
                ("tenant", "state", "sla", "entity", "quota_bytes", "created_at"),
                "No tenant yet.",
                (
                    Action(
                        "tenant.suspend",
                        "Suspend",
                        (("tenant", "tenant"), ("reason", "=from the console")),
                        lambda r: r.get("state") == "active",
                        "danger",
                    ),
                    Action(
                        "tenant.resume",
                        "Resume",
                        (("tenant", "tenant"), ("reason", "=from the console")),
                        lambda r: r.get("state") == "suspended",
                    ),
                ),
            ),
            Part(
                "API keys",
                "key.ls",
                "keys",
                ("id", "tenant", "domain", "label", "created_at", "expires_at", "revoked_at"),
                "No keys.",
                (
                    Action(
                        "key.revoke",
                        "Revoke",
                        (("tenant", "tenant"), ("key", "id")),
                        lambda r: not r.get("revoked_at"),
                        "danger",
                    ),
                ),
            ),
            Part(
                "Bytes now",
                "usage.show",
                "stored",
                ("tenant", "store", "tier", "copies", "bytes"),
                "No store holds anything.",
            ),
        ),
        (
            Form(
                "tenant.create",
                "Take a tenant in",
                "Create",
                (
                    TENANT,
                    Field("entity", "Legal entity", required=True),
                    Field("entity_country", "Country (two letters)"),
                ),
            ),
            Form(
                "key.create",
                "A new API key, shown once",
                "Create key",
                (TENANT, Field("domain", "Trust domain"), Field("label", "Label")),
            ),
        ),
    ),
    Page(
        "/residency",
        "Residency",
        "Where copies are now, by the rule that lets them be there.",
        (
            Part(
                "Copies by place",
                "residency.now",
                "copies",
                ("tenant", "store", "tier", "site", "country", "chunks", "bytes", "verdict", "rule"),
                "No copies.",
            ),
        ),
        (
            Form(
                "residency.whatif",
                "What would be outside under another policy",
                "Show",
                (Field("text", "Policy file", required=True, long=True),),
                dry=False,
            ),
            Form(
                "policy.apply",
                "Put a policy in force, or ask for the approvals it needs",
                "Apply",
                (Field("text", "Policy file", required=True, long=True), REASON),
            ),
        ),
    ),
    Page(
        "/retention",
        "Retention and holds",
        "What must go, and what must stay whatever else says.",
        (
            Part(
                "What would go, and what keeps the rest",
                "retention.plan",
                "totals",
                ("tenant", "class", "tier", "go", "rule", "hold", "copies", "bytes", "oldest_due"),
                "No copies.",
            ),
            Part(
                "Holds",
                "hold.ls",
                "holds",
                ("id", "tenant", "domain", "subject", "reason", "set_by", "from_at", "lifted_at"),
                "Nothing is held.",
                (
                    Action(
                        "hold.lift",
                        "Ask to lift",
                        (("tenant", "tenant"), ("hold", "id"), ("reason", "=from the console")),
                        lambda r: not r.get("lifted_at"),
                    ),
                ),
            ),
        ),
        (
            Form(
                "retention.apply",
                "Remove what must go",
                "Remove",
                (Field("tenant", "Tenant (none: all)"),),
                style="danger",
            ),
            Form(
                "hold.set",
                "Set a hold",
                "Hold",
                (TENANT, Field("reason", "Reason", required=True), Field("user", "User's id (kept as a pseudonym)")),
            ),
        ),
    ),
    Page(
        "/erasure",
        "Erasure",
        "Requests and their receipts, which say what was not covered.",
        (
            Part(
                "Erasures",
                "erase.ls",
                "erasures",
                ("id", "tenant", "scope", "subject", "received", "due", "closed", "outcome"),
                "Nothing was erased.",
            ),
        ),
        (
            Form(
                "erase.subject",
                "Erase a user",
                "Erase",
                (TENANT, Field("user", "User's id (kept as a pseudonym)", required=True)),
                style="danger",
            ),
            Form(
                "erase.tenant",
                "Erase all of a tenant",
                "Erase",
                (TENANT, Field("confirm", "The tenant's name again", required=True)),
                style="danger",
            ),
            Form(
                "erase.receipt",
                "A receipt",
                "Show",
                (Field("erasure", "Erasure", required=True), Field("tenant", "Tenant")),
                dry=False,
            ),
        ),
    ),
    Page(
        "/approvals",
        "Moves and approvals",
        "Nobody approves what they asked for. A vote is for the payload that is shown.",
        (
            Part(
                "Requests",
                "approve.ls",
                "approvals",
                ("id", "kind", "tenant", "state", "yes", "required", "requester", "reason", "expires"),
                "No requests.",
                (Action("approve.show", "Look and vote", (("approval", "id"),)),),
            ),
            Part(
                "Tier moves",
                "move.ls",
                "moves",
                ("id", "tenant", "state", "approval_state", "store", "source", "target", "moved", "bytes", "why"),
                "No moves.",
                (
                    Action(
                        "tier.move",
                        "Carry out",
                        (("move", "id"),),
                        lambda r: r.get("approval_state") == "approved" and r.get("state") == "proposed",
                    ),
                    Action("tier.stop", "Stop", (("move", "id"),), lambda r: r.get("state") == "running", "danger"),
                    Action("tier.resume", "Resume", (("move", "id"),), lambda r: r.get("state") == "stopped"),
                    Action(
                        "tier.rollback",
                        "Bring back",
                        (("move", "id"),),
                        lambda r: r.get("state") in ("stopped", "failed"),
                    ),
                ),
            ),
        ),
        (
            Form(
                "tier.propose",
                "Propose a tier move",
                "Propose",
                (
                    TENANT,
                    Field("source", "From", choices=("flash", "disk", "object")),
                    Field("target", "To", choices=("disk", "object", "archive", "flash")),
                    Field("store", "Store (none: all)"),
                    REASON,
                ),
            ),
        ),
    ),
    Page(
        "/audit",
        "Audit log",
        "What happened, newest first. Every reading by an auditor is in it, too.",
        (
            Part(
                "Events",
                "audit.log",
                "events",
                ("idx", "ts", "kind", "actor", "tenant", "outcome", "data"),
                "Nothing happened yet.",
            ),
        ),
        (
            Form(
                "audit.verify",
                "Compute the whole log again and compare",
                "Verify",
                (Field("since", "An earlier checkpoint that you kept", long=True),),
                dry=False,
            ),
            Form(
                "audit.prove", "One event with its proof", "Prove", (Field("index", "Index", required=True),), dry=False
            ),
        ),
    ),
    Page(
        "/packs",
        "Packs",
        "Evidence that verifies without this site: Python and one package are enough.",
        (
            Part(
                "Packs",
                "audit.packs",
                "packs",
                ("pack", "title", "rules"),
                "No packs.",
                (Action("audit.run", "Make and download", (("pack", "pack"),)),),
            ),
        ),
    ),
    Page(
        "/access",
        "Access",
        "Who may sign in, and as what.",
        (
            Part(
                "Accounts",
                "account.ls",
                "accounts",
                ("name", "roles", "tenant", "created", "until", "disabled", "joined"),
                "No accounts.",
                (
                    Action(
                        "account.change",
                        "Disable",
                        (("name", "name"), ("disabled", "=true")),
                        lambda r: not r.get("disabled"),
                        "danger",
                    ),
                ),
            ),
        ),
        (
            Form(
                "account.create",
                "A new account; its owner sets a password by a link that is shown once",
                "Create",
                (
                    Field("name", "Name", required=True),
                    Field("roles", "Roles, comma separated", required=True),
                    Field("tenant", "Tenant (none: the whole site)"),
                ),
            ),
        ),
    ),
)
