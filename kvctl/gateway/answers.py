"""What a client is told when it is refused: each API family's own shape, with a stable code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec


class Family(StrEnum):
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    502: "server_error",
    503: "server_error",
    504: "server_error",
}


class Said(msgspec.Struct):
    message: str


class EngineError(msgspec.Struct):
    """vLLM's, of either family: on Anthropic's routes it has OpenAI's shape where a request is not valid."""

    error: Said


@dataclass(eq=False)
class Refused(Exception):
    """A request that goes no further. `reason` is the metric's label; `retry_after` is in seconds.

    `close`: nothing more is read from the client's connection.
    """

    status: int
    code: str  # KV-GATE-nnn
    reason: str
    message: str
    retry_after: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    close: bool = False


def body(refused: Refused, family: Family, request_id: str) -> bytes:
    return msgspec.json.encode(document(refused, family, request_id))


def document(refused: Refused, family: Family, request_id: str) -> dict[str, Any]:
    """As https://docs.anthropic.com/en/api/errors and OpenAI's error object have it."""
    message = f"{refused.code}: {refused.message}"
    if family is Family.ANTHROPIC:
        kind = ANTHROPIC_TYPES.get(refused.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
    kind = OPENAI_TYPES.get(refused.status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": refused.code}}


def of_engine(data: bytes, status: int, family: Family, request_id: str) -> bytes:
    """An engine's error as the family's clients know one; as it is when it has no message, or theirs is its own."""
    if family is not Family.ANTHROPIC:
        return data
    try:
        message = msgspec.json.decode(data, type=EngineError).error.message
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data
    error = {"type": ANTHROPIC_TYPES.get(status, "api_error"), "message": message}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})


def event(refused: Refused, family: Family, request_id: str) -> bytes:
    """The last event of a stream that is cut."""
    data = body(refused, family, request_id)
    prefix = b"event: error\n" if family is Family.ANTHROPIC else b""
    return prefix + b"data: " + data + b"\n\n"
