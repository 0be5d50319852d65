"""The console: pages made on the server from the table of operations. A script makes them live; none needs it."""

import base64
import dataclasses
import json
from collections.abc import Iterable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.staticfiles import StaticFiles

from kvctl.api.drawing import draw, frame, gate, instead, provider_of, templates
from kvctl.api.forms import fields_of, filled, read
from kvctl.api.identity import Caller, caller_of
from kvctl.api.login import address_of, session_of
from kvctl.api.menu import Form, Page, may
from kvctl.api.parts import Parts, Shown, as_csv
from kvctl.api.problems import status_of
from kvctl.api.screens import PAGES
from kvctl.api.screens.posture import ORDER, advice
from kvctl.api.shelf import Kept, Shelf
from kvctl.api.stream import followed
from kvctl.types.errors import KvctlError, RefusedError, UsageError
from kvctl.types.events import Recorded
from kvctl.types.operations import OPERATIONS
from kvctl.types.principals import Principal
from kvctl.types.resources import resource

__all__ = ["instead", "pages", "read"]
SHOWN_ONCE = ("secret", "api_key", "link", "key_text")  # of a document: what is not shown again
ASKED = 200  # of all people
TYPES = {"jsonl": "application/jsonl", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}

SUGGESTED = {"tenants": ("tenant.ls", "tenant"), "stores": ("store.ls", "store"), "packs": ("audit.packs", "pack")}


def pages(app: FastAPI) -> None:
    """Add the console's routes to the application."""
    console = Console(app)
    app.mount("/static", Static(directory=resource("web") / "static"), name="static")
    routes: list[tuple[str, Any, str]] = [
        ("/login", console.sign_in, "GET"),
        ("/join/{token}", console.join, "GET"),
        *((page.path, partial(console.page, page), "GET") for page in PAGES),
        ("/do/{operation}", console.do, "POST"),
        ("/confirm", console.confirm, "POST"),
        ("/made/{name}", console.made, "GET"),
        ("/waiting", console.waiting, "GET"),
        ("/live", console.live, "GET"),
    ]
    if app.state.oidc is not None:
        routes.append(("/confirmed/{name}", console.confirmed, "GET"))
    for path, function, method in routes:
        app.add_api_route(path, function, methods=[method], include_in_schema=False, response_class=HTMLResponse)


class Static(StaticFiles):
    """Files that a browser keeps, and asks whether they are still the same."""

    def file_response(self, *arguments: Any, **more: Any) -> Response:
        answer = super().file_response(*arguments, **more)
        answer.headers["cache-control"] = "no-cache"
        return answer


@dataclasses.dataclass(frozen=True, slots=True)
class Next:
    """A button below an outcome, with all that its form sends."""

    operation: str
    label: str
    style: str
    fields: dict[str, str]
    typed: bool = False  # the tenant's name is typed again


