"""Asking the site's controller from a node: JSON over a unix socket, or over https with this node's certificate."""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kvctl.connector.unixhttp import UnixConnection
from kvctl.types.errors import ExitCode, KvctlError, RefusedError, UnreachableError, UsageError

SECONDS = 20.0  # for one answer
MAX_ANSWER = 64 << 10


@dataclass(frozen=True, slots=True)
class ControllerAddress:
    """`unix:/PATH` or `https://HOST:PORT`; over https this node's certificate, its key and the site's CA."""

    endpoint: str
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None


def ask(
    address: ControllerAddress, method: str, path: str, body: Any = None, *, most: int = MAX_ANSWER,
    seconds: float = SECONDS,
) -> bytes:  # fmt: skip
    """What the controller answered, `most` bytes at most.

    UnreachableError KV-CONN-050 when there is no answer, or none of a controller; what the controller answered, with
    its code, as RefusedError when it refused and as KvctlError otherwise; UsageError KV-CONN-051 for an address that
    is none.
    """
    connection = _connection(address, seconds)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read(most + 1)
    except (OSError, http.client.HTTPException) as error:
        raise silent(address, str(error) or repr(error)) from error
    finally:
        connection.close()
    if len(data) > most:
        raise silent(address, f"its answer is longer than {most} bytes")
    if response.status != http.client.OK:
        raise _refusal(address, response.status, data)
    return data


def _connection(address: ControllerAddress, seconds: float) -> http.client.HTTPConnection:
    if address.endpoint.startswith("unix:/"):
        return UnixConnection(address.endpoint[5:], seconds)
    url = urlsplit(address.endpoint)
    if url.scheme != "https" or not url.hostname or not (address.certificate and address.key and address.ca):
        raise _no_address(address, "it is unix:/PATH, or https://HOST:PORT with a certificate, its key and a CA")
    try:
        context = ssl.create_default_context(cafile=address.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(address.certificate, address.key)
    except OSError as error:
        raise _no_address(address, f"its certificate cannot be used: {error}") from error
    return http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=seconds, context=context)


def _no_address(address: ControllerAddress, why: str) -> UsageError:
    return UsageError("KV-CONN-051", f"{address.endpoint!r} is no way to the controller", why=why)


def silent(address: ControllerAddress, why: str) -> UnreachableError:
    return UnreachableError(
        "KV-CONN-050", "the controller does not answer", where=address.endpoint, why=why,
        fix="what was fetched before serves until its end; is kvctld running, and does it listen there?",
    )  # fmt: skip


def _refusal(address: ControllerAddress, status: int, data: bytes) -> KvctlError:
    """What a controller answered. Anything else in its place, as a proxy's page, is no answer: it removes nothing."""
    try:
        said: Any = json.loads(data)
        code, what = str(said["code"]), str(said["what"])
        known = said["exit_code"]
    except (ValueError, KeyError, TypeError):
        return silent(address, f"status {status}")
    kind = RefusedError if known == ExitCode.REFUSED else KvctlError
    return kind(code, what, where=address.endpoint, why=str(said.get("why", "")), fix=str(said.get("fix", "")))
