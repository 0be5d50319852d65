"""The engines behind the gateway: connections, slots, whether they answer, and what they forget on request."""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from kvctl.connector.secretfile import read_secret
from kvctl.daemon.log import Log
from kvctl.gateway import upstream
from kvctl.gateway.choose import Place
from kvctl.gateway.config import Classes, Config, Limits
from kvctl.gateway.config import Engine as Written
from kvctl.gateway.routes import ROUTES
from kvctl.types.errors import UsageError
from kvctl.types.snapshot import Sla

READ_BUFFER = 64 << 10
PROBE_SECONDS = 5.0
MAX_PROBE = 4 << 20
NO_HEADERS: Mapping[str, str] = {}
# What a document raises that is none of an engine's.
ODD = (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError)
ORDER: tuple[Sla, ...] = ("gold", "silver", "bronze")  # best first


class Engine:
    """One engine. Only its gateway's loop touches it."""

    def __init__(self, written: Written, limits: Limits, classes: Classes) -> None:
        self.name = written.name
        self.written = written
        self.models = frozenset(written.models)
        self.up = False  # until it has answered, and so said which routes it salts
        self.why = ""
        self.facts: dict[str, dict[str, Any]] = {}  # what it says of its models, by id
        self.running: Counter[Sla] = Counter()  # sequences
        self.unsalted: frozenset[str] = frozenset()  # paths that it serves without taking a cache_salt
        self._schema_read = False
        self._room = {"gold": classes.gold_share, "silver": classes.silver_share, "bronze": classes.bronze_share}
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None  # for what the gateway itself asks
        self.address = upstream.Address()
        self._base = "http://engine" if written.path else written.url.rstrip("/")

    def most(self, sla: Sla) -> int:
        """Slots that requests of this class and those below it may have: what one request can have at all."""
        return max(1, int(self._room[sla] * self.written.slots))

    def spare(self, sla: Sla) -> int:
        """Slots that a request of this class can have now."""
        below = sum(self.running[one] for one in ORDER[ORDER.index(sla) :])
        free = min(self.most(sla) - below, self.written.slots - self.running.total())
        return max(0, free) if self.up else 0

    def place(self, sla: Sla, wanted: int = 1) -> Place:
        """For a request that wants so many slots."""
        written = self.written
        running = self.running.total()
        return Place(self.name, written.country, self.models, written.slots, running, self.spare(sla) >= wanted)

    async def open(self) -> None:
        """KvctlError when the client certificate cannot be used."""
        self.address = address(self.written)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect_seconds)
        self._session = aiohttp.ClientSession(
            connector=self._connector(),
            timeout=timeout,
            auto_decompress=False,
            read_bufsize=READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )

    def _connector(self) -> aiohttp.BaseConnector:
        path = self.written.path
        if path:
            return aiohttp.UnixConnector(path, limit=0, force_close=True)
        return aiohttp.TCPConnector(limit=0, ssl=self.address.tls or True, force_close=True)

    @asynccontextmanager
    async def post(
        self, path: str, data: bytes, request_id: str, more: Mapping[str, str] = NO_HEADERS
    ) -> AsyncIterator[upstream.Upstream]:
        """Nothing of the client's headers goes along. Leaving the context before the answer's end cancels it.

        Unreachable when nothing was sent; TimeoutError when the answer does not begin within `silence_seconds`;
        EngineBroke when it ends before that.
        """
        headers = {"Content-Type": "application/json", "X-Request-Id": request_id, **more}
        connect, silence = self._limits.connect_seconds, self._limits.silence_seconds
        target = urlsplit(self._base).path + path
        asked = upstream.post(self.address, target, headers, data, connect=connect, silence=silence)
        del data  # nor is it kept here while the answer comes
        async with asked as answer:
            yield answer

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the engine is not open")
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def failed(self, why: str) -> None:
        self.up, self.why = False, why

    async def probe(self) -> bool:
        """Ask for its models; whether that changed what is known of it."""
        before = (self.up, self.facts)
        try:
            async with asyncio.timeout(PROBE_SECONDS), self.session.get(self._base + "/v1/models") as response:
                response.raise_for_status()
                data = await whole(response)
            found = msgspec.json.decode(data)["data"]
            self.facts = {one["id"]: one for one in found}
            if not (self.up and self._schema_read):  # another version may run there since
                await self._read_schema()
            self.up, self.why = True, ""
        except (aiohttp.ClientError, TimeoutError, OSError, *ODD) as bad:
            self.failed(f"{type(bad).__name__}: {bad}"[:300])
        return before != (self.up, self.facts)

    async def _read_schema(self) -> None:
        """Which routes take no salt. A site that has turned /openapi.json off is believed to run a fitting version."""
        async with asyncio.timeout(PROBE_SECONDS), self.session.get(self._base + "/openapi.json") as response:
            data = await whole(response) if response.status == 200 else b""
        self.unsalted = unsalted(msgspec.json.decode(data)) if data else frozenset()
        self._schema_read = True

    async def flush(self, *, running: bool) -> dict[str, Any]:
        """Have it forget every prefix it holds, in HBM and in the host's memory; what it answered."""
        began = time.monotonic()
        query = {"reset_external": "true", "reset_running_requests": "true" if running else "false"}
        said: dict[str, Any] = {"answered": False, "success": False, "why": ""}
        try:
            async with asyncio.timeout(PROBE_SECONDS * 6):
                async with self.session.post(self._base + "/reset_prefix_cache", params=query) as response:
                    said["status"] = response.status
                    data = await whole(response)
            said["answered"] = True
            document = msgspec.json.decode(data) if data and response.status == 200 else {}
            # vLLM before 0.20 answers 200 with nothing, and only after it has reset.
            said["success"] = response.status == 200 and bool(document.get("success", True))
            if response.status == 404:
                said["why"] = "it runs without VLLM_SERVER_DEV_MODE=1, so nobody can ask it"
        except (aiohttp.ClientError, TimeoutError, OSError, *ODD) as bad:
            said["why"] = f"{type(bad).__name__}: {bad}"[:300]
        return said | {"seconds": round(time.monotonic() - began, 3)}


