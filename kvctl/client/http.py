"""The controller over HTTP: on its unix socket, or over https with a session or a service's certificate.

An error that the controller answers with is raised here as what it was there. Nothing is ever sent twice.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from kvctl.connector.unixhttp import UnixConnection
from kvctl.types.errors import (
    ExitCode,
    KvctlError,
    LockedError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from kvctl.types.operations import OPERATIONS

CONNECT = 5.0  # seconds for a connection, and for the first sign of life on it
PATIENCE = 900.0  # for an answer: a check of a fleet, an export and a pack take their time
KINDS: dict[int, type[KvctlError]] = {
    int(kind.exit_code): kind for kind in (UsageError, UnreachableError, RefusedError, LockedError)
}
COOKIE = "__Host-kvctl"


class Http:
    """A kvctld at `endpoint`: unix:/PATH, or https://HOST:PORT whose certificate `ca` signed.

    `certificate` and `key` are a service's. UsageError KV-CTL-030 and 031 for what is no endpoint, or files that do not
    do; every call raises UnreachableError KV-CTL-032 within seconds when nobody answers.
    """

    def __init__(
        self, endpoint: str, *, ca: Path | None = None, certificate: Path | None = None, key: Path | None = None,
        patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self.endpoint = endpoint
        self._patience = patience
        self._cookie: str | None = None
        self._csrf: str | None = None
        self._context: ssl.SSLContext | None = None
        url = urlsplit(endpoint)
        if endpoint.startswith("unix:/"):
            self._origin = "http://localhost"  # the Host of a UnixConnection
        elif url.scheme == "https" and url.hostname and not url.path.strip("/"):
            self._host, self._port = url.hostname, url.port or 443
            self._origin = f"https://{url.netloc.rpartition('@')[2]}"
            self._context = context(ca, certificate, key)
        else:
            raise UsageError(
                "KV-CTL-030", f"{endpoint!r} is no controller", why="it is unix:/PATH or https://HOST:PORT"
            )

    def call(self, name: str, request: Any) -> dict[str, Any]:
        """One operation. Raises what the controller raised."""
        operation = OPERATIONS.get(name)
        if operation is None:
            raise UsageError("KV-CTL-004", f"there is no operation {name!r}")
        values = dataclasses.asdict(request)
        if operation.changes:
            return self._ask("POST", operation.path, values)
        query = urlencode([pair for field, value in values.items() for pair in texts(field, value)])
        return self._ask("GET", operation.path + (f"?{query}" if query else ""))

    def login(self, name: str, password: str, code: str = "") -> dict[str, Any]:
        """Sign in as a local account; from then on this client is that person. RefusedError KV-API-062, or 075 when
        the account's authenticator is to give a code, too."""
        session = self._ask("POST", "/login", {"name": name, "password": password, "code": code})
        self._csrf = session["csrf"]
        return session

    def confirm(self, password: str, code: str = "") -> None:
        """Give the password once more, for what needs it."""
        self._ask("POST", "/session/confirm", {"password": password, "code": code})

    def logout(self) -> None:
        self._ask("POST", "/logout", {})
        self._cookie = self._csrf = None

    def session(self) -> dict[str, Any]:
        """Who this client is, and what it may do."""
        return self._ask("GET", "/session")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        connection, changing = self.connection(), False
        try:
            self._alive(connection)
            changing = method != "GET"
            if connection.sock is not None:
                connection.sock.settimeout(self._patience)
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, self._headers(body is not None))
            response = connection.getresponse()
            data = response.read()
            self._keep_cookie(response)
        except (OSError, http.client.HTTPException) as error:
            raise (unanswered if changing else unreachable)(self.endpoint, error) from error
        finally:
            connection.close()
        return answered(self.endpoint, response.status, data)

    def _alive(self, connection: http.client.HTTPConnection) -> None:
        """That somebody is there, before the long wait: one who is stopped takes connections, too."""
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        data = response.read()
        if response.status != http.client.OK:
            answered(self.endpoint, response.status, data)

    def connection(self, timeout: float = CONNECT) -> http.client.HTTPConnection:
        """One that is not open yet, of which each step takes no longer than this many seconds."""
        if self._context is None:
            return UnixConnection(self.endpoint.removeprefix("unix:"), timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)

    def _headers(self, body: bool) -> dict[str, str]:
        headers = {"Accept": "application/json", "Origin": self._origin}
        if body:
            headers["Content-Type"] = "application/json"
        if self._cookie:
            headers["Cookie"] = f"{COOKIE}={self._cookie}"
        if self._csrf:
            headers["X-CSRF-Token"] = self._csrf
        return headers

    def _keep_cookie(self, response: http.client.HTTPResponse) -> None:
        for text in response.headers.get_all("Set-Cookie") or ():
            name, _, value = text.split(";")[0].partition("=")
            if name.strip() == COOKIE:
                self._cookie = value.strip().strip('"') or None


def texts(field: str, value: Any) -> list[tuple[str, str]]:
    """A value as query texts: nothing for None, one for each of a list's."""
    if value is None:
        return []
    if isinstance(value, list):
        return [(field, str(one)) for one in value]
    return [(field, str(value).lower() if isinstance(value, bool) else str(value))]


def context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    try:
        made = ssl.create_default_context(cafile=ca)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        if certificate:
            made.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise UsageError(
            "KV-CTL-031", "the CA or the client certificate cannot be used", why=str(error),
            fix="the controller's CA is <state>/<site>/tls/ca.crt on its machine",
        ) from error  # fmt: skip
    return made


def answered(endpoint: str, status: int, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise not_a_controller(endpoint, f"it answered {status} without JSON") from error
    if not isinstance(document, dict):
        raise not_a_controller(endpoint, f"it answered {status} with JSON of another kind")
    if status == http.client.OK:
        return document
    if "code" not in document or "what" not in document:
        raise not_a_controller(endpoint, f"it answered {status}")
    kind = KINDS.get(document.get("exit_code", int(ExitCode.FAILED)), KvctlError)
    said = {part: str(document.get(part, "")) for part in ("where", "why", "fix")}
    raise kind(document["code"], document["what"], **said)


def not_a_controller(endpoint: str, why: str) -> UnreachableError:
    return UnreachableError("KV-CTL-033", "this is not a controller of kvctl", where=endpoint, why=why)


def unanswered(endpoint: str, error: Exception) -> UnreachableError:
    return UnreachableError(
        "KV-CTL-035", "the controller's answer did not come: it may have done what it was asked for", where=endpoint,
        why=str(error) or type(error).__name__, fix="kvctl audit log tells what it did",
    )  # fmt: skip


def unreachable(endpoint: str, error: Exception) -> UnreachableError:
    return UnreachableError(
        "KV-CTL-032", "the controller does not answer", where=endpoint, why=str(error) or type(error).__name__,
        fix="is kvctld running there, and may you open its socket? kvctl controller status",
    )  # fmt: skip
