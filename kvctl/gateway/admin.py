"""The admin side: JSON over HTTP on a unix socket, for root and the gateway's own user; see docs/kvgated.md."""

import asyncio
import os
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from aiohttp import web

from kvctl import __version__
from kvctl.daemon.metrics import Sample, process, render
from kvctl.daemon.sockets import peer_uid
from kvctl.gateway.gateway import Gateway
from kvctl.gateway.metrics import FAMILIES
from kvctl.gateway.records import MOST_READ, Place
from kvctl.types.errors import ExitCode, KvctlError, RefusedError, UsageError

MAX_BODY = 64 << 10
STATUS = {ExitCode.USAGE: 400, ExitCode.REFUSED: 409, ExitCode.LOCKED: 423, ExitCode.UNREACHABLE: 502}
Verb = Callable[[dict[str, Any]], Awaitable[Any]]


class Flush(msgspec.Struct, forbid_unknown_fields=True):
    """`engines`: names; none: all. `running`: break off what runs, so that nothing of it stays either."""

    engines: list[str] = []
    running: bool = False


class Collected(msgspec.Struct, forbid_unknown_fields=True):
    upto: str  # BOOT:COUNTER of the last record that is safe elsewhere


class Admin:
    """For aiohttp.web.Server."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._gets: dict[str, Verb] = {"/v1/stat": self._stat, "/v1/usage": self._usage}
        self._posts: dict[str, Verb] = {"/v1/flush": self._flush, "/v1/collected": self._collected}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except KvctlError as error:
            status = 404 if error.code == "KV-GATE-055" else STATUS.get(error.exit_code, 500)
            return _json(error.as_dict(), status)
        except Exception:  # noqa: BLE001  a fault of one verb leaves the daemon as it was
            self._gateway.log.error("admin fault", path=request.raw_path[:200], trace=traceback.format_exc()[-1500:])
            return _json(KvctlError("KV-GATE-060", "a fault of kvgated", why="its log has it").as_dict(), 500)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self._check_peer(request)
        url = urlsplit(request.raw_path)
        if request.method == "GET" and url.path == "/metrics":
            text = render(samples(self._gateway), FAMILIES)
            return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
        if request.method == "GET" and url.path == "/healthz":
            reasons = health(self._gateway)
            return _json({"ok": not reasons, "reasons": reasons}, 503 if reasons else 200)
        verb = {"GET": self._gets, "POST": self._posts}.get(request.method, {}).get(url.path)
        if verb is None:
            where = f"{request.method} {request.raw_path[:200]}"
            raise UsageError("KV-GATE-055", "there is no such verb here", where=where, fix="see docs/kvgated.md")
        asked = dict(parse_qsl(url.query)) if request.method == "GET" else await self._body(request)
        return _json(await verb(asked), 200)

    def _check_peer(self, request: web.BaseRequest) -> None:
        sock = request.transport.get_extra_info("socket") if request.transport else None
        uid = peer_uid(sock) if sock is not None else -1
        if uid not in (0, os.geteuid()):
            raise RefusedError("KV-GATE-056", "this socket is for the gateway's own user and root", why=f"user {uid}")

    async def _body(self, request: web.BaseRequest) -> dict[str, Any]:
        data = bytearray()
        async for part in request.content.iter_any():
            data += part
            if len(data) > MAX_BODY:
                raise UsageError("KV-GATE-054", "the request is wrong", why=f"it has more than {MAX_BODY} bytes")
        found: dict[str, Any] = _convert(bytes(data) or b"{}", dict[str, Any])
        return found

    async def _stat(self, asked: dict[str, Any]) -> dict[str, Any]:
        return stat(self._gateway)

    async def _usage(self, asked: dict[str, Any]) -> dict[str, Any]:
        after = Place.parse(asked["after"]) if asked.get("after") else None
        limit = asked.get("limit", "1000")
        if not (limit.isascii() and limit.isdigit() and 0 < int(limit) <= MOST_READ):
            raise UsageError("KV-GATE-054", "limit is wrong", why=f"1 to {MOST_READ}")
        records = self._gateway.records
        found = await asyncio.to_thread(records.read, after, int(limit))
        last = found[-1] if found else None
        place = str(Place(last["boot"], last["counter"])) if last else asked.get("after")
        return {"schema": "kvctl.usage-page/1", "boot": records.boot, "records": found, "after": place}

    async def _collected(self, asked: dict[str, Any]) -> dict[str, Any]:
        upto = Place.parse(_convert(asked, Collected).upto)
        return {"removed": await asyncio.to_thread(self._gateway.records.collected, upto)}

    async def _flush(self, asked: dict[str, Any]) -> dict[str, Any]:
        wanted = _convert(asked, Flush)
        by_name = self._gateway.engines.by_name
        if unknown := [name for name in wanted.engines if name not in by_name]:
            raise UsageError("KV-GATE-054", f"there is no engine {unknown[0][:80]!r}", fix="see /v1/stat")
        chosen = [by_name[name] for name in wanted.engines] or self._gateway.engines.all
        said = await asyncio.gather(*(engine.flush(running=wanted.running) for engine in chosen))
        answers = [{"engine": engine.name, **one} for engine, one in zip(chosen, said, strict=True)]
        for one in answers:
            self._gateway.log.info("flush", engine=one["engine"], success=one["success"], why=one["why"])
        return {"schema": "kvctl.flush/1", "complete": all(one["success"] for one in answers), "engines": answers}


def _convert(data: Any, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind) if isinstance(data, bytes) else msgspec.convert(data, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as bad:
        raise UsageError("KV-GATE-054", "the request is wrong", why=str(bad), fix="see docs/kvgated.md") from bad


def _json(data: Any, status: int) -> web.Response:
    headers = {"Content-Type": "application/json"}
    return web.Response(status=status, body=msgspec.json.encode(data) + b"\n", headers=headers)


def health(gateway: Gateway) -> list[str]:
    """Why it cannot serve; empty when it can."""
    reasons = []
    if gateway.draining:
        reasons.append("draining")
    found = gateway.watch.directory
    if found is None:
        reasons.append(f"no snapshot is in force: {gateway.watch.why}")
    elif gateway.clock() >= found.snapshot.expires_at:
        reasons.append("the snapshot is over")
    if not any(engine.up for engine in gateway.engines.all):
        reasons.append("no engine answers")
    if gateway.records.waiting:
        reasons.append(f"usage records cannot be written: {gateway.records.why}")
    return reasons


def stat(gateway: Gateway) -> dict[str, Any]:
    found = gateway.watch.directory
    snapshot = found.snapshot if found else None
    return {
        "schema": "kvctl.gateway-stat/1",
        "gateway": gateway.config.gateway,
        "site": gateway.config.site,
        "version": __version__,
        "draining": gateway.draining,
        "snapshot": {
            "number": snapshot.number if snapshot else None,
            "expires_at": snapshot.expires_at if snapshot else None,
            "tenants": len(snapshot.tenants) if snapshot else None,
        },
        "engines": [
            {
                "name": engine.name,
                "up": engine.up,
                "why": engine.why,
                "country": engine.written.country,
                "role": engine.written.role,
                "models": sorted(engine.models),
                "slots": engine.written.slots,
                "running": {sla: engine.running[sla] for sla in ("gold", "silver", "bronze")},
            }
            for engine in gateway.engines.all
        ],
        "tenants": [
            {"name": name, "running": count, "tokens_today": gateway.rates.today(name, gateway.clock())}
            for name, count in sorted(gateway.admission.running.items())
        ],
        "waiting": dict(gateway.admission.waiting),
        "usage": {"boot": gateway.records.boot, "counter": gateway.records.counter, "waiting": gateway.records.waiting},
    }


def samples(gateway: Gateway) -> Iterator[Sample]:
    """Counters, and the gauges of this moment."""
    yield from gateway.metrics.samples()
    yield from process()
    for sla in ("gold", "silver", "bronze"):
        yield "kvgated_waiting", (("sla", sla),), gateway.admission.waiting[sla]
        running = sum(engine.running[sla] for engine in gateway.engines.all)
        yield "kvgated_running", (("sla", sla),), running
    for engine in gateway.engines.all:
        yield "kvgated_engine_up", (("engine", engine.name),), float(engine.up)
        yield "kvgated_engine_slots", (("engine", engine.name),), engine.written.slots
    yield "kvgated_streams", (), len(gateway.flights)
    yield "kvgated_held_bytes", (), gateway.held.bytes
    yield "kvgated_usage_waiting", (), gateway.records.waiting
    yield "kvgated_log_lines_lost_total", (), gateway.log.lost
    if gateway.watch.directory is not None:
        snapshot = gateway.watch.directory.snapshot
        yield "kvgated_snapshot_number", (), snapshot.number
        yield "kvgated_snapshot_expires_timestamp_seconds", (), snapshot.expires_at
