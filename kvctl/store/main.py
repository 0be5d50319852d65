"""`kvstored --config FILE [--check]`: open the store, serve until told to stop, and leave nothing half done."""

import argparse
import gc
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kvctl import __version__
from kvctl.connector.keys import Identity
from kvctl.daemon.log import Log
from kvctl.daemon.notify import Notify
from kvctl.daemon.sockets import open_endpoints, open_unix
from kvctl.store.admin import AdminServer, tls_context
from kvctl.store.config import Config, check_files, load
from kvctl.store.listen import Listener
from kvctl.store.service import Live, Service
from kvctl.store.verbs import STALLED
from kvctl.types.errors import ExitCode, KvctlError

STOP = frozenset({signal.SIGTERM, signal.SIGINT})
DESCRIPTION = "The store of KV cache chunks. docs/kvstored.md describes the configuration and every signal."


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes are those of kvctl: 0 after an orderly end, 2 for a wrong configuration, 1 when starting failed."""
    parser = argparse.ArgumentParser("kvstored", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="YAML; there is no default")
    parser.add_argument("--check", action="store_true", help="judge the configuration and its key files, and end")
    parser.add_argument("--version", action="version", version=f"kvstored {__version__}")
    asked = parser.parse_args(argv)
    try:
        if asked.check:
            check(asked.config)
            return int(ExitCode.OK)
        return run(asked.config)
    except KvctlError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    except Exception as error:  # noqa: BLE001  a start that fails in a way nobody foresaw still has a code
        sys.stderr.write(traceback.format_exc())
        defect = KvctlError("KV-STORE-016", "a fault of kvstored", why=f"{type(error).__name__}: {error}")
        sys.stderr.write(f"{defect}\n")
        return int(ExitCode.FAILED)


def check(path: Path) -> None:
    config = load(path)
    prepare(config)
    sys.stdout.write(f"{path}: node {config.node}, {len(config.connectors)} connectors: in order\n")


def prepare(config: Config) -> tuple[Live, Identity]:
    """Everything that can be judged without touching a tier or a socket."""
    check_files(config)
    if config.admin.tls:
        tls_context(config.admin.tls)
    return Live.of(config), Identity.load(Path(config.identity))


def run(path: Path) -> int:
    # What the store keeps of a million chunks lives long and holds no cycles: looking through all of it again and again
    # would only stop every session for as long as that takes.
    gc.set_threshold(100_000, 50, 1000)
    log = Log(sys.stderr)
    notify = Notify(os.environ, log)
    config = load(path)
    live, identity = prepare(config)
    raise_descriptors(log)
    notify.status("opening the store")
    log.attach("kvctl")
    # Imported late: `--check` and a wrong configuration need none of the media's libraries.
    from kvctl.store import build

    store = build.build_store(config)
    try:
        service = Service(path, live, identity, store, partial(build.reconfigure, store), log)
        daemon = Daemon(service, notify)
        daemon.start()
    except BaseException:
        store.close()
        raise
    return daemon.serve()


def raise_descriptors(log: Log) -> None:
    """As many descriptors as this process may have: a session takes one, a tier some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as bad:
        log.warning("descriptor limit not raised", soft=soft, hard=hard, why=str(bad))


def shown(sock: socket.socket) -> str:
    """Where a socket listens, with the port that the kernel chose for port 0."""
    name = sock.getsockname()
    return f"unix:{name}" if sock.family == socket.AF_UNIX else f"tcp:{name[0]}:{name[1]}"


