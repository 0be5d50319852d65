"""The console: pages made on the server from the table of operations. No script, nothing from elsewhere."""

import base64
import dataclasses
import json
from functools import partial
from typing import Any

import anyio.to_thread
import jinja2
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from kvctl.api.gate import form_of
from kvctl.api.identity import Caller, caller_of
from kvctl.api.login import address_of, session_of
from kvctl.api.menu import Page, Part, may
from kvctl.api.problems import status_of
from kvctl.api.routes import model_of
from kvctl.api.screens import PAGES
from kvctl.controller.clock import now
from kvctl.controller.core import Controller
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal
from kvctl.types.resources import resource

SHOWN_ONCE = ("secret", "api_key", "link", "key_text")  # of a document: what is not shown again
GOOD = ("PASS", "ok", "active", "done", "allow", "executed", "approved", "erased", "in-service")
BAD = ("FAIL", "failed", "denied", "deny", "unreachable", "rejected", "refused")
WHOLE = ("text", "since")  # fields that hold a policy file and a checkpoint


def pages(app: FastAPI) -> None:
    """Add the console's routes to the application."""
    console = Console(app.state.controller)
    app.mount("/static", StaticFiles(directory=resource("web") / "static"), name="static")
    app.add_api_route("/login", console.sign_in, methods=["GET"], include_in_schema=False)
    app.add_api_route("/join/{token}", console.join, methods=["GET"], include_in_schema=False)
    for page in PAGES:
        app.add_api_route(page.path, partial(console.page, page), methods=["GET"], include_in_schema=False)
    app.add_api_route("/do/{operation}", console.do, methods=["POST"], include_in_schema=False)
    app.add_api_route("/confirm", console.confirm, methods=["POST"], include_in_schema=False)


def instead(scope: Scope, error: KvctlError) -> Response | None:
    """For a browser, a page instead of JSON: the sign-in, or the error in words."""
    accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
    if "text/html" not in accept or scope["path"].startswith("/v1/"):
        return None
    if error.code == "KV-API-010":
        return RedirectResponse("/login", 303)
    text = templates().get_template("outcome.html").render(
        title="That did not work", site="", who=None, problem=error.as_dict(), operation="", again=(),
        back="/login" if scope["path"] == "/login" else "/",
    )  # fmt: skip
    return HTMLResponse(text, status_of(error))


def templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(resource("web") / "templates")
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    made.globals.update(shown=shown, kind=kind, mark=mark)
    return made


def shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)


