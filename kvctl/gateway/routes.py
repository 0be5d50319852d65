"""The routes that exist past the gateway. A request's target is compared as it was sent, byte for byte: nothing is
decoded or normalised, so that no way of writing a path reaches another one. The engine is given the path from here."""

from dataclasses import dataclass
from enum import StrEnum

from kvctl.gateway.answers import Family, Refused


class Api(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    COUNT = "count"
    MODELS = "models"


@dataclass(frozen=True, slots=True)
class Route:
    api: Api
    path: str
    scope: str  # what an API key must be allowed
    family: Family = Family.OPENAI
    computes: bool = True  # it makes KV: salted, metered, queued


ROUTES = {
    ("POST", "/v1/chat/completions"): Route(Api.CHAT, "/v1/chat/completions", "inference"),
    ("POST", "/v1/completions"): Route(Api.COMPLETIONS, "/v1/completions", "inference"),
    ("POST", "/v1/responses"): Route(Api.RESPONSES, "/v1/responses", "inference"),
    ("POST", "/v1/messages"): Route(Api.MESSAGES, "/v1/messages", "inference", Family.ANTHROPIC),
    ("POST", "/v1/messages/count_tokens"): Route(
        Api.COUNT, "/v1/messages/count_tokens", "count", Family.ANTHROPIC, computes=False
    ),
    ("GET", "/v1/models"): Route(Api.MODELS, "/v1/models", "models", computes=False),
}


def find(method: str, target: str) -> Route:
    """The route of a request target as sent; its query (Anthropic's clients send ?beta=true) says nothing here.

    Refused with 404 for every other one.
    """
    path = target.partition("?")[0]
    route = ROUTES.get((method, path))
    if route is None:
        raise Refused(404, "KV-GATE-020", "no_route", "there is no such route")
    return route


def family_of(target: str, *, versioned: bool) -> Family:
    """Whose shape an answer has. `versioned`: the client says `anthropic-version`, as Anthropic's do everywhere; the
    list of models is on the same route for both."""
    theirs = target.startswith("/v1/messages") or (versioned and target.startswith("/v1/models"))
    return Family.ANTHROPIC if theirs else Family.OPENAI
