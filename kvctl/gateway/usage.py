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
    index: int | None = 0


class Chunk(Struct):
    """An answer, or a chunk of one, of OpenAI's older routes."""

    usage: OpenAi | None = None
    choices: list[Choice] | None = None


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


DONE = b"[DONE]"


@dataclass
class Meter:
    """The usage of a stream so far. `choices`: how many each prompt of the request has.

    `final`: the newest usage is the whole answer's; `over`: the engine has nothing more to say; `deltas` counts events
    with output.
    """

    api: Api
    choices: int = 1
    over: bool = False
    deltas: int = 0
    _sum: Used | None = None  # of all prompts and choices, until a choice says more
    _cached: int | None = None
    _prompt: dict[int, int] = field(default_factory=dict)  # by prompt: a chunk's usage is one choice's and its prompt's
    _output: dict[int, int] = field(default_factory=dict)  # by choice

    @property
    def final(self) -> bool:
        return self._sum is not None

    @property
    def used(self) -> Used:
        if self._sum is not None:
            return self._sum
        prompt, output = (sum(counts.values()) if counts else None for counts in (self._prompt, self._output))
        return Used(prompt, self._cached, output)

    def see(self, data: bytes) -> bool:
        """One event's data; whether it says nothing but the stream's usage."""
        if data == DONE:
            self.over = True
            return False
        try:
            if self.api is Api.MESSAGES:
                self._anthropic(ANTHROPIC.decode(data))
                return False
            if self.api is Api.RESPONSES:
                self._responses(RESPONSES.decode(data))
                return False
            return self._openai(CHUNK.decode(data))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False  # an error object, or what another version sends: it passes as it is

    def _openai(self, chunk: Chunk) -> bool:
        if not chunk.choices:
            if chunk.usage is None:
                return False
            self._all(of_openai(chunk.usage))
            return True
        self.deltas += 1
        if chunk.usage is not None:
            self._one(of_openai(chunk.usage), chunk.choices[0].index or 0)
        return False

    def _responses(self, event: ResponsesEvent) -> None:
        if event.type.endswith(".delta"):
            self.deltas += 1
        if event.type in ENDS:
            self.over = True
            if event.response is not None and event.response.usage is not None:
                self._all(of_responses(event.response.usage))

    def _anthropic(self, event: AnthropicEvent) -> None:
        if event.type == "content_block_delta":
            self.deltas += 1
        elif event.type == "message_start" and event.message is not None and event.message.usage is not None:
            begun = of_anthropic(event.message.usage)
            self._one(Used(begun.prompt, begun.cached), 0)  # its output is 0 before there is any
        elif event.type == "message_delta" and event.usage is not None:
            self._all(of_anthropic(event.usage))
        elif event.type == "message_stop":
            self.over = True

    def _one(self, used: Used, choice: int) -> None:
        """What one choice has so far. vLLM numbers them through: those of the first prompt, then those of the next."""
        self._sum = None
        self._cached = self._cached if used.cached is None else used.cached
        if used.prompt is not None:
            self._prompt[choice // self.choices] = used.prompt
        if used.output is not None:
            self._output[choice] = used.output

    def _all(self, used: Used) -> None:
        """The sum over all of them; what it does not say stays as it was."""
        before = self.used
        prompt = before.prompt if used.prompt is None else used.prompt
        self._cached = before.cached if used.cached is None else used.cached
        self._sum = Used(prompt, self._cached, before.output if used.output is None else used.output)
