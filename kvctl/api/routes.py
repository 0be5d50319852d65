"""One route for each operation of the table: GET takes its request as a query, POST as a strict JSON body."""

import dataclasses
import typing
from functools import cache, partial
from inspect import Parameter, Signature
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, create_model

from kvctl.api.identity import caller_of
from kvctl.api.problems import PROBLEM
from kvctl.controller.core import Controller
from kvctl.types.operations import TABLE, Operation

WORKERS = 24  # calls at work at once
WAITERS = 256  # of those that wait for news on purpose: two of each GPU node, an engine and its gateway
WAITING = ("lease.scopes", "snapshot.get")
DOCUMENT: dict[str, Any] = {
    "type": "object",
    "properties": {"schema": {"type": "string", "description": "kvctl.<noun>.<verb>/<version>"}},
    "additionalProperties": True,
}
REFUSALS = {
    400: "The request is not right.",
    401: "Nobody is signed in.",
    403: "The caller's role, tenant or last proof does not allow it.",
    404: "There is nothing at this path.",
    409: "A rule or the present state forbids it.",
    413: "The body is too long.",
    423: "Somebody else is at work on it.",
    500: "It failed.",
    501: "This version does not have it.",
    502: "A node or store did not answer.",
    507: "The disk under the controller's state is full.",
}


@cache
def model_of(request: Any, strict: bool) -> type[BaseModel]:
    """The pydantic model of a request's dataclass. A field that it does not have is refused."""
    hints = typing.get_type_hints(request)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(request):
        default: Any = ...
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        fields[field.name] = (hints[field.name], default)
    config = ConfigDict(extra="forbid", strict=strict, allow_inf_nan=False)
    return create_model(request.__name__ + ("" if strict else "Query"), __config__=config, **fields)


def router(controller: Controller) -> APIRouter:
    """Routes of the whole table, below /v1."""
    made = APIRouter()
    workers, waiters = anyio.CapacityLimiter(WORKERS), anyio.CapacityLimiter(WAITERS)
    for operation in TABLE:
        limiter = waiters if operation.name in WAITING else workers
        made.add_api_route(
            operation.path,
            endpoint(controller, operation, limiter),
            methods=[operation.method],
            name=operation.name,
            operation_id=operation.name,
            summary=operation.name,
            description=(operation.request.__doc__ or "").strip(),
            tags=[operation.name.split(".")[0]],
            responses=responses(),
            openapi_extra={
                "x-kvctl-roles": sorted(operation.roles), "x-kvctl-site": operation.site,
                "x-kvctl-step-up": operation.step_up,
            },
        )  # fmt: skip
    return made


def endpoint(controller: Controller, operation: Operation, limiter: anyio.CapacityLimiter) -> Any:
    """A function with the signature that FastAPI reads: the caller's request, checked by the operation's model."""
    model = model_of(operation.request, operation.changes)  # type: ignore[arg-type]
    source = Body() if operation.changes else Query()

    async def call(request: Request, asked: Any) -> JSONResponse:
        who = caller_of(request.scope).principal
        wanted = operation.request(**{name: getattr(asked, name) for name in type(asked).model_fields})
        work = partial(controller.call, operation.name, who, wanted)
        return JSONResponse(await anyio.to_thread.run_sync(work, limiter=limiter))

    place = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        Parameter("request", place, annotation=Request),
        Parameter("asked", place, annotation=Annotated[model, source]),
    ]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def responses() -> dict[int | str, dict[str, Any]]:
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    found: dict[int | str, dict[str, Any]] = {
        200: {"description": "Done.", "content": {"application/json": {"schema": DOCUMENT}}}
    }
    return found | {status: {"description": why, "content": problem} for status, why in REFUSALS.items()}


def describe(document: dict[str, Any]) -> dict[str, Any]:
    """Finish an OpenAPI document: the shape of errors, and how a caller says who it is."""
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path in document.get("paths", {}).values():
        for operation in path.values():
            operation.get("responses", {}).pop("422", None)
    parts["securitySchemes"] = {
        "session": {"type": "apiKey", "in": "cookie", "name": "__Host-kvctl"},
        "certificate": {"type": "mutualTLS"},
    }
    document["security"] = [{"session": []}, {"certificate": []}]
    return document
