"""Errors over HTTP: one JSON shape for all of them, and which status goes with which."""

import logging
import secrets
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import Scope

from kvctl.types.errors import ExitCode, KvctlError, RefusedError, UsageError

log = logging.getLogger(__name__)

STATUS = {
    ExitCode.USAGE: HTTPStatus.BAD_REQUEST,
    ExitCode.REFUSED: HTTPStatus.CONFLICT,
    ExitCode.LOCKED: HTTPStatus.LOCKED,
    ExitCode.UNREACHABLE: HTTPStatus.BAD_GATEWAY,
}
# Codes that HTTP has a word of its own for.
BY_CODE = {
    "KV-API-001": HTTPStatus.FORBIDDEN,
    "KV-API-002": HTTPStatus.FORBIDDEN,
    "KV-API-003": HTTPStatus.FORBIDDEN,
    "KV-API-004": HTTPStatus.FORBIDDEN,
    "KV-API-010": HTTPStatus.UNAUTHORIZED,
    "KV-API-011": HTTPStatus.NOT_FOUND,
    "KV-API-012": HTTPStatus.METHOD_NOT_ALLOWED,
    "KV-API-013": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "KV-API-014": HTTPStatus.REQUEST_TIMEOUT,
    "KV-API-015": HTTPStatus.INTERNAL_SERVER_ERROR,
    "KV-API-017": HTTPStatus.FORBIDDEN,
    "KV-API-019": HTTPStatus.TOO_MANY_REQUESTS,
    "KV-API-060": HTTPStatus.FORBIDDEN,
    "KV-API-062": HTTPStatus.UNAUTHORIZED,
    "KV-API-080": HTTPStatus.FORBIDDEN,
    "KV-API-083": HTTPStatus.UNAUTHORIZED,
    "KV-API-084": HTTPStatus.UNAUTHORIZED,
    "KV-API-085": HTTPStatus.FORBIDDEN,
    "KV-API-090": HTTPStatus.FORBIDDEN,
    "KV-CTL-002": HTTPStatus.INSUFFICIENT_STORAGE,
    "KV-CTL-004": HTTPStatus.NOT_FOUND,
    "KV-CTL-005": HTTPStatus.NOT_IMPLEMENTED,
}


def status_of(error: KvctlError) -> int:
    return int(BY_CODE.get(error.code) or STATUS.get(error.exit_code, HTTPStatus.INTERNAL_SERVER_ERROR))


def answer(error: KvctlError) -> JSONResponse:
    """The error as every face shows it."""
    return JSONResponse(error.as_dict(), status_of(error))


def nobody(why: str = "no session, no certificate and no socket of this machine's") -> RefusedError:
    return RefusedError("KV-API-010", "you are not signed in", why=why, fix="sign in, or use the controller's socket")


def fault(error: BaseException, where: str) -> KvctlError:
    """What a caller is told of a defect: an id. The log has the rest."""
    number = secrets.token_hex(6)
    log.error("fault %s at %s", number, where, exc_info=error)
    return KvctlError(
        "KV-API-015", "the controller failed", why=f"its log has it under id {number}",
        fix="report what the log says under that id",
    )  # fmt: skip


def invalid(error: RequestValidationError) -> UsageError:
    """Names what was wrong and where; never the value, which may be a secret in the wrong place."""
    said = []
    for one in error.errors():
        place = ".".join(str(part) for part in one["loc"][1:])
        said.append(f"{place}: {one['msg']}" if place else str(one["msg"]))
    return UsageError(
        "KV-API-016", "the request is not right", why="; ".join(sorted(set(said))[:5]),
        fix="/v1/openapi.json says what each operation takes",
    )  # fmt: skip


# What a browser is shown instead of JSON: (scope, error) -> a response, or None for JSON.
Instead = Callable[[Scope, KvctlError], Response | None]


def install(app: FastAPI, instead: Instead | None = None) -> None:
    """Every error of the application in the one shape, or as the page that `instead` makes of it."""

    def shown(request: Request, error: KvctlError) -> Response:
        page = instead(request.scope, error) if instead else None
        return page or answer(error)

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, KvctlError)
        return shown(request, error)

    async def not_valid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return shown(request, invalid(error))

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return shown(request, _http_error(request, error))

    app.add_exception_handler(KvctlError, known)
    app.add_exception_handler(RequestValidationError, not_valid)
    app.add_exception_handler(HTTPException, of_http)


def _http_error(request: Request, error: HTTPException) -> KvctlError:
    where = f"{request.method} {request.url.path[:200]}"
    fix = "/v1/openapi.json lists what there is"
    if error.status_code == HTTPStatus.NOT_FOUND:
        return UsageError("KV-API-011", "there is nothing at this path", where=where, fix=fix)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return UsageError("KV-API-012", "this path does not take that method", where=where, fix=fix)
    return UsageError("KV-API-016", "the request is not right", where=where, why=str(error.detail), fix=fix)


PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["code", "what", "where", "why", "fix", "exit_code"],
    "properties": {
        "code": {"type": "string", "pattern": "^KV-[A-Z]+-[0-9]{3}$"},
        "what": {"type": "string"},
        "where": {"type": "string"},
        "why": {"type": "string"},
        "fix": {"type": "string"},
        "exit_code": {"type": "integer", "description": "What kvctl exits with for it."},
    },
}
