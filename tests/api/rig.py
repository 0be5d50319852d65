"""A controller over HTTP, in this process or listening for real, with people who sign in."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from kvctl.api.app import create_app
from kvctl.api.identity import PEER, Peer
from kvctl.api.server import Serving, tls_context
from kvctl.controller.core import Controller, opened
from kvctl.controller.pki import Authority
from kvctl.controller.settings import ControllerSettings
from kvctl.types.errors import RefusedError
from kvctl.types.principals import Principal, Role

SITE = "par1"
PASSWORD = "a long word and another"
ORIGIN = "https://testserver"


def settings(folder: Path) -> ControllerSettings:
    return ControllerSettings(SITE, "FR", "Example SAS", folder / "state" / SITE, state_dir=folder / "state")


@contextlib.contextmanager
def controller(folder: Path) -> Iterator[Controller]:
    with opened(settings(folder)) as found:
        yield found


class People:
    """Accounts as the application needs them, with one password for all."""

    def __init__(self, **roles: Role) -> None:
        self.known = {name: Principal(f"local:{name}", frozenset({role})) for name, role in roles.items()}
        self.links = {"link1": "viewer"}

    def add(self, name: str, *roles: Role, tenant: str | None = None) -> None:
        self.known[name] = Principal(f"local:{name}", frozenset(roles), tenant)

    def authenticate(self, name: str, password: str, code: str = "") -> Principal:
        if name not in self.known or password != PASSWORD:
            raise RefusedError("KV-API-062", "this name and password do not let you in")
        return replace(self.known[name], fresh=True)

    def principal(self, name: str) -> Principal | None:
        return self.known.get(name)

    def signed_in(self, name: str, identity: tuple[str, str] | None) -> Principal | None:
        return self.known.get(name) if identity is None else None

    def of_identity(self, identity: tuple[str, str]) -> str | None:
        return None

    def redeem(self, token: str, password: str) -> str:
        if token not in self.links:
            raise RefusedError("KV-API-060", "this link does not open an account")
        return self.links.pop(token)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Browser:
    """Somebody's browser: cookies, the page's origin, and the session's token."""

    def __init__(self, app: Any, peer: Peer | None = None) -> None:
        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, PEER: peer or Peer("192.0.2.1")}, receive, send)

        self.http = TestClient(with_peer, base_url=ORIGIN, raise_server_exceptions=False, follow_redirects=False)
        self.csrf = ""

    def sign_in(self, name: str, password: str = PASSWORD) -> Any:
        answer = self.post("/login", {"name": name, "password": password})
        if answer.status_code == 200:
            self.csrf = answer.json()["csrf"]
        return answer

    def get(self, path: str, **more: Any) -> Any:
        return self.http.get(path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        headers = {"Origin": ORIGIN, "X-CSRF-Token": self.csrf, **more.pop("headers", {})}
        headers = {name: value for name, value in headers.items() if value}
        return self.http.post(path, json={} if body is None else body, headers=headers, **more)


class Listening:
    """An application that really listens, in a thread of its own: `unix` and `https` are its endpoints."""

    def __init__(self, app: FastAPI, ctl: Controller, folder: Path) -> None:
        self.app = app
        self._serving = Serving(app)
        path = folder / "s"
        self.ca = ctl.directory / "tls" / "ca.crt"
        authority = Authority(ctl.directory / "tls", SITE)
        certificate, key = authority.server(("localhost", "127.0.0.1"))
        self._serving.unix(path)
        port = self._serving.https("127.0.0.1:0", tls_context(certificate, key, authority.certificate_path))
        self.unix, self.https, self.port, self.path = f"unix:{path}", f"https://localhost:{port}", port, path
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serving.run())
        self._loop.close()

    def __enter__(self) -> "Listening":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._serving.stop)
        self._thread.join(30)
        assert not self._thread.is_alive(), "it did not stop"


@contextlib.contextmanager
def listening(ctl: Controller, folder: Path, **more: Any) -> Iterator[Listening]:
    with Listening(create_app(ctl, **more), ctl, folder) as found:
        yield found