class Daemon:
    """The threads and sockets of one kvstored, and the signals that govern them."""

    def __init__(self, service: Service, notify: Notify) -> None:
        self._service = service
        self._notify = notify
        self._wake, self._signals = socket.socketpair()
        self._wake.setblocking(False)
        self._signals.setblocking(False)
        self._admins: list[AdminServer] = []

    def start(self) -> None:
        """Open every socket, then let connections in. KvctlError when an address cannot be had."""
        config = self._service.live.config
        listening = open_endpoints(config.listen)
        self._listener = Listener(self._service, listening)
        try:
            self._open_admin(config)
        except BaseException:
            for sock in listening:
                sock.close()
            raise
        self._catch_signals()
        self._listener.start()
        for admin in self._admins:
            admin.start()
        self._service.log.info(
            "ready",
            node=config.node,
            listen=", ".join(map(shown, listening)),
            admin=", ".join(shown(admin.socket) for admin in self._admins),
            version=__version__,
        )
        self._notify.ready(f"serving {config.node}")

    def serve(self) -> int:
        self._govern()
        return self._end()

    def _open_admin(self, config: Config) -> None:
        admin = config.admin
        context = tls_context(admin.tls) if admin.tls else None  # before any socket: its files may be wrong
        made = [AdminServer(open_unix(admin.socket), self._service, self._listener, all_verbs=True)]
        secured, clients = (admin.tls.listen, admin.tls.clients) if admin.tls else (None, ())
        for endpoint, verbs, tls in ((admin.metrics, False, None), (secured, True, context)):
            if endpoint is not None:
                (sock,) = open_endpoints([endpoint])
                more = AdminServer(
                    sock, self._service, self._listener, all_verbs=verbs, context=tls, clients=clients
                )  # fmt: skip
                made.append(more)
        self._admins = made

    def _catch_signals(self) -> None:
        """Signals become bytes that the main thread waits for; a handler would run between any two of its steps."""
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (*STOP, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def _wait(self, seconds: float | None) -> bytes:
        readable, _, _ = select.select([self._signals], [], [], seconds)
        return self._signals.recv(64) if readable else b""

    def _govern(self) -> None:
        """Until a signal says stop."""
        while True:
            numbers = self._wait(self._notify.interval)
            if STOP & set(numbers):
                return
            if signal.SIGHUP in numbers:
                self._reload()
            if self._notify.interval and time.monotonic() - self._listener.beat < STALLED:
                self._notify.watchdog()

    def _reload(self) -> None:
        self._notify.reloading()
        try:
            self._service.reload()
            status = f"serving {self._service.live.config.node}"
        except KvctlError as error:
            self._service.log.error("reload refused", **error.as_dict())
            status = f"serving; the last reload was refused: {error.code}"
        except Exception:  # noqa: BLE001  a reload that fails leaves the daemon as it was
            self._service.fault("reload fault", traceback.format_exc())
            status = "serving; the last reload failed"
        self._notify.ready(status)

    def _end(self) -> int:
        """Stop accepting, let requests end, write everything out. A second signal leaves at once."""
        service = self._service
        service.draining = service.stopping = True
        self._notify.stopping("finishing requests")
        service.log.info("stopping", sessions=service.sessions)
        failed: list[BaseException] = []
        drained = threading.Thread(target=self._drain, args=(failed,), name="drain", daemon=True)
        drained.start()
        while drained.is_alive():
            if STOP & set(self._wait(0.1)):
                service.log.warning("left at once", sessions=service.sessions)
                os._exit(int(ExitCode.FAILED))
            if self._notify.interval:
                self._notify.watchdog()
        service.log.info("stopped", failed=bool(failed))
        return int(ExitCode.FAILED if failed else ExitCode.OK)

    def _drain(self, failed: list[BaseException]) -> None:
        service, config = self._service, self._service.live.config
        try:
            self._listener.stop()
            self._unlink(*(one.path for one in config.listen))
            broken = service.end_sessions(config.limits.drain_seconds)
            if broken:
                service.log.warning("sessions broken", sessions=broken)
            for admin in self._admins:
                admin.stop(config.limits.drain_seconds)
            self._unlink(config.admin.socket)
            try:
                service.store.drain()
            finally:
                service.store.close()
        except Exception as error:  # noqa: BLE001  the main thread ends with it; it is logged here
            service.fault("drain fault", traceback.format_exc())
            failed.append(error)

    @staticmethod
    def _unlink(*paths: str | None) -> None:
        """While the tiers are still locked: afterwards, the sockets may be the next kvstored's."""
        for path in paths:
            if path:
                Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