class Console:
    """Pages over one controller; every answer goes through `Controller.call` as who is signed in."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._controller = app.state.controller
        self._shelf = Shelf()
        self._asked = Shelf(ASKED)  # what is done after its asker was sent to the OpenID provider

    # --- pages
    async def sign_in(self) -> Response:
        return gate(self._controller.site, "/login", provider=provider_of(self._app.state))

    async def join(self, token: str) -> Response:
        return gate(self._controller.site, f"/join/{token}")

    async def page(self, page: Page, request: Request) -> Response:
        """A page; one part of it for a script that asks for its id, or one as CSV."""
        caller = caller_of(request.scope)
        if not page.open_to(caller.principal):
            raise RefusedError(
                "KV-API-001", f"{caller.principal.name} may not see {page.title}", fix="the menu has what you may"
            )
        address = {name: text for name, text in request.query_params.items() if text.strip()} | request.path_params
        wanted = request.query_params.get("csv")
        target = request.headers.get("hx-target") if request.headers.get("hx-request") else None
        only = wanted or (target if target != "tiles" else None)
        shown = await self._parts(caller, address).of(page, only)
        if wanted:
            return self._csv(caller, shown)
        values = self._values(page, request, address, shown)
        if target:
            return self._fragment(target, caller, values)
        values["known"] = await self._known(caller, [*page.parts, *page.forms])
        return self._draw("page.html", caller, **values)

    def _values(self, page: Page, request: Request, address: dict[str, str], shown: list[Shown]) -> dict[str, Any]:
        who = caller_of(request.scope).principal
        forms = [form for form in page.forms if may(who, form.operation)]
        title = next(iter(request.path_params.values()), page.title)
        return {
            "page": page, "title": title, "here": page.parent, "shown": shown, "address": address, "known": {},
            "path": request.url.path, "query": request.url.query, "advice": advice, "order": ORDER,
            "forms": [(form, filled(form, address)) for form in forms],
        }  # fmt: skip

    def _fragment(self, target: str, caller: Caller, values: dict[str, Any]) -> Response:
        if not values["shown"]:
            raise UsageError("KV-API-011", "there is nothing at this path", where=f"part {target[:40]!r}")
        made = templates().get_template("fragment.html")
        text = made.render(**frame(self._controller.site, caller), target=target, **values)
        return HTMLResponse(text, headers={"vary": "HX-Request, HX-Target"})

    def _csv(self, caller: Caller, shown: list[Shown]) -> Response:
        if not shown or not shown[0].part.columns:
            raise UsageError("KV-API-011", "there is no such table on this page")
        if shown[0].problem is not None:
            return self._draw("problem.html", caller, 409, title="That did not work", problem=shown[0].problem, here="")
        name = f"{self._controller.site}-{shown[0].part.id}.csv"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(as_csv(shown[0]), media_type="text/csv; charset=utf-8", headers=headers)

    def _parts(self, caller: Caller, address: dict[str, str]) -> Parts:
        return Parts(self._controller, self._app.state.sessions, caller, address)

    async def _known(self, caller: Caller, having: Iterable[Any]) -> dict[str, list[str]]:
        """Names that fields suggest, as far as the caller may list them."""
        fields = [one for part in having for one in (part.fields if isinstance(part, Form) else part.filters)]
        wanted = {field.suggest for field in fields if field.suggest}
        found: dict[str, list[str]] = {}
        for name, (operation, column) in SUGGESTED.items():
            if name in wanted and may(caller.principal, operation):
                rows = (await self._parts(caller, {}).call(operation, {}))[name]
                found[name] = [str(row[column]) for row in rows]
        return found

    # --- what changes something
    async def do(self, operation: str, request: Request) -> Response:
        fields = fields_of(await request.body())
        asked = {k: v for k, v in fields.items() if k != "csrf"}
        return await self._do(operation, caller_of(request.scope), asked, here(request))

    async def _do(self, name: str, caller: Caller, fields: dict[str, str], origin: str) -> Response:
        back = safe(fields.pop("back", "/"))
        if name not in OPERATIONS:
            raise UsageError("KV-CTL-004", f"there is no operation {name!r}")
        about: dict[str, Any] = {"title": title_of(name), "back": back, "operation": name, "here": ""}
        try:
            found = await self._parts(caller, {}).call(name, fields)
        except KvctlError as error:
            return await self._refused(caller, error, fields, about)
        if "content" in found:
            return download(found, self._controller.site)
        if found.get("link"):
            found = {**found, "link": origin + found["link"]}
            del found["console"]
        return self._outcome(caller, fields, found, about)

    async def _refused(
        self, caller: Caller, error: KvctlError, fields: dict[str, str], about: dict[str, Any]
    ) -> Response:  # fmt: skip
        """What was wrong, with the password's field or the form as it was filled in."""
        form = form_of(about["operation"])
        again = ""
        if error.code == "KV-API-003" and caller.session is not None and caller.session.identity is not None:
            again = self._asked.put(asked_by(caller, about, fields))
        return self._draw(
            "refused.html", caller, status_of(error), problem=error.as_dict(), fields=fields, form=form, again=again,
            known=await self._known(caller, [form] if form else []), **about,
        )  # fmt: skip

    def _outcome(
        self, caller: Caller, fields: dict[str, str], found: dict[str, Any], about: dict[str, Any]
    ) -> Response:  # fmt: skip
        name = about["operation"]
        kept = self._keep(caller, found) if "zip" in found else None
        once = [(field, found.pop(field)) for field in SHOWN_ONCE if found.get(field)]
        return self._draw(
            "outcome.html", caller, secrets=once, dry=fields.get("dry_run") == "true", kept=kept, found=found,
            read_only=not OPERATIONS[name].changes or name in LOOKING,
            document=json.dumps(found, indent=2, ensure_ascii=False), order=ORDER, advice=advice,
            follow=follow(name, caller.principal, fields, found), **about,
        )  # fmt: skip

    def _keep(self, caller: Caller, found: dict[str, Any]) -> tuple[str, int]:
        data = base64.b64decode(found.pop("zip"))
        kept = Kept(caller.principal.name, f"{found['name']}.zip", data, "application/zip")
        return self._shelf.put(kept), len(data)

    async def made(self, name: str, request: Request) -> Response:
        """A file that was made for this very person."""
        kept = self._shelf.get(name, caller_of(request.scope).principal.name)
        headers = {"content-disposition": f'attachment; filename="{kept.name}"'}
        return Response(kept.data, media_type=kept.kind, headers=headers)

    async def confirm(self, request: Request) -> Response:
        """The password once more, then what was asked for before, if anything was."""
        session, principal = session_of(request)
        fields = fields_of(await request.body())
        again = {name.removeprefix("again."): v for name, v in fields.items() if name.startswith("again.")}
        operation = fields.get("operation", "")
        caller = caller_of(request.scope)
        try:
            await self._app.state.door.prove_again(
                session, principal, fields.get("password", ""), address_of(request), fields.get("code", "")
            )
        except RefusedError as error:
            back = safe(again.pop("back", "/access"))
            about = {"title": "Confirm your password", "back": back, "operation": operation, "here": ""}
            return self._draw(
                "refused.html", caller, status_of(error), problem=error.as_dict(), fields=again, form=None, known={},
                again="", **about,
            )  # fmt: skip
        if not operation:
            return RedirectResponse("/access", 303)
        fresh = dataclasses.replace(caller, principal=dataclasses.replace(caller.principal, fresh=True))
        return await self._do(operation, fresh, again, here(request))

    async def confirmed(self, name: str, request: Request) -> Response:
        """What was asked for before its asker was sent to the OpenID provider, with a button that does it now."""
        caller = caller_of(request.scope)
        asked = json.loads(self._asked.get(name, caller.principal.name).data)
        return self._draw("confirmed.html", caller, here="", title=title_of(asked["operation"]), asked=asked)

    # --- what changes by itself
    async def waiting(self, request: Request) -> Response:
        """How many requests wait for a second person, for the menu."""
        caller = caller_of(request.scope)
        count = None
        if may(caller.principal, "approve.ls"):
            found = await self._parts(caller, {}).call("approve.ls", {"state": "pending"})
            count = len(found["approvals"])
        return HTMLResponse(templates().get_template("waiting.html").render(count=count))

    async def live(self, request: Request) -> StreamingResponse:
        """Events as they are recorded: the kind, and the row of the audit log's table."""
        caller = caller_of(request.scope)
        row = templates().get_template("event.html").module.row  # type: ignore[attr-defined]
        values = frame(self._controller.site, caller)

        def text(event: Recorded) -> str:
            shown = {"kind": event.kind, "row": str(row(event_row(event), values["detail"], values["csrf"], False))}
            return f"id: {event.index}\nevent: happened\ndata: {json.dumps(shown)}\n\n"

        state = self._app.state
        return await followed(state.feed, state.identify, request, text)

    def _draw(self, template: str, caller: Caller | None, status: int = 200, **values: Any) -> HTMLResponse:
        return draw(template, self._controller.site, caller, status, **values)


