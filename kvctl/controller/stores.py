"""Asking kvstored: its admin verbs over a unix socket or mutual TLS (docs/kvstored.md)."""

import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from kvctl.connector.unixhttp import UnixConnection
from kvctl.controller.settings import EngineSettings, StoreSettings
from kvctl.fleet.remote.netns import in_namespace
from kvctl.types.errors import ExitCode, KvctlError, LockedError, RefusedError, UnreachableError, UsageError

CONNECT = 10.0  # seconds
KINDS: dict[int, type[KvctlError]] = {
    ExitCode.USAGE: UsageError,
    ExitCode.REFUSED: RefusedError,
    ExitCode.LOCKED: LockedError,
    ExitCode.UNREACHABLE: UnreachableError,
}


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """`unix:/PATH` or `https://HOST:PORT`; over https a client certificate, its key and the store's CA."""

    endpoint: str
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    netns: str = ""  # the network namespace that the store is in, when it is not this process's

    @classmethod
    def of(cls, settings: StoreSettings | EngineSettings) -> "StoreAddress":
        """Where the controller's settings say that a store is, or a gateway: it is asked the same way."""
        certificate, key, ca = (
            Path(name) if name else None for name in (settings.certificate, settings.key, settings.ca)
        )
        return cls(settings.admin, certificate, key, ca, settings.netns)


class TlsConnection(http.client.HTTPSConnection):
    def __init__(self, host: str, port: int, timeout: float, context: ssl.SSLContext, netns: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._tls = context
        self._netns = netns

    def connect(self) -> None:
        plain = in_namespace(self._netns, self._dial) if self._netns else self._dial()
        plain.settimeout(self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)

    def _dial(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), CONNECT)


def ask(
    address: StoreAddress, verb: str, body: dict[str, Any] | None = None, *, query: dict[str, Any] | None = None,
    timeout: float = 60.0,
) -> dict[str, Any]:  # fmt: skip
    """One verb of one store: POST with a body, GET without. Raises UnreachableError, or what the store answered."""
    connection = _connection(address, timeout)
    path = f"/v1/{verb}" + (f"?{urlencode(query)}" if query else "")
    try:
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(
            "KV-STORE-030", "the store's admin side does not answer", where=address.endpoint,
            why=str(error) or repr(error), fix="is kvstored running, and may you open its admin socket?",
        ) from error  # fmt: skip
    finally:
        connection.close()
    return _answer(address, response.status, data)


def _connection(address: StoreAddress, timeout: float) -> http.client.HTTPConnection:
    if address.endpoint.startswith("unix:/"):
        return UnixConnection(address.endpoint[5:], timeout, connect=CONNECT)
    url = urlsplit(address.endpoint)
    if url.scheme != "https" or not url.hostname or not (address.certificate and address.key and address.ca):
        raise UsageError(
            "KV-STORE-031", f"{address.endpoint!r} is no admin address of a store",
            why="it is unix:/PATH, or https://HOST:PORT with --cert, --key and --ca",
        )  # fmt: skip
    try:
        context = ssl.create_default_context(cafile=address.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(address.certificate, address.key)
    except OSError as error:
        raise UsageError("KV-STORE-032", "the client certificate cannot be used", why=str(error)) from error
    return TlsConnection(url.hostname, url.port or 443, timeout, context, address.netns)


def _answer(address: StoreAddress, status: int, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise UnreachableError(
            "KV-STORE-033", "this is not the admin side of a kvstored", where=address.endpoint,
            why=f"it answered {status} without JSON",
        ) from error  # fmt: skip
    if status == http.client.OK and isinstance(document, dict):
        return document
    if not isinstance(document, dict) or "code" not in document:
        raise UnreachableError(
            "KV-STORE-033", "this is not the admin side of a kvstored", where=address.endpoint, why=f"status {status}"
        )
    kind = KINDS.get(document.get("exit_code", 1), KvctlError)
    where = " ".join(part for part in (address.endpoint, document.get("where", "")) if part)
    raise kind(
        document["code"], document["what"], where=where, why=document.get("why", ""), fix=document.get("fix", "")
    )