def kind(value: Any) -> str:
    """The class of a cell: numbers to the right, long texts wrap."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "num"
    return "wide" if len(shown(value)) > 44 else ""


def mark(value: Any) -> str:
    return "ok" if value in GOOD else "bad" if value in BAD else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Next:
    """A button below an outcome, with all that its form sends."""

    operation: str
    label: str
    style: str
    fields: dict[str, str]


class Console:
    """Pages over one controller; every answer goes through `Controller.call` as who is signed in."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._templates = templates()

    async def sign_in(self) -> HTMLResponse:
        text = "Accounts are made by an administrator; the first one by a one-time link."
        return self._gate("Sign in", text, "/login", "Sign in", ask_name=True)

    async def join(self, token: str) -> HTMLResponse:
        text = "This link works once. Choose a password of at least 12 characters."
        return self._gate("Set your password", text, f"/join/{token}", "Set password", ask_name=False)

    def _gate(self, title: str, text: str, action: str, button: str, *, ask_name: bool) -> HTMLResponse:
        return self._render("gate.html", None, title=title, text=text, action=action, button=button, ask_name=ask_name)

    async def page(self, page: Page, request: Request) -> HTMLResponse:
        caller = caller_of(request.scope)
        if page.path != "/" and not page.open_to(caller.principal):
            raise RefusedError(
                "KV-API-001", f"{caller.principal.name} may not see {page.title}", fix="/ shows what you may"
            )
        parts = [await self._part(part, caller) for part in page.parts if may(caller.principal, part.operation)]
        forms = [form for form in page.forms if may(caller.principal, form.operation)]
        return self._render(
            "page.html", caller, title=page.title, about=page.about, here=page.path, at=now(), parts=parts, forms=forms
        )

    async def _part(self, part: Part, caller: Caller) -> dict[str, Any]:
        actions = [action for action in part.actions if may(caller.principal, action.operation)]
        about = {"title": part.title, "columns": part.columns, "empty": part.empty, "actions": actions, "problem": None}
        try:
            found = await self._call(part.operation, caller, {})
        except KvctlError as error:
            return about | {"rows": [], "problem": error.as_dict()}
        return about | {"rows": [row for row in found.get(part.rows) or [] if part.fits(row)]}

    async def do(self, operation: str, request: Request) -> Response:
        caller = caller_of(request.scope)
        fields = form_of(await request.body())
        return await self._do(operation, caller, {k: v for k, v in fields.items() if k != "csrf"})

    async def _do(self, name: str, caller: Caller, fields: dict[str, str]) -> Response:
        back = fields.pop("back", "/")
        back = back if back in {page.path for page in PAGES} else "/"
        if name not in OPERATIONS:
            raise UsageError("KV-CTL-004", f"there is no operation {name!r}")
        about: dict[str, Any] = {"title": name.replace(".", ": "), "back": back, "operation": name}
        try:
            found = await self._call(name, caller, fields)
        except KvctlError as error:
            again = (*fields.items(), ("back", back))
            return self._render("outcome.html", caller, status_of(error), problem=error.as_dict(), again=again, **about)
        if "zip" in found:
            headers = {"content-disposition": f'attachment; filename="{found["name"]}.zip"'}
            return Response(base64.b64decode(found["zip"]), media_type="application/zip", headers=headers)
        once = [(field, found.pop(field)) for field in SHOWN_ONCE if found.get(field)]
        return self._render(
            "outcome.html", caller, problem=None, secrets=once, dry=fields.get("dry_run") == "true", read_only=not
            OPERATIONS[name].changes, document=json.dumps(found, indent=2, ensure_ascii=False), again=(),
            follow=follow(name, caller.principal, fields, found), **about,
        )  # fmt: skip

    async def confirm(self, request: Request) -> Response:
        """The password once more, then what was asked for before."""
        session, principal = session_of(request)
        fields = form_of(await request.body())
        door = request.app.state.door
        again = {name.removeprefix("again."): v for name, v in fields.items() if name.startswith("again.")}
        try:
            await door.prove_again(session, principal, fields.get("password", ""), address_of(request))
        except RefusedError as error:
            about: dict[str, Any] = {
                "title": "Confirm your password",
                "back": again.get("back", "/"),
                "operation": fields.get("operation", ""),
            }
            return self._render(
                "outcome.html", caller_of(request.scope), status_of(error), problem=error.as_dict(), again=(), **about
            )
        caller = caller_of(request.scope)
        fresh = dataclasses.replace(caller, principal=dataclasses.replace(caller.principal, fresh=True))
        return await self._do(fields.get("operation", ""), fresh, again)

    async def _call(self, name: str, caller: Caller, fields: dict[str, str]) -> dict[str, Any]:
        request = read(name, fields)
        work = partial(self._controller.call, name, caller.principal, request)
        return dict(await anyio.to_thread.run_sync(work))

    def _render(self, template: str, caller: Caller | None, status: int = 200, **values: Any) -> HTMLResponse:
        who = caller.principal if caller else None
        csrf = caller.session.csrf if caller and caller.session else ""
        menu = [page for page in PAGES if who is not None and (page.path == "/" or page.open_to(who))]
        text = self._templates.get_template(template).render(
            site=self._controller.site, who=who, csrf=csrf, menu=menu, **{"here": "", **values}
        )
        return HTMLResponse(text, status)


def follow(name: str, who: Principal, fields: dict[str, str], found: dict[str, Any]) -> list[Next]:
    """What may be done from an outcome: what was only tried, or a vote for the very payload that is shown."""
    if fields.get("dry_run") == "true":
        asked = {field: text for field, text in fields.items() if field != "dry_run"}
        return [Next(name, "Do it", "danger", asked)]
    if name == "approve.show" and found.get("state") == "pending" and may(who, "approve.vote"):
        vote = {"approval": found["id"], "payload_sha256": found["payload_sha256"]}
        return [
            Next("approve.vote", "Approve", "", vote | {"decision": "yes"}),
            Next("approve.vote", "Refuse", "danger", vote | {"decision": "no"}),
        ]
    return []


def plain(field: str, text: str) -> str:
    """A field as it was meant. Whole texts keep every line: their bytes are signed or hashed; browsers send CRLF."""
    if field not in WHOLE:
        return text.strip()
    lines = text.replace("\r\n", "\n")
    return lines.rstrip("\n") + "\n" if field == "since" else lines  # a signed note ends with one line break


def read(name: str, fields: dict[str, str]) -> Any:
    """A form's texts as the operation's request. An empty field was not given. UsageError KV-API-016."""
    kind: Any = OPERATIONS[name].request
    known = {field.name: field for field in dataclasses.fields(kind)}
    given: dict[str, Any] = {}
    for field, text in fields.items():
        if field in known and text.strip():
            is_list = "list" in str(known[field].type)
            given[field] = [part.strip() for part in text.split(",") if part.strip()] if is_list else plain(field, text)
    try:
        found = model_of(kind, strict=False).model_validate(given)
    except ValidationError as error:
        why = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
        raise UsageError("KV-API-016", "the form is not right", why=why, fix="fill in what is named") from None
    return kind(**found.model_dump())
