"""How many sequences an engine computes for a request: each takes a slot there.

Field names are those of vLLM 0.32: vllm/entrypoints/openai/{chat_completion,completion}/protocol.py; `best_of` is that
of engines before it. The width of a beam search is `n`.
"""

import msgspec

from kvctl.gateway.answers import Refused
from kvctl.gateway.routes import Api
from kvctl.gateway.strip import Body, value

EACH = ("n", "best_of")
PARTS = msgspec.json.Decoder(list[msgspec.Raw])
NUMBER = frozenset(b"-0123456789")


def prompts(body: Body, api: Api) -> int:
    """Prompts that the request has. Refused with 400 for a list that is none."""
    if api is not Api.COMPLETIONS:
        return 1
    return max(1, _listed(body, "prompt") + _listed(body, "prompt_embeds"))


def each(body: Body, api: Api) -> int:
    """Sequences for each prompt. Refused with 400 for what is no whole number: an engine may read it as one."""
    if api not in (Api.CHAT, Api.COMPLETIONS):
        return 1
    return max(1, *(_whole(body, name) for name in EACH))


def _whole(body: Body, name: str) -> int:
    found = value(body, name)
    if found is None:
        return 1
    if not isinstance(found, int) or isinstance(found, bool):
        raise Refused(400, "KV-GATE-026", "bad_request", f"{name} is a whole number")
    return found


def _listed(body: Body, name: str) -> int:
    """A text is one prompt, and so is a list of tokens; any other list has one in each place."""
    raw = bytes(body.get(name, b"null"))
    if not raw.startswith(b"["):
        return 0 if raw == b"null" else 1
    inner = raw[1:64].lstrip()
    if inner[:1] and inner[0] in NUMBER:
        return 1
    try:
        return len(PARTS.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(400, "KV-GATE-026", "bad_request", f"{name} is no JSON") from None
