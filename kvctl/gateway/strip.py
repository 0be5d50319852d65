"""A client's body on its way to an engine: what may not pass is taken out, what is ours is put in.

Only the top level is taken apart, and messages that name their media (kvctl.gateway.parts); every other value passes
as the bytes the client sent. Field names are those of vLLM 0.32: vllm/entrypoints/{openai,anthropic}/*/protocol.py.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from kvctl.gateway import parts
from kvctl.gateway.answers import Refused
from kvctl.gateway.routes import Api

# Who salts, routes and ranks: the gateway. vllm_xargs reaches the engine's core beside kv_transfer_params.
DROPPED = frozenset(
    {
        "cache_salt",
        "kv_transfer_params",
        "kv_hints",
        "ec_transfer_params",
        "vllm_xargs",
        "prompt_cache_key",
        "prompt_cache_retention",
        "session_id",
        "request_id",
        "priority",
        "service_tier",
        "data_parallel_rank",
        "tenant",
        "tenant_id",
        "x-tenant-id",
        "x_tenant_id",
        "lora_request",
        "lora_path",
        *parts.NAMES,
    }
)
DROPPED_PREFIXES = ("kv_", "ec_", "vllm_", "cache_salt", "x-tenant", "x_tenant")
SUBJECTS = frozenset({"user", "safety_identifier"})  # of OpenAI's routes; Anthropic's is metadata.user_id
TOP = msgspec.json.Decoder(dict[str, msgspec.Raw])
ANY = msgspec.json.Decoder()
PROMPTS = ("system", "instructions", "tools", "messages", "prompt", "input")  # in this order in an engine's prompt

Body = dict[str, msgspec.Raw]


def read(data: bytes) -> Body:
    """The top level of a JSON object. Refused with 400 for anything else."""
    try:
        return TOP.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _bad("the body is no JSON object") from None


def value(body: Body, name: str) -> Any:
    """A field as plain data; None when it is not there. Refused with 400 when it is no JSON."""
    raw = body.get(name)
    if raw is None:
        return None
    try:
        return ANY.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _bad(f"{name} is no JSON") from None


def model_of(body: Body) -> str:
    model = value(body, "model")
    if not isinstance(model, str) or not model:
        raise _bad("model is missing")
    return model


def streams(body: Body) -> bool:
    stream = value(body, "stream")
    if stream not in (None, True, False):
        raise _bad("stream is true or false")
    return bool(stream)


def subject_of(body: Body, api: Api, header: str | None) -> str | None:
    """The end user's id: our header's, else the API's own field. Refused with 400 when it is no text."""
    if header:
        return header
    if api in (Api.MESSAGES, Api.COUNT):
        metadata = value(body, "metadata")
        found = metadata.get("user_id") if isinstance(metadata, dict) else None
    else:
        found = value(body, "safety_identifier") or value(body, "user")
    if found is not None and not isinstance(found, str):
        raise _bad("a user's id is a text")
    return found or None


def check(body: Body, api: Api) -> None:
    """Refused with 400 for what would be answered from what an engine keeps for others."""
    if api is Api.RESPONSES and (value(body, "previous_response_id") or value(body, "background")):
        raise _bad("responses are not kept: previous_response_id and background are not served; send the whole input")


def clean(body: Body, api: Api) -> tuple[Body, list[str]]:
    """The body without what may not pass, and the names of fields that were taken out. Refused as by `parts.clean`."""
    kept = {name: raw for name, raw in body.items() if not _dropped(name)}
    stripped = [name for name in body if name not in kept] + sorted(parts.clean(kept))
    if api in (Api.MESSAGES, Api.COUNT):
        kept.pop("metadata", None)
    else:
        for name in SUBJECTS:
            kept.pop(name, None)
    if api is Api.RESPONSES:
        kept["store"] = msgspec.Raw(b"false")
    return kept, stripped


def _dropped(name: str) -> bool:
    lowered = name.lower()
    return lowered in DROPPED or lowered.startswith(DROPPED_PREFIXES)


def with_usage(body: Body) -> tuple[bool, bool]:
    """Ask a stream of OpenAI's older routes for its usage in every chunk; what the client asked for is returned.

    (its usage at the end, its usage in every chunk). A client that leaves early is metered by the last chunk it got.
    """
    options = value(body, "stream_options")
    if options is not None and not isinstance(options, dict):
        raise _bad("stream_options is an object")
    asked = dict(options or {})
    at_end = asked.get("include_usage") is True
    always = at_end and asked.get("continuous_usage_stats") is True
    asked |= {"include_usage": True, "continuous_usage_stats": True}
    body["stream_options"] = msgspec.Raw(msgspec.json.encode(asked))
    return at_end, always


def put(body: Body, fields: Mapping[str, Any]) -> None:
    for name, given in fields.items():
        body[name] = msgspec.Raw(msgspec.json.encode(given))


def write(body: Body) -> bytes:
    return msgspec.json.encode(body)


def prefix(body: Body, length: int) -> bytes:
    """The first bytes of what an engine computes: equal for requests that can share a prefix."""
    parts = b"\0".join(bytes(memoryview(body[name])[:length]) for name in PROMPTS if name in body)
    return parts[:length]


def _bad(message: str) -> Refused:
    return Refused(400, "KV-GATE-026", "bad_request", message)