async def whole(response: aiohttp.ClientResponse) -> bytes:
    """An answer to its end; ClientPayloadError for more than MAX_PROBE bytes."""
    data = bytearray()
    async for part in response.content.iter_any():
        data += part
        if len(data) > MAX_PROBE:
            raise aiohttp.ClientPayloadError(f"its answer has more than {MAX_PROBE} bytes")
    return bytes(data)


def unsalted(schema: dict[str, Any]) -> frozenset[str]:
    """Paths of ours whose request body, by the engine's OpenAPI document, has no cache_salt.

    An engine drops fields that it does not know: there, all tenants would share one cache. vLLM's /v1/messages is so
    in versions before 0.32.
    """
    found = set()
    for route in ROUTES.values():
        post = schema.get("paths", {}).get(route.path, {}).get("post")
        if post is None or not route.computes:
            continue
        body = post.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        name = str(body.get("$ref", "")).rpartition("/")[2]
        model = schema.get("components", {}).get("schemas", {}).get(name, body)
        if "cache_salt" not in model.get("properties", {}):
            found.add(route.path)
    return frozenset(found)


def address(written: Written) -> upstream.Address:
    """UsageError KV-GATE-005."""
    if written.path:
        return upstream.Address(written.path)
    found = urlsplit(written.url)
    return upstream.Address(None, found.hostname or "", found.port or 443, client_context(written))


def client_context(written: Written) -> ssl.SSLContext:
    """TLS 1.3 with a client certificate, for an engine that `ca` signed. UsageError KV-GATE-005."""
    try:
        if written.certificate is None or written.key is None or written.ca is None:
            raise ValueError("an engine over https has certificate, key and ca")
        read_secret(Path(written.key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(written.certificate, written.key, password=lambda: "")
        context.load_verify_locations(written.ca)
    except (OSError, ValueError) as bad:
        raise UsageError(
            "KV-GATE-005", f"the certificate for engine {written.name} cannot be used", why=str(bad), fix="engines[]"
        ) from bad
    return context


class Engines:
    """All of them, and the task that asks each how it is."""

    def __init__(self, config: Config, log: Log) -> None:
        self._log = log
        self._every = config.routing.health_seconds
        self.all = [Engine(written, config.limits, config.classes) for written in config.engines]
        self.by_name = {engine.name: engine for engine in self.all}

    async def open(self) -> None:
        for engine in self.all:
            await engine.open()

    async def close(self) -> None:
        for engine in self.all:
            await engine.close()

    async def look(self) -> bool:
        """Ask all of them how they are; whether anything has changed."""
        return any(await asyncio.gather(*(self._probe(engine) for engine in self.all)))

    async def watch(self, changed: asyncio.Event) -> None:
        """For ever; sets `changed` when an engine came or went."""
        while True:
            await asyncio.sleep(self._every)
            if await self.look():
                changed.set()

    async def _probe(self, engine: Engine) -> bool:
        up = engine.up
        told = await engine.probe()
        if engine.up != up:
            level = self._log.info if engine.up else self._log.warning
            level("engine", name=engine.name, up=engine.up, why=engine.why)
        return told

    def models(self, names: frozenset[str]) -> list[dict[str, Any]]:
        """What engines say of their models, for those among `names`; the little that a client needs."""
        found: dict[str, dict[str, Any]] = {}
        for engine in self.all:
            for model in sorted(engine.models & names):
                said = engine.facts.get(model, {})
                kept = {key: said[key] for key in ("created", "max_model_len") if key in said}
                found.setdefault(model, {"id": model, "object": "model", "created": 0, "owned_by": "kvctl"} | kept)
        return list(found.values())
