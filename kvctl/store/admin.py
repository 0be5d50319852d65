"""The admin side over HTTP: all verbs on a unix socket and over mutual TLS; /metrics and /healthz on an address.

Errors are KvctlError.as_dict() as JSON. One request a connection; a server takes MOST connections and closes the oldest
one that has not sent its request yet when more come, so that nobody can keep others out by being slow.
"""

import json
import os
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Collection
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kvctl.daemon.doorway import common_name
from kvctl.daemon.sockets import peer_uid
from kvctl.store import verbs
from kvctl.store.config import Tls
from kvctl.store.governance import Verb
from kvctl.store.listen import NO_ROOM, PAUSE, Listener
from kvctl.store.service import Service
from kvctl.types.errors import ExitCode, KvctlError, UsageError

MOST = 32
STRANGERS_BODY = 64 << 10  # on the address of metrics
MAX_BODY = 4 << 20  # a set of holds; 10,000 keys take 0.7 MB
SILENCE = 10  # seconds without a byte that end a connection
STATUS = {
    ExitCode.USAGE: HTTPStatus.BAD_REQUEST,
    ExitCode.REFUSED: HTTPStatus.CONFLICT,
    ExitCode.LOCKED: HTTPStatus.LOCKED,
    ExitCode.UNREACHABLE: HTTPStatus.BAD_GATEWAY,
}


class NotFound(UsageError):
    """No verb has this path and method."""


class Handler(BaseHTTPRequestHandler):
    timeout = SILENCE
    server: "AdminServer"

    def do_GET(self) -> None:
        self._handle(self._get)

    def do_POST(self) -> None:
        self._handle(self._post)

    def version_string(self) -> str:
        return "kvstored"

    def log_message(self, format: str, *args: Any) -> None:
        """The daemon's own log says what matters."""

    def _handle(self, work: Callable[[], None]) -> None:
        try:
            work()
        except KvctlError as error:
            status = HTTPStatus.NOT_FOUND if isinstance(error, NotFound) else STATUS.get(error.exit_code, 500)
            self._json(status, error.as_dict())
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception:  # noqa: BLE001  logged with the id that the caller is given
            number = self.server.service.fault("admin fault", traceback.format_exc(), path=self.path)
            defect = KvctlError("KV-STORE-016", "a fault of kvstored", why=f"its log has it under id {number}")
            self._json(HTTPStatus.INTERNAL_SERVER_ERROR, defect.as_dict())

    def _get(self) -> None:
        server, url = self.server, urlsplit(self.path)
        server.working(self.connection)
        if url.path == "/metrics":
            text = verbs.metrics(server.service, lambda: server.listener.half_open)
            self._answer(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", text.encode())
        elif url.path == "/healthz":
            reasons = verbs.health(server.service, lambda: server.listener.beat)
            status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
            self._json(status, {"ok": not reasons, "reasons": reasons})
        else:
            kind, verb = self._verb(verbs.READS, url.path)
            self._json(HTTPStatus.OK, verb(server.service, verbs.decode(kind, dict(parse_qsl(url.query)))))

    def _post(self) -> None:
        length = self.headers.get("Content-Length", "0")
        most = MAX_BODY if self.server.all_verbs else STRANGERS_BODY
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= most):
            raise UsageError(
                "KV-STORE-013",
                "the body's length is not acceptable",
                why=f"at most {most} bytes",
                fix="see docs/kvstored.md",
            )
        body = self.rfile.read(int(length))  # before anything is refused: an answer over unread bytes may be lost
        kind, verb = self._verb(verbs.CHANGES, urlsplit(self.path).path)
        asked = verbs.decode(kind, body)
        self.server.working(self.connection)
        self._json(HTTPStatus.OK, verb(self.server.service, asked))

    def _verb(self, table: dict[str, Verb], path: str) -> Verb:
        if not self.server.all_verbs or path not in table:
            raise NotFound(
                "KV-STORE-012",
                "there is no such verb here",
                where=f"{self.command} {path[:200]}",
                fix="see docs/kvstored.md",
            )
        return table[path]

    def _json(self, status: int, data: Any) -> None:
        self._answer(status, "application/json", json.dumps(data).encode() + b"\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class AdminServer(ThreadingHTTPServer):
    """Serves one listening socket in a thread of its own, from `start` to `stop`."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        sock: socket.socket,
        service: Service,
        listener: Listener,
        *,
        all_verbs: bool,
        context: ssl.SSLContext | None = None,
        clients: Collection[str] = (),
    ) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock
        self.service = service
        self.listener = listener
        self.all_verbs = all_verbs
        self._context = context
        self._clients = clients
        self._lock = threading.Condition()  # notified when a connection is done
        self._open: dict[socket.socket, bool] = {}  # oldest first; True: its request is being answered
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, name="admin", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Take no more; return when the verbs under way have answered, or after so long."""
        self._ending.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            self._lock.wait_for(lambda: not any(self._open.values()), seconds)

    def working(self, sock: socket.socket) -> None:
        with self._lock:
            if sock in self._open:
                self._open[sock] = True

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError as bad:
            if bad.errno in NO_ROOM:
                self._ending.wait(PAUSE)  # the socket stays readable: going on at once would spin
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        if request.family != socket.AF_UNIX:
            return True
        uid = peer_uid(request)
        if uid in (0, os.geteuid()):
            return True
        self.service.log.refused("admin refused", "uid", uid=uid)
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._enter(request):
            super().process_request(request, client_address)
        else:
            self.service.log.refused("admin refused", "too_many")
            self.shutdown_request(request)

    def _enter(self, sock: socket.socket) -> bool:
        with self._lock:
            if len(self._open) >= MOST:
                waiting = next((one for one, busy in self._open.items() if not busy), None)
                if waiting is None:
                    return False
                del self._open[waiting]
                _end(waiting)
            self._open[sock] = False
            return True

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self._context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(SILENCE)
        with self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as wrapped:
            with self._lock:  # the plain socket has handed its descriptor over
                if self._open.pop(request, None) is None:
                    return
                self._open[wrapped] = False
            try:
                wrapped.do_handshake()
                # The site's CA also signs for engines and gateways.
                if self._clients and (name := common_name(wrapped)) not in self._clients:
                    self.service.log.refused("admin refused", "client", client=name)
                    return
                super().finish_request(wrapped, client_address)
            finally:
                self._forget(wrapped)

    def close_request(self, request: Any) -> None:
        self._forget(request)
        super().close_request(request)

    def _forget(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.pop(sock, None)
            self._lock.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.service.log.refused("admin connection failed", "connection", why=traceback.format_exc(limit=0).strip())


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is broken already


def tls_context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.3, and only for clients whose certificate `client_ca` signed. UsageError KV-STORE-011."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")  # never asks a terminal
        context.load_verify_locations(tls.client_ca)
    except (OSError, ValueError) as bad:
        raise UsageError(
            "KV-STORE-011",
            "the files of admin.tls cannot be used",
            where=tls.certificate,
            why=str(bad),
            fix="see admin.tls in docs/kvstored.md",
        ) from bad
    context.verify_mode = ssl.CERT_REQUIRED
    return context
