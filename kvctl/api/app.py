"""The application: everything that can be asked of a controller over HTTP."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from kvctl import __version__
from kvctl.api import login, problems, routes, stream
from kvctl.api.gate import PUBLIC, Gate
from kvctl.api.identity import Accounts, Identify
from kvctl.api.problems import Instead
from kvctl.api.sessions import Sessions
from kvctl.api.throttle import Throttle
from kvctl.controller.core import Controller
from kvctl.controller.pki import Services

OPENAPI = "/v1/openapi.json"


def create_app(
    controller: Controller,
    *,
    accounts: Accounts | None = None,
    clock: Callable[[], float] = time.monotonic,
    heartbeat: float = stream.HEARTBEAT,
    pages: Callable[[FastAPI], None] | None = None,
    instead: Instead | None = None,
    public: Sequence[str] = PUBLIC,
) -> FastAPI:
    """The HTTP side of this controller.

    `accounts` are the people who may sign in; None: nobody may. `pages` adds the console's routes; `instead` may
    answer an error with a page (a redirect to /login) where a browser asked. `app.state` has `controller`, `feed`,
    `sessions` and `identify`; `kvctl.api.identity.caller_of(request.scope)` is who asks.
    """
    app = FastAPI(
        title="kvctl controller", version=__version__, docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False, separate_input_output_schemas=False,
    )  # fmt: skip
    sessions = Sessions(clock)
    identify = Identify(sessions, accounts, Services(controller.directory / "tls"))
    feed = stream.Feed(controller.books, heartbeat)
    app.state.controller, app.state.feed = controller, feed
    app.state.sessions, app.state.identify = sessions, identify
    problems.install(app, instead)
    app.state.door = login.Door(controller, identify, Throttle(clock))
    app.include_router(login.router(app.state.door))
    app.state.oidc = None
    if controller.settings.oidc is not None and accounts is not None:
        from kvctl.api import oidc  # what speaks to a provider is loaded where there is one

        app.state.oidc = oidc.OidcDoor(controller, identify, accounts, app.state.door, clock)
        app.include_router(oidc.router(app.state.oidc))
        public = (*public, *oidc.PUBLIC)
    app.include_router(stream.router(feed, identify))
    app.include_router(routes.router(controller))
    app.add_api_route("/healthz", healthz, methods=["GET"], openapi_extra={"security": []}, tags=["controller"])
    describe(app)
    if pages is not None:
        pages(app)
    app.add_middleware(Gate, identify=identify, public=public, instead=instead)
    return app


async def healthz() -> dict[str, Any]:
    """That the controller answers; nothing else, for anybody may ask."""
    return {"ok": True}


def describe(app: FastAPI) -> None:
    """The OpenAPI document, for whoever is signed in; made once."""
    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(routes.describe(FastAPI.openapi(app)))
        return made

    async def show() -> JSONResponse:
        return JSONResponse(document())

    app.openapi = document  # type: ignore[method-assign]
    app.add_api_route(OPENAPI, show, methods=["GET"], include_in_schema=False)
