"""Pages from templates: what every one has, and what a browser is shown when something was refused."""

from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from kvctl.api import cells
from kvctl.api.identity import CALLER, Caller
from kvctl.api.login import CONFIRMING, NAMED
from kvctl.api.menu import SESSIONS, may
from kvctl.api.problems import status_of
from kvctl.api.screens import PAGES
from kvctl.controller.clock import now
from kvctl.types.errors import KvctlError
from kvctl.types.operations import READERS
from kvctl.types.principals import Role
from kvctl.types.resources import resource

if TYPE_CHECKING:
    from kvctl.types.principals import Principal

GROUPS = ("Overview", "Data", "Change", "Evidence", "Site")
SIGN_IN = "Accounts are made by an administrator. The first one's link is printed by kvctl account create."
JOIN = "This link works once. Choose a password of at least 12 characters."
HEADINGS = {403: "You may not do that", 404: "There is nothing here"}


@cache
def templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(resource("web") / "templates")
    made = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(cells.FILTERS)
    made.tests["allowed"] = lambda action, who: may(who, action.operation)
    roles = sorted(role for role in Role if role is not Role.SERVICE)
    made.globals.update(can=may, groups=GROUPS, all_roles=roles, readers=READERS, sessions=SESSIONS)
    return made


def draw(template: str, site: str, caller: Caller | None, status: int = 200, **values: Any) -> HTMLResponse:
    """One page for whoever is signed in, or for nobody."""
    text = templates().get_template(template).render(**frame(site, caller), **values)
    return HTMLResponse(text, status)


def frame(site: str, caller: Caller | None) -> dict[str, Any]:
    """What the frame around every page needs."""
    who = caller.principal if caller else None
    session = caller.session if caller else None
    return {
        "site": site, "who": who, "csrf": session.csrf if session else "",
        "elsewhere": session is not None and session.identity is not None,
        "menu": menu(who), "as_of": now(), "detail": detail_paths(who),
    }  # fmt: skip


def menu(who: "Principal | None") -> dict[str, list[Any]]:
    """Pages by group."""
    shown = [page for page in PAGES if who is not None and page.in_menu and page.open_to(who)]
    return {group: [page for page in shown if page.group == group] for group in GROUPS}


def detail_paths(who: "Principal | None") -> dict[str, str]:
    """Where a name or an id leads: the column's name, or the id's first letter. Empty for who may not go there."""
    wanted = {
        "tenant": ("/tenants/", "tenant.show"), "a": ("/approvals/", "approve.show"),
        "e": ("/erasure/", "erase.receipt"), "run": ("/fleet/runs/", "run.show"),
    }  # fmt: skip
    return {name: path if who and may(who, operation) else "" for name, (path, operation) in wanted.items()}


def instead(scope: Scope, error: KvctlError) -> Response | None:
    """For a browser, a page instead of JSON: the sign-in, the form once more, or the error in words."""
    headers = dict(scope["headers"])
    path = scope["path"]
    if headers.get(b"hx-request") and error.code == "KV-API-010":
        return Response(status_code=401, headers={"hx-redirect": "/login"})
    if b"text/html" not in headers.get(b"accept", b"") or path.startswith("/v1/"):
        return None
    if error.code == "KV-API-010":
        return RedirectResponse("/login", 303)
    state, status = scope["app"].state, status_of(error)
    site = state.controller.site
    if scope.get(CONFIRMING):  # on the way back from another site, where the session's cookie is not sent
        title = HEADINGS.get(status, "That did not work")
        return draw("problem.html", site, None, status, title=title, here="", problem=error.as_dict(), back="/access")
    if path == "/login" or path.startswith(("/login/oidc", "/join/")):
        return gate(
            site, path if path.startswith("/join/") else "/login", status, problem=error.as_dict(),
            name=scope.get(NAMED, ""), provider=provider_of(state),
        )  # fmt: skip
    return draw(
        "problem.html", site, scope.get(CALLER), status, title=HEADINGS.get(status, "That did not work"), here="",
        problem=error.as_dict(),
    )  # fmt: skip


def provider_of(state: Any) -> str:
    """How the OpenID provider is called; "" when there is none."""
    return str(state.oidc.label) if state.oidc else ""


def gate(
    site: str, path: str, status: int = 200, *, problem: dict[str, Any] | None = None, name: str = "",
    provider: str = "",
) -> Response:  # fmt: skip
    """The sign-in, or the page of a one-time link."""
    joining = path.startswith("/join/")
    title, text, button = ("Set your password", JOIN, "Set password") if joining else ("Sign in", SIGN_IN, "Sign in")
    return draw(
        "gate.html", site, None, status, title=title, text=text, action=path, button=button, ask_name=not joining,
        problem=problem, name=name, here="", provider="" if joining else provider,
    )  # fmt: skip
