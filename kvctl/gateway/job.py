"""What is asked of an engine: a client's request, cleaned, and all that is decided about it before it goes. Pure."""

from dataclasses import dataclass

from kvctl.connector.keys import Identity
from kvctl.gateway import sequences, strip
from kvctl.gateway.choose import prefix_digest
from kvctl.gateway.routes import Api, Route
from kvctl.gateway.salt import Tie, kind_of, subject_of, tie
from kvctl.gateway.tenants import Caller
from kvctl.types.chunks import NO_SUBJECT


@dataclass(slots=True)
class Job:
    route: Route
    model: str
    stream: bool
    body: strip.Body  # without what ties it to its tenant
    tie: Tie
    subject: bool  # whether the user was named
    stripped: list[str]
    digest: bytes  # of tenant and prefix
    size: int
    prompts: int
    sequences: int  # slots that it takes: of every prompt, each answer
    hide: bool = False  # the stream's usage at the end, which the client did not ask for
    plain: bool = False  # the usage in every chunk, likewise
    choices: int = 1  # of each prompt
    sent: bytes = b""  # the body for an engine, until it answers

    @property
    def api(self) -> Api:
        return self.route.api

    def data(self, identity: Identity) -> bytes:
        """The body for an engine."""
        body = dict(self.body)
        strip.put(body, self.tie.fields(identity))
        return strip.write(body)

    def prefill_data(self, identity: Identity) -> bytes:
        """The body for an engine that only computes the prompt."""
        body = {name: raw for name, raw in self.body.items() if name not in NOT_FOR_PREFILL}
        strip.put(body, self.tie.fields(identity) | {"stream": False} | dict.fromkeys(ONE_TOKEN[self.api], 1))
        return strip.write(body)


# What says how to go on after a prompt, and what would have the prompt computed in spite of a cache.
NOT_FOR_PREFILL = frozenset(
    {
        *("stream_options", "min_tokens", "n", "best_of", "use_beam_search", "max_completion_tokens"),
        *("response_format", "structured_outputs", "logprobs", "top_logprobs", "prompt_logprobs", "echo"),
    }
)
ONE_TOKEN = {
    Api.CHAT: ("max_tokens",),
    Api.COMPLETIONS: ("max_tokens",),
    Api.MESSAGES: ("max_tokens",),
    Api.RESPONSES: ("max_output_tokens",),
}


def prepare(
    route: Route, caller: Caller, data: bytes, header: str | None, *, prefix: int, now: int, seconds: float
) -> Job:
    """Refused with 400 for what cannot be served. `header` names the user; the handle ends `seconds` after `now`."""
    body = strip.read(data)
    strip.check(body, route.api)
    model = strip.model_of(body)
    stream = strip.streams(body)
    subject = subject_of(caller, strip.subject_of(body, route.api, header))
    clean, stripped = strip.clean(body, route.api)
    hide = plain = False
    if stream and route.api in (Api.CHAT, Api.COMPLETIONS):
        at_end, always = strip.with_usage(clean)
        hide, plain = not at_end, not always
    kind = kind_of(clean, route.api, caller.tenant.common)
    prompts = sequences.prompts(clean, route.api)
    return Job(
        route=route,
        model=model,
        stream=stream,
        body=clean,
        tie=tie(caller, subject, kind, now, seconds),
        subject=subject != NO_SUBJECT,
        stripped=stripped,
        digest=prefix_digest(caller.tenant.name, strip.prefix(clean, prefix)),
        size=len(data),
        prompts=prompts,
        sequences=prompts * sequences.each(clean, route.api),
        hide=hide,
        plain=plain,
        choices=choices_of(clean, route.api),
    )


def choices_of(body: strip.Body, api: Api) -> int:
    """Of each prompt; `sequences` has seen that it is a number."""
    return max(1, strip.value(body, "n") or 1) if api in (Api.CHAT, Api.COMPLETIONS) else 1
