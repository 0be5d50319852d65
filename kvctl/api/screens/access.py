"""Access: who may sign in, as what, and whose browsers are signed in."""

from kvctl.api.menu import SESSIONS, Action, Field, Form, Page, Part, Row

NAME = (("name", "name"),)


def enabled(row: Row) -> bool:
    return not row["disabled"]


def disabled(row: Row) -> bool:
    return bool(row["disabled"])


def has_password(row: Row) -> bool:
    return enabled(row) and not row["oidc_subject"]


ACTIONS = (
    Action("account.change", "Disable", (*NAME, ("disabled", "=true")), enabled, "danger"),
    Action("account.change", "Enable", (*NAME, ("disabled", "=false")), disabled),
    Action("account.change", "New link", (*NAME, ("new_link", "=true")), has_password),
)

PAGES = (
    Page(
        "/access",
        "Access",
        "Who may sign in, as what, and whose browsers are signed in.",
        everyone=True,
        group="Site",
        icon="key",
        parts=(
            Part("You", SESSIONS, view="you"),
            Part("Sessions", SESSIONS, "sessions", view="sessions"),
            Part(
                "Accounts",
                "account.ls",
                "accounts",
                ("name", "roles", "tenant", "until_at", "disabled", "joined", "link_pending", "authenticator"),
                "No account yet. Make one below.",
                ACTIONS,
                live="account.",
            ),
            Part(
                "Services",
                "service.ls",
                "services",
                ("name", "certificate_sha256", "expires_at"),
                "No service with a certificate. Gateways come with kvctl deploy gateway.",
                (Action("service.remove", "Remove", NAME, style="danger"),),
                live="service.",
            ),
        ),
        forms=(
            Form(
                "account.create",
                "A new account",
                "Make account",
                (
                    Field("name", "Name", required=True),
                    Field("roles", "Roles", required=True, kind="roles"),
                    Field("tenant", "Tenant", suggest="tenants", hint="none: the whole site"),
                    Field("until", "Until (UTC)", kind="time", hint="an auditor's access always ends"),
                ),
                about="Its owner sets a password by a link shown once. Operator, approver and auditor stay apart.",
            ),
            Form(
                "account.change",
                "Change an account",
                "Change account",
                (
                    Field("name", "Name", required=True),
                    Field("roles", "Roles from now on", kind="roles"),
                    Field("reset_totp", "Take its authenticator away, for a telephone that was lost", kind="flag"),
                ),
                about="No role chosen: its roles stay. Nobody changes their own account.",
            ),
        ),
    ),
)
