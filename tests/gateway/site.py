"""A gateway and its engines in one loop, each behind its own unix socket, and tenants to ask it."""

import asyncio
import hashlib
import io
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from aiohttp import web

from kvctl.bench import stub_serve
from kvctl.bench.stub_engine import Seen, StubEngine
from kvctl.connector.keys import Identity
from kvctl.connector.snapshotfile import write_snapshot
from kvctl.daemon.log import Log
from kvctl.daemon.notify import Notify
from kvctl.gateway.config import load
from kvctl.gateway.daemon import Daemon
from kvctl.gateway.gateway import Gateway
from kvctl.types.snapshot import DomainView, KeyView, Snapshot, TenantView

PATIENCE = 10.0


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def tenant(name: str, *keys: str, **fields: Any) -> TenantView:
    """One domain, `user`; a key's text is as given, its id is `id-` and the text."""
    seed = name.encode()
    domain = DomainView(
        name="user",
        epoch=hashlib.md5(seed).digest(),
        salt_key=hashlib.sha256(seed).digest(),
        **fields.pop("domain", {}),
    )
    views = tuple(KeyView(id=f"id-{key}", sha256=sha(key), domain="user") for key in keys)
    given = {"state": "active", "sla": "silver", "subject_key": hashlib.sha256(b"s" + seed).digest()} | fields
    return TenantView(**({"name": name, "domains": (domain,), "keys": views} | given))


ACME, OTHER = tenant("acme", "acme-1", "acme-2"), tenant("other", "other-1")


@dataclass
class Site:
    folder: Path
    engines: dict[str, StubEngine]
    gateway: Gateway
    controller: Identity
    session: aiohttp.ClientSession
    admin: aiohttp.ClientSession
    log: io.StringIO
    identity: Identity
    daemon: Daemon
    runners: dict[str, web.ServerRunner]  # what the engines listen by
    number: int = 0
    url: str = "http://gateway"

    @property
    def engine(self) -> StubEngine:
        return next(iter(self.engines.values()))

    @staticmethod
    def last(engine: StubEngine) -> Seen:
        """The last request that a client caused: the gateway's own ones are GETs."""
        return [seen for seen in engine.seen if seen.method == "POST"][-1]

    def publish(self, *tenants: TenantView, seconds: int = 3600, number: int | None = None) -> None:
        self.number = self.number + 1 if number is None else number
        now = int(time.time())
        snapshot = Snapshot(
            site="fra1", number=self.number, issued_at=now - 10, expires_at=now + seconds, tenants=tenants
        )
        write_snapshot(self.folder / "snapshot", snapshot, self.controller)

    async def post(
        self, path: str, body: Any, key: str | None = "acme-1", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        more = {"Authorization": f"Bearer {key}"} if key else {}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        more |= {"Content-Type": "application/json"}
        async with self.session.post(self.url + path, data=data, headers=more | (headers or {})) as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return response.status, found, await response.read()

    async def chat(self, text: str = "hello there", key: str = "acme-1", **fields: Any) -> tuple[int, Any]:
        status, _, data = await self.post("/v1/chat/completions", chat(text, **fields), key)
        return status, json.loads(data)

    async def admin_get(self, path: str) -> tuple[int, Any]:
        async with self.admin.get("http://admin" + path) as response:
            data = await response.read()
            return response.status, json.loads(data) if response.content_type == "application/json" else data.decode()

    async def admin_post(self, path: str, body: Any) -> tuple[int, Any]:
        async with self.admin.post("http://admin" + path, json=body) as response:
            return response.status, json.loads(await response.read())

    async def usage(self) -> list[dict[str, Any]]:
        """Records of this boot."""
        _, page = await self.admin_get("/v1/usage?limit=5000")
        return [record for record in page["records"] if record["boot"] == page["boot"]]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def chat(text: str = "hello there", **fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}


def events(data: bytes) -> list[Any]:
    """Every event's object of a stream, without [DONE]."""
    found = [line[6:] for line in data.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(text) for text in found if text != "[DONE]"]


def settings(folder: Path, engines: dict[str, StubEngine], controller: Identity, **changes: Any) -> dict[str, Any]:
    written = [
        {
            "name": name,
            "url": f"unix:{folder}/{name}.sock",
            "models": list(engine.models),
            "country": "DE",
        }
        | changes.pop(name, {})
        for name, engine in engines.items()
    ]
    return {
        "schema": "1",
        "gateway": "gate1",
        "site": "fra1",
        "listen": [f"unix:{folder}/gate.sock"],
        "admin": f"{folder}/admin.sock",
        "identity": f"{folder}/gate.key",
        "snapshot": {
            "path": f"{folder}/snapshot",
            "controllers": {"fra1": controller.public.hex()},
            "poll_seconds": 0.05,
        },
        "engines": written,
        "usage": {"directory": f"{folder}/usage"},
    } | changes


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the loop will bring about."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


def run(
    folder: Path,
    work: Callable[[Site], Awaitable[None]],
    *,
    tenants: tuple[TenantView, ...] = (ACME, OTHER),
    engines: dict[str, StubEngine] | None = None,
    absent: tuple[str, ...] = (),
    **changes: Any,
) -> None:
    """`work` with a site that serves. `absent`: engines that are in the configuration and do not listen."""

    async def whole() -> None:
        made = engines or {"e1": StubEngine()}
        controller, identity = Identity.generate(), Identity.generate()
        identity.save(folder / "gate.key")
        text = yaml.safe_dump(settings(folder, made, controller, **changes))
        (folder / "gate.yaml").write_text(text)
        config = load(folder / "gate.yaml")
        runners = {
            name: await stub_serve.start(engine, f"{folder}/{name}.sock")
            for name, engine in made.items()
            if name not in absent
        }
        stream = io.StringIO()
        log = Log(stream)
        daemon = Daemon(config, identity, log, Notify({}, log))
        sockets = (aiohttp.UnixConnector(f"{folder}/{name}.sock", limit=0) for name in ("gate", "admin"))
        async with (
            aiohttp.ClientSession(connector=next(sockets)) as session,
            aiohttp.ClientSession(connector=next(sockets)) as admin,
        ):
            site = Site(folder, made, daemon.gateway, controller, session, admin, stream, identity, daemon, runners)
            site.publish(*tenants)
            await daemon.start()
            try:
                async with asyncio.timeout(60):
                    await work(site)
            finally:
                await daemon.stop()
                for runner in runners.values():
                    await runner.cleanup()

    asyncio.run(whole())


def change(view: TenantView, **fields: Any) -> TenantView:
    return msgspec.structs.replace(view, **fields)
