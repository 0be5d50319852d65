"""The sockets, tasks and signals of one kvgated."""

import asyncio
import signal
import socket
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from kvctl import __version__
from kvctl.connector.keys import Identity
from kvctl.connector.secretfile import read_secret
from kvctl.daemon.log import Log
from kvctl.daemon.notify import Notify
from kvctl.daemon.sockets import open_endpoints, open_unix
from kvctl.gateway.admin import Admin
from kvctl.gateway.answers import Refused
from kvctl.gateway.config import Config, Tls
from kvctl.gateway.door import Door, Handler
from kvctl.gateway.engines import client_context
from kvctl.gateway.flight import tokens
from kvctl.gateway.gateway import Gateway
from kvctl.gateway.metrics import Metrics
from kvctl.gateway.rates import DAY
from kvctl.gateway.records import Records, lines
from kvctl.gateway.usage import Used
from kvctl.gateway.watch import Watch
from kvctl.types.errors import KvctlError, UsageError

BACKLOG = 1024
LINGER = 2.0  # seconds in which a refused request's body is read and forgotten
KEEP_ALIVE = 75.0
MAX_HEADERS = 64
LAST = 1.0  # seconds in which clients may take what they were told when their time was over


def check_files(config: Config) -> Identity:
    """Everything that can be judged without a socket. KV-CONN-010, 011, 015 and KV-GATE-005."""
    if config.tls:
        server_context(config.tls)
    for engine in config.engines:
        if engine.path is None:
            client_context(engine)
    return Identity.load(Path(config.identity))


def server_context(tls: Tls) -> ssl.SSLContext:
    """UsageError KV-GATE-005."""
    read_secret(Path(tls.key))
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")
    except (OSError, ValueError) as bad:
        raise UsageError(
            "KV-GATE-005", "the files of tls cannot be used", where=tls.certificate, why=str(bad), fix="tls"
        ) from bad
    context.set_alpn_protocols(["http/1.1"])
    return context


def shown(name: Any) -> str:
    """A socket's address as the configuration writes it."""
    return f"unix:{name}" if isinstance(name, str) else f"tcp:{name[0]}:{name[1]}"


class Daemon:
    """From `start` to `stop`; `run` does both around a signal."""

    def __init__(self, config: Config, identity: Identity, log: Log, notify: Notify) -> None:
        self._config = config
        self._log = log
        self._notify = notify
        stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S")
        self._records = Records(config.usage, log, stamp)
        watch = Watch(config.snapshot, config.site, time.time, log, Metrics())
        self.gateway = Gateway(config, identity, watch, self._records, log)
        self.servers: list[Door] = []
        self._runners: list[web.ServerRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self.addresses: list[Any] = []  # of the sockets of `listen`, with the ports that the kernel chose for 0

    async def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await self.start()
        try:
            await stop.wait()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Open everything, then let requests in. KvctlError for what cannot be opened."""
        self._records.open()
        restore(self.gateway, self._records, time.time())
        await self.gateway.engines.open()
        self.gateway.watch.look()
        await self.gateway.engines.look()
        await self._listen()
        background = (
            self.gateway.watch.run(),
            self._records.sync(),
            self.gateway.engines.watch(self._changed),
            self._engines_changed(),
            self._beat(),
            *(server.watch() for server in self.servers),
        )
        self._tasks = [asyncio.create_task(work) for work in background]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        listen = ", ".join(shown(name) for name in self.addresses)
        self._log.info("ready", gateway=self._config.gateway, listen=listen, version=__version__)
        self._notify.ready(f"serving {self._config.site}")

    async def _listen(self) -> None:
        config = self._config
        context = server_context(config.tls) if config.tls else None
        try:
            sockets = open_endpoints(config.listen)
            admin = open_unix(config.admin)
        except KvctlError as bad:
            raise KvctlError(
                "KV-GATE-006", bad.what, where=bad.where, why=bad.why, fix="is another kvgated running?"
            ) from bad
        self.addresses = [sock.getsockname() for sock in sockets]
        for sock in sockets:
            tls = context if sock.family != socket.AF_UNIX else None
            await self._serve(sock, self.gateway.handle, tls, cancel=True)
        await self._serve(admin, Admin(self.gateway).handle, None, cancel=False)

    async def _serve(self, sock: socket.socket, handler: Handler, tls: ssl.SSLContext | None, *, cancel: bool) -> None:
        server = Door(
            handler,
            self._config.limits.connections,
            self._config.limits.stall_seconds,
            handler_cancellation=cancel,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE,
            lingering_time=LINGER,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
        )
        runner = web.ServerRunner(server)
        await runner.setup()
        await web.SockSite(runner, sock, ssl_context=tls, backlog=BACKLOG).start()
        self.servers.append(server)
        self._runners.append(runner)

    async def _engines_changed(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.gateway.admission.dispatch()

    async def _beat(self) -> None:
        while self._notify.interval:
            self._notify.watchdog()
            await asyncio.sleep(self._notify.interval)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that goes on for ever and does not: the gateway would serve what it no longer knows to be right."""
        if task.cancelled() or (bad := task.exception()) is None:
            return
        self._log.error("background task ended", why=f"{type(bad).__name__}: {bad}"[:500])
        signal.raise_signal(signal.SIGTERM)

    async def stop(self) -> None:
        """Refuse what is new, let what runs end, break off what takes too long."""
        gateway = self.gateway
        gateway.draining = True
        self._notify.stopping("finishing requests")
        self._log.info("stopping", requests=len(gateway.flights))
        for runner in self._runners:
            for site in list(runner.sites):
                await site.stop()
        ends = time.monotonic() + self._config.limits.drain_seconds
        await self._drain()
        left = max(LAST, ends - time.monotonic())
        await asyncio.gather(*(server.shut(left) for server in self.servers))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for runner in self._runners:
            await runner.cleanup()
        await gateway.engines.close()
        self._records.close()
        for path in [*(one.path for one in self._config.listen), self._config.admin]:
            if path:
                Path(path).unlink(missing_ok=True)
        self._log.info("stopped", records=self._records.counter)

    async def _drain(self) -> None:
        gateway = self.gateway
        running = [flight.task for flight in gateway.flights]
        if running:
            await asyncio.wait(running, timeout=self._config.limits.drain_seconds)
        for flight in list(gateway.flights):
            flight.end(Refused(503, "KV-GATE-043", "draining", "this gateway stops", retry_after=1))
        if left := [flight.task for flight in gateway.flights]:
            await asyncio.wait(left, timeout=2)


def restore(gateway: Gateway, records: Records, now: float) -> None:
    """Count today's tokens from the records of earlier boots, so that a restart gives no second day."""
    day = int(now // DAY) * DAY
    for boot, _, path in records.files():
        if boot == records.boot or path.stat().st_mtime < day:
            continue
        for line in lines(path):
            if line["at"] >= day:
                used = Used(line["prompt"], line["cached"], line["output"])
                gateway.rates.spent(line["tenant"], tokens(used, line["deltas"]), line["at"])
