"""Four eyes: who may vote on what, when a request is decided, and whether it is still what was approved."""

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvctl.types.errors import RefusedError
from kvctl.types.principals import Kind, Principal, Role

GROWTH = 1.05  # what is carried out may be that much larger than what was approved
HOLDS = "holds"  # of an impact: ids of the holds that it meets
# A data protection officer decides on these beside the approvers.
DPO_KINDS = frozenset({"erase.tenant", "erase.subject", "hold.lift", "key.destroy", "tenant.offboard"})


@dataclass(frozen=True, slots=True)
class Request:
    """An approval request as it stands. Times are RFC 3339 texts of one form, so that they compare."""

    id: str
    kind: str
    tenant: str | None
    payload: str  # canonical JSON
    payload_sha256: str
    impact: Mapping[str, Any]
    requester: str
    required: int
    state: str  # pending | approved | rejected | expired | executed | aborted
    expires: str
    execute_by: str | None
    votes: Mapping[str, str]  # voter -> yes | no
    void: frozenset[str] = frozenset()  # voters who could not vote on it any more

    @property
    def yes(self) -> int:
        """Votes for it that count."""
        return sum(vote == "yes" and voter not in self.void for voter, vote in self.votes.items())

    @property
    def content(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.payload)
        return found


def canonical(payload: Mapping[str, Any]) -> str:
    """The one text of a payload: sorted, without spaces."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def roles_for(kind: str) -> frozenset[Role]:
    return frozenset({Role.APPROVER, Role.DPO}) if kind in DPO_KINDS else frozenset({Role.APPROVER})


def person(name: str) -> str:
    """Whose a principal's name is, however this person signed in: root on the machine and the account root are one."""
    scheme, _, rest = unicodedata.normalize("NFKC", name).casefold().partition(":")
    return rest if scheme in ("local", "unix") else f"{scheme}:{rest}"


def check_vote(request: Request, who: Principal, payload_sha256: str, now: str) -> None:
    """RefusedError KV-APP-002 to 007: why this vote does not count."""
    if who.kind is not Kind.HUMAN:
        raise RefusedError("KV-APP-002", "only people vote", why=f"{who.name} is a {who.kind}")
    if not who.has(*roles_for(request.kind)):
        needed = " or ".join(sorted(roles_for(request.kind)))
        raise RefusedError("KV-APP-003", f"{who.name} does not vote on {request.kind}", why=f"that is for {needed}")
    if person(who.name) == person(request.requester):
        raise RefusedError(
            "KV-APP-004", "whoever asks does not approve", why=f"{request.requester} made this request",
            fix="ask somebody else",
        )  # fmt: skip
    if person(who.name) in {person(voter) for voter in request.votes}:
        raise RefusedError("KV-APP-005", f"{who.name} has voted on {request.id} already", why="one vote a person")
    if request.state != "pending" or overdue(request, now):
        state = "expired" if overdue(request, now) else request.state
        raise RefusedError("KV-APP-006", f"{request.id} takes no more votes", why=f"it is {state}")
    if payload_sha256 != request.payload_sha256:
        raise RefusedError(
            "KV-APP-007", "this vote is on something else",
            why=f"it names the payload {payload_sha256[:16]}…, the request has {request.payload_sha256[:16]}…",
            fix=f"kvctl approve show {request.id}, then vote on what it shows",
        )  # fmt: skip


def decided(request: Request, decision: str) -> str:
    """The state of a request after one more vote. One no ends it."""
    if decision == "no":
        return "rejected"
    return "approved" if request.yes + 1 >= request.required else "pending"


def lapsed(request: Request) -> list[str]:
    """Why an approved request is not approved any more: too many who voted for it lost the role for that."""
    if request.yes >= request.required:
        return []
    gone = sorted(voter for voter in request.void if request.votes[voter] == "yes")
    return [f"{voter} approved it and may not vote on {request.kind} any more" for voter in gone]


def overdue(request: Request, now: str) -> str:
    """Whose time is over: of the "approval", of the "execution", or nobody's: ""."""
    if request.state == "pending" and request.expires <= now:
        return "approval"
    if request.state == "approved" and request.execute_by is not None and request.execute_by <= now:
        return "execution"
    return ""


def growth(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Why what would be done now is not what was approved; none when it is."""
    reasons = [f"hold {one} is met now" for one in sorted(set(after.get(HOLDS) or ()) - set(before.get(HOLDS) or ()))]
    old, new = dict(_numbers(before)), dict(_numbers(after))
    for path in sorted(old.keys() | new.keys()):
        reasons += _grown(path, old.get(path, 0), new.get(path, 0))
    return reasons


def _grown(path: str, old: float | None, new: float | None) -> list[str]:
    """What is left out is none of it; null is not known, and what is not known may have grown."""
    if old is None or new is None:
        return [] if old == new else [f"{path} was {_known(old)}, and is {_known(new)} now"]
    return [f"{path} grew from {old} to {new}"] if new > old * GROWTH else []


def _known(value: float | None) -> str:
    return "not known" if value is None else str(value)


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, float | None]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _numbers(part, f"{path}.{key}".lstrip("."))
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path, value
