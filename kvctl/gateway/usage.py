"""What an engine says that a request used, in each API's own words."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from kvctl.gateway.routes import Api


@dataclass(frozen=True, slots=True)
class Used:
    """Tokens; None: the engine did not say."""

    prompt: int | None = None
    cached: int | None = None
    output: int | None = None


class Details(Struct):
    cached_tokens: int | None = None


class OpenAi(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None


class Responses(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: Details | None = None


class Anthropic(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class Choice(Struct):
    index: int = 0


class Chunk(Struct):
    """An answer, or a chunk of one, of OpenAI's older routes."""

    usage: OpenAi | None = None
    choices: list[Choice] = []


class Inner(Struct):
    usage: Responses | None = None


class ResponsesEvent(Struct):
    type: str = ""
    response: Inner | None = None


class Message(Struct):
    usage: Anthropic | None = None


class AnthropicEvent(Struct):
    type: str = ""
    message: Message | None = None
    usage: Anthropic | None = None


def of_openai(usage: OpenAi) -> Used:
    details = usage.prompt_tokens_details
    return Used(usage.prompt_tokens, details.cached_tokens if details else None, usage.completion_tokens)


def of_responses(usage: Responses) -> Used:
    details = usage.input_tokens_details
    return Used(usage.input_tokens, details.cached_tokens if details else None, usage.output_tokens)


def of_anthropic(usage: Anthropic) -> Used:
    """Anthropic leaves what came from the cache, and what was put there, out of input_tokens."""
    parts = (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    prompt = None if parts[0] is None else sum(part or 0 for part in parts)
    return Used(prompt, usage.cache_read_input_tokens, usage.output_tokens)


WHOLE: dict[Api, tuple[Any, Callable[[Any], Used]]] = {
    Api.CHAT: (Chunk, of_openai),
    Api.COMPLETIONS: (Chunk, of_openai),
    Api.RESPONSES: (Inner, of_responses),
    Api.MESSAGES: (Message, of_anthropic),
}


def whole(api: Api, data: bytes) -> Used:
    """Of an answer that is no stream."""
    kind, convert = WHOLE[api]
    try:
        usage = msgspec.json.decode(data, type=kind).usage
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Used()
    return convert(usage) if usage is not None else Used()


CHUNK = msgspec.json.Decoder(Chunk)
RESPONSES = msgspec.json.Decoder(ResponsesEvent)
ANTHROPIC = msgspec.json.Decoder(AnthropicEvent)
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclass
class Meter:
    """The usage of a stream so far. `final`: the engine has said all; `deltas` counts events with output."""

    api: Api
    final: bool = False
    deltas: int = 0
    _prompt: int | None = None
    _cached: int | None = None
    _output: dict[int, int] = field(default_factory=dict)  # by choice

    @property
    def used(self) -> Used:
        return Used(self._prompt, self._cached, sum(self._output.values()) if self._output else None)

    def see(self, data: bytes) -> bool:
        """One event's data; whether it says nothing but the stream's usage."""
        try:
            if self.api is Api.MESSAGES:
                self._anthropic(ANTHROPIC.decode(data))
                return False
            if self.api is Api.RESPONSES:
                self._responses(RESPONSES.decode(data))
                return False
            return self._openai(CHUNK.decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False  # `[DONE]`, an error object, or what another version sends: it passes as it is

    def _openai(self, chunk: Chunk) -> bool:
        if chunk.choices:
            self.deltas += 1
        if chunk.usage is None:
            return False
        used = of_openai(chunk.usage)
        if not chunk.choices:
            self.final = True
            self._take(used, None)
            return True
        self._take(used, chunk.choices[0].index)
        return False

    def _responses(self, event: ResponsesEvent) -> None:
        if event.type.endswith(".delta"):
            self.deltas += 1
        if event.type in ENDS and event.response is not None and event.response.usage is not None:
            self.final = True
            self._take(of_responses(event.response.usage), None)

    def _anthropic(self, event: AnthropicEvent) -> None:
        if event.type == "content_block_delta":
            self.deltas += 1
        elif event.type == "message_start" and event.message is not None and event.message.usage is not None:
            begun = of_anthropic(event.message.usage)
            self._take(Used(begun.prompt, begun.cached), None)  # its output is 0 before there is any
        elif event.type == "message_delta" and event.usage is not None:
            self.final = True
            self._take(of_anthropic(event.usage), None)

    def _take(self, used: Used, choice: int | None) -> None:
        """`choice` None: the sum over all of them."""
        self._prompt = self._prompt if used.prompt is None else used.prompt
        self._cached = self._cached if used.cached is None else used.cached
        if used.output is not None and choice is None:
            self._output = {0: used.output}
        elif used.output is not None and choice is not None:
            self._output[choice] = used.output
