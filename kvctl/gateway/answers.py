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


@dataclass(eq=False)
class Refused(Exception):
    """A request that goes no further. `reason` is the metric's label; `retry_after` is in seconds."""

    status: int
    code: str  # KV-GATE-nnn
    reason: str
    message: str
    retry_after: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


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


def event(refused: Refused, family: Family, request_id: str) -> bytes:
    """The last event of a stream that is cut."""
    data = body(refused, family, request_id)
    prefix = b"event: error\n" if family is Family.ANTHROPIC else b""
    return prefix + b"data: " + data + b"\n\n"
