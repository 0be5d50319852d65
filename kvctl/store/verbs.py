"""What can be asked of a running kvstored, apart from how: each verb takes its decoded request and gives plain data."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta as Rule

from kvctl import __version__
from kvctl.daemon.metrics import Sample, process, render
from kvctl.store import governance
from kvctl.store.governance import Verb
from kvctl.store.metrics import FAMILIES
from kvctl.store.requests import MOST, Hex16, Request, Text
from kvctl.store.service import Service
from kvctl.types.chunks import Scope, TierName
from kvctl.types.errors import UsageError

STALLED = 5.0  # seconds without a sign of life from the listening thread


class Ls(Request, frozen=True):
    tenant: Text | None = None
    domain: Text | None = None
    after: str = ""
    limit: Annotated[int, Rule(ge=1, le=MOST)] = 100


class Scrub(Request, frozen=True):
    tier: TierName


class Erase(Request, frozen=True, kw_only=True):
    """A scope (tenant, domain, epoch), or a subject in one domain or in all of them."""

    tenant: Text
    domain: Text | None = None
    epoch: Hex16 | None = None
    subject: Hex16 | None = None


class Revoke(Request, frozen=True):
    ids: Annotated[list[Hex16], Rule(min_length=1, max_length=1000)]


Move = dict[str, Any]  # the store judges it


def health(service: Service, beat: Callable[[], float]) -> list[str]:
    """Why this daemon cannot serve a GET; empty when it can. `beat`: when the listening thread was last seen alive."""
    reasons = []
    if service.stopping or service.draining:
        reasons.append("draining")
    if time.monotonic() - beat() > STALLED:
        reasons.append("the listening thread does not answer")
    places = [place for tier in _tiers(service.store.stat()) for place in tier.get("places", ())]
    if places and all(place["state"] == "failed" for place in places):
        reasons.append("no tier can be read")
    return reasons


def metrics(service: Service, half_open: Callable[[], int]) -> str:
    """The whole page for Prometheus."""
    return render(
        [
            *service.metrics.samples(),
            *process(),
            *_store_samples(service.store.stat()),
            ("kvstored_sessions", (), service.sessions),
            ("kvstored_half_open", (), half_open()),
            ("kvstored_draining", (), service.draining),
            ("kvstored_log_lines_lost_total", (), service.log.lost),
        ],
        FAMILIES,
    )


def _tiers(stat: Mapping[str, Any]) -> list[dict[str, Any]]:
    tiers = plain(stat.get("tiers", []))
    return [{"name": name, **tier} for name, tier in tiers.items()] if isinstance(tiers, dict) else list(tiers)


def _store_samples(stat: Mapping[str, Any]) -> Iterator[Sample]:
    for tier in _tiers(stat):
        label = ("tier", str(tier["name"]))
        yield "kvstored_tier_capacity_bytes", (label,), tier["capacity"]
        yield "kvstored_tier_used_bytes", (label,), tier["used"]
        yield "kvstored_tier_chunks", (label,), tier["chunks"]
        yield "kvstored_tier_writable", (label,), tier["writable"]
        for place in tier.get("places", ()):
            yield "kvstored_place_ok", (label, ("place", place["name"])), place["state"] in ("ok", "full")
        yield from _events("kvstored_tier_events", (label,), tier.get("counters", {}))
    yield from _events("kvstored_ram", (), stat.get("ram", {}))
    yield from _events("kvstored_store_events", (), stat.get("counters", {}))


def _events(name: str, labels: tuple[tuple[str, str], ...], counters: Mapping[str, Any]) -> Iterator[Sample]:
    """What the store counts under its own names: they become a label."""
    for event, value in plain(counters).items():
        if isinstance(value, int | float):
            yield name, (*labels, ("of", event)), value


def stat(service: Service, _: Request) -> Any:
    live = service.live
    about = {
        "node": live.config.node,
        "version": __version__,
        "identity": service.identity.public.hex(),
        "sessions": service.sessions,
        "draining": service.draining,
    }
    return {"daemon": about, **plain(service.store.stat())}


def ls(service: Service, asked: Ls) -> Any:
    return {"chunks": service.store.ls(asked.tenant, asked.domain, asked.after, asked.limit)}


def scrub(service: Service, asked: Scrub) -> Any:
    return plain(service.store.scrub(asked.tier, lambda: service.stopping))


def drain(service: Service, _: Request) -> Any:
    """Refuse requests and write out what is pending; the process stays, until `resume` or its end."""
    service.draining = True
    broken = service.end_sessions(service.live.config.limits.drain_seconds)
    service.store.drain()
    service.log.info("drained", broken_sessions=broken)
    return {"draining": True, "broken_sessions": broken}


def resume(service: Service, _: Request) -> Any:
    if service.stopping:
        raise UsageError("KV-STORE-014", "this kvstored is ending", why="it was told to stop", fix="start it again")
    service.store.resume()
    service.draining = False
    service.log.info("resumed")
    return {"draining": False}


def reload(service: Service, _: Request) -> Any:
    service.reload()
    return {"reloaded": True}


def flush(service: Service, _: Request) -> Any:
    service.store.flush()
    return {"flushed": True}


def erase(service: Service, asked: Erase) -> Any:
    if (asked.epoch is None) == (asked.subject is None) or (asked.epoch is not None and asked.domain is None):
        raise UsageError(
            "KV-STORE-013", "what to erase is not clear", fix="give tenant, domain and epoch, or tenant and subject"
        )
    if asked.epoch is not None and asked.domain is not None:
        removed = service.store.erase_scope(Scope(asked.tenant, asked.domain, bytes.fromhex(asked.epoch)))
    else:
        assert asked.subject is not None
        removed = service.store.erase_subject(asked.tenant, asked.domain, bytes.fromhex(asked.subject))
    held = removed.pop("held", 0)
    service.log.info("erased", tenant=asked.tenant, by="epoch" if asked.epoch else "subject", held=held)
    return {"removed": removed, "held": held}


def revoke(service: Service, asked: Revoke) -> Any:
    service.revoke([bytes.fromhex(one) for one in asked.ids])
    return {"revoked": len(asked.ids)}


def move(service: Service, asked: Move) -> Any:
    return plain(service.store.move(asked, lambda: service.stopping))


READS: dict[str, Verb] = {"/v1/stat": (Request, stat), "/v1/ls": (Ls, ls), **governance.READS}
CHANGES: dict[str, Verb] = {
    **governance.CHANGES,
    "/v1/scrub": (Scrub, scrub),
    "/v1/drain": (Request, drain),
    "/v1/resume": (Request, resume),
    "/v1/reload": (Request, reload),
    "/v1/erase": (Erase, erase),
    "/v1/move": (Move, move),
    "/v1/flush": (Request, flush),
    "/v1/revoke": (Revoke, revoke),
}


def decode(kind: Any, data: bytes | dict[str, str]) -> Any:
    """A POST's JSON body or a GET's query, as the verb's request. UsageError KV-STORE-013."""
    try:
        if isinstance(data, dict):
            return msgspec.convert(data, kind, strict=False)
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise UsageError(
            "KV-STORE-013", "the request is not what this verb takes", why=str(bad), fix="see docs/kvstored.md"
        ) from bad


def plain(value: Any) -> Any:
    """Plain data for JSON: bytes become hexadecimal, dataclasses mappings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset | Iterator):
        return [plain(part) for part in value]
    return value.value if isinstance(value, Enum) else value
