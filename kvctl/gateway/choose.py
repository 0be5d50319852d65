"""Which engine a request goes to: the one that has its prefix, unless that one is too busy. Pure.

Rendezvous hashing (Thaler, Ravishankar 1998) with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2018): the engines are
in an order of the prefix's own; the first whose load is not above `overload` times the mean is taken.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvctl.gateway.answers import Refused

IDLE = 0.25


@dataclass(frozen=True, slots=True)
class Place:
    """An engine as routing sees it. `room`: it is up and has a slot for the class of the request."""

    name: str
    country: str
    models: frozenset[str]
    slots: int
    running: int = 0
    room: bool = True


def serving(places: Iterable[Place], model: str) -> list[Place]:
    """Refused with 404 when no engine has the model."""
    found = [place for place in places if model in place.models]
    if not found:
        raise Refused(404, "KV-GATE-040", "model", f"the model {model[:200]!r} is not served here")
    return found


def allowed(places: Sequence[Place], countries: tuple[str, ...] | None) -> list[Place]:
    """Those in a country where the tenant's data may be processed. Refused with 403, naming the rule, when none is."""
    found = [place for place in places if countries is None or place.country in countries]
    if not found:
        here = ", ".join(sorted({place.country for place in places}))
        rule = f"processing_countries [{', '.join(countries or ())}]"
        raise Refused(403, "KV-GATE-041", "residency", f"{rule} allows no engine of this model: they are in {here}")
    return found


def ranked(places: Iterable[Place], digest: bytes) -> list[Place]:
    """All of them, the prefix's own first."""

    def score(place: Place) -> bytes:
        return hashlib.blake2b(place.name.encode(), key=digest, digest_size=16).digest()

    return sorted(places, key=score, reverse=True)


def choose(places: Sequence[Place], digest: bytes, overload: float) -> Place | None:
    """The engine to take now; None when none has room. One that has used less than IDLE of its slots is never busy."""
    order = ranked((place for place in places if place.room), digest)
    share = (sum(place.running for place in places) + 1) / sum(place.slots for place in places)
    for place in order:
        bound = max(math.ceil(overload * share * place.slots), int(IDLE * place.slots))
        if place.running < bound:
            return place
    return min(order, key=lambda place: place.running / place.slots, default=None)


def prefix_digest(tenant: str, prefix: bytes) -> bytes:
    """32 bytes."""
    return hashlib.sha256(tenant.encode() + b"\0" + prefix).digest()