LOOKING = ("audit.prove", "audit.verify", "residency.whatif", "audit.run")  # they record that somebody looked


def event_row(event: Recorded) -> dict[str, Any]:
    return {
        "idx": event.index, "ts": event.at, "kind": event.kind, "actor": event.actor, "tenant": event.tenant,
        "outcome": event.outcome, "data": dict(event.data),
    }  # fmt: skip


def asked_by(caller: Caller, about: dict[str, Any], fields: dict[str, str]) -> Kept:
    asked = {"operation": about["operation"], "back": about["back"], "fields": fields}
    return Kept(caller.principal.name, about["operation"], json.dumps(asked).encode(), "application/json")


def here(request: Request) -> str:
    """The console as this browser has it; the gate has compared it with who sent the request."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


def safe(back: str) -> str:
    """A path of the console's own, to go back to."""
    first = "/" + back.removeprefix("/").split("/")[0].split("?")[0]
    return back if first in {page.path for page in PAGES} and not back.startswith("//") else "/"


def form_of(operation: str) -> Form | None:
    return next((form for page in PAGES for form in page.forms if form.operation == operation), None)


def title_of(operation: str) -> str:
    """As the form or button that asks for it is called."""
    form = form_of(operation)
    actions = (action for page in PAGES for part in page.parts for action in part.actions)
    labels = [form.label] if form else [one.label for one in actions if one.operation == operation]
    return labels[0] if len(set(labels)) == 1 else operation.replace(".", ": ").capitalize()


def download(found: dict[str, Any], site: str) -> Response:
    kind = found["format"]
    headers = {"content-disposition": f'attachment; filename="{site}-events.{kind}"'}
    return Response(base64.b64decode(found["content"]), media_type=TYPES[kind], headers=headers)


def follow(name: str, who: Principal, fields: dict[str, str], found: dict[str, Any]) -> list[Next]:
    """What may be done from an outcome: what was only tried, for real."""
    if fields.get("dry_run") == "true" and may(who, name):
        asked = {field: text for field, text in fields.items() if field != "dry_run"}
        typed = any(field.name == "confirm" for field in dataclasses.fields(OPERATIONS[name].request))
        return [Next(name, "Do it", "danger", asked, typed)]
    return []
