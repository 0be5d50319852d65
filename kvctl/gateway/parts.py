"""Parts of messages on their way to an engine, without the names that a client would have its media cached by.

vLLM takes a content part's `uuid` as the hash of its image, audio or video (vllm/multimodal/processing/inputs.py in
0.32), for all tenants and without their salt: who knows or guesses one is given another's media, or gives another his
own. An OpenAI client has no such field. Whatever does not hold one passes as the bytes that the client sent.
"""

import re
from dataclasses import dataclass, field

import msgspec

from kvctl.gateway.answers import Refused

NAMES = ("uuid", "multi_modal_uuids")
# A prompt's own fields. Tools are beside them: a tool's argument may be called uuid.
ROOTS = ("messages", "system", "input", "prompt", "instructions")
# In a message: what a tool is called with and how it is declared is no content, and passes as it is.
OPAQUE = frozenset({"tools", "tool", "tool_calls", "function_call", "function", "arguments", "action", "input_schema"})
DEPTH = 10  # of what is looked into; a part in a tool's result in a message has 6
MOST = 50_000  # values that are looked at in one body: it is taken apart in the gateway's one loop
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def _spelled(name: str) -> str:
    """A name as JSON may write it, letter by letter."""
    return "".join(rf"(?:{letter}|\\u00(?i:{ord(letter):02x}))" for letter in name)


# In a JSON text an unescaped quote begins or ends a string, so this is a field's name wherever it is found; the one
# exception, a name that ends in \"uuid, costs a look. A text that speaks of "uuid" has its quotes escaped.
NAMED = re.compile(rf'"(?:{"|".join(_spelled(name) for name in NAMES)})"[ \t\r\n]*:'.encode())


def clean(body: dict[str, msgspec.Raw]) -> set[str]:
    """Take them out in place; which were found. Refused with 400 for what is no JSON, or too much to look at."""
    look = Look()
    for root in ROOTS:
        if root in body:
            body[root] = look.cleaned(body[root], 0)
    return look.found


@dataclass
class Look:
    found: set[str] = field(default_factory=set)
    _values: int = 0

    def cleaned(self, raw: msgspec.Raw, depth: int) -> msgspec.Raw:
        kind = bytes(memoryview(raw)[:1])
        if kind not in (b"{", b"[") or not NAMED.search(memoryview(raw)):
            return raw
        try:
            if kind == b"[":
                values = ARRAY.decode(raw)
                self._count(len(values), depth)
                return msgspec.Raw(msgspec.json.encode([self.cleaned(one, depth + 1) for one in values]))
            fields = OBJECT.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _bad("a message is no JSON") from None
        self._count(len(fields), depth)
        self.found.update(name for name in NAMES if name in fields)
        called = bytes(fields.get("type", msgspec.Raw(b""))).endswith(b'tool_use"')  # its `input` is the tool's
        kept = {
            name: one if name in OPAQUE or (called and name == "input") else self.cleaned(one, depth + 1)
            for name, one in fields.items()
            if name not in NAMES
        }
        return msgspec.Raw(msgspec.json.encode(kept))

    def _count(self, values: int, depth: int) -> None:
        self._values += values
        if self._values > MOST or depth >= DEPTH:
            raise _bad("its messages have too many parts, or parts in parts, with a uuid")


def _bad(message: str) -> Refused:
    return Refused(400, "KV-GATE-026", "bad_request", message)
