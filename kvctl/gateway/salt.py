"""What ties a request to its tenant inside an engine: the cache salt, and the handle bound to it."""

import hashlib
import secrets
from dataclasses import dataclass

import msgspec

from kvctl.connector.handle import PARAMETER, Handle, cache_salt, salt_digest, sign
from kvctl.connector.keys import Identity
from kvctl.connector.pseudonym import pseudonym
from kvctl.gateway.answers import Refused
from kvctl.gateway.routes import Api
from kvctl.gateway.strip import Body, value
from kvctl.gateway.tenants import Caller
from kvctl.types.chunks import NEVER, NO_SUBJECT, Kind

COMMON = "common"  # the retention class of registered prompts
# Fields that put nothing into a prompt.
PLAIN = frozenset(
    {
        *("model", "messages", "prompt", "stream", "stream_options", "max_tokens", "max_completion_tokens"),
        *("min_tokens", "temperature", "top_p", "top_k", "min_p", "n", "seed", "stop", "stop_token_ids", "ignore_eos"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs"),
    }
)


@dataclass(frozen=True, slots=True)
class Tie:
    """What an engine is given, and whether the request named its user."""

    cache_salt: str
    handle: Handle | None  # None: nothing of this request is stored or loaded

    def fields(self, identity: Identity) -> dict[str, object]:
        signed = {} if self.handle is None else {"kv_transfer_params": {PARAMETER: sign(self.handle, identity)}}
        return {"cache_salt": self.cache_salt, **signed}


def subject_of(caller: Caller, user: str | None) -> bytes:
    """The user's pseudonym; NO_SUBJECT when none was named. Refused with 400 when the tenant wants one."""
    if user is None:
        if caller.tenant.require_subject == "refuse":
            message = "this tenant's requests name their user: x-kvctl-subject, or the API's own field for it"
            raise Refused(400, "KV-GATE-027", "no_subject", message)
        return NO_SUBJECT
    try:
        return pseudonym(caller.tenant.subject_key, user)
    except ValueError as bad:
        raise Refused(400, "KV-GATE-027", "bad_subject", str(bad)) from None


def tie(caller: Caller, subject: bytes, kind: Kind, now: int, seconds: float) -> Tie:
    """The salt and handle of a request at `now` (Unix seconds); the handle ends after `seconds`."""
    tenant, domain = caller.tenant, caller.domain
    if domain.isolation == "subject" and subject == NO_SUBJECT:
        # Nobody can be named who may find it again.
        return Tie(cache_salt(domain.salt_key, domain.name, secrets.token_bytes(32)), None)
    holder = subject if domain.isolation == "subject" else b""
    salt = cache_salt(domain.salt_key, domain.name, holder)
    kept = tenant.retention.get(COMMON if kind is Kind.COMMON else caller.key.retention)
    handle = Handle(
        tenant=tenant.name,
        domain=domain.name,
        epoch=domain.epoch,
        salt_digest=salt_digest(salt),
        subject=NO_SUBJECT if kind is Kind.COMMON else subject,
        kind=kind,
        expires_at=now + int(seconds),
        chunk_expires_at=NEVER if kept is None else now + kept,
    )
    return Tie(salt, handle)


def kind_of(body: Body, api: Api, common: tuple[str, ...]) -> Kind:
    """COMMON for a request that is nothing but a registered prompt: storing it makes it everybody's of the domain.

    A request that goes on after such a prompt is private: its chunks are its user's, and the prompt's are there.
    """
    if not common:
        return Kind.PRIVATE
    text = _only_text(body, api)
    found = text is not None and hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() in common
    return Kind.COMMON if found else Kind.PRIVATE


def _only_text(body: Body, api: Api) -> str | None:
    """The prompt's text when it is one text alone: a document or a template's argument may be its user's."""
    if not body.keys() <= PLAIN:
        return None
    if api is Api.COMPLETIONS:
        prompt = value(body, "prompt")
        return prompt if isinstance(prompt, str) else None
    if api is not Api.CHAT:
        return None
    try:
        messages = msgspec.json.decode(body.get("messages", msgspec.Raw(b"[]")), type=list[dict[str, msgspec.Raw]])
    except msgspec.DecodeError:
        return None
    if len(messages) != 1 or messages[0].keys() != {"role", "content"}:
        return None
    role, content = value(messages[0], "role"), value(messages[0], "content")
    return content if role in ("system", "developer") and isinstance(content, str) else None
