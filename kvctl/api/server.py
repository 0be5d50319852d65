"""Serving the application: on a unix socket, whose peers the kernel names, and over TLS, which may name services."""

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from kvctl.api.identity import PEER, Peer
from kvctl.types.errors import KvctlError, UsageError

CREDENTIALS = struct.Struct("iII")  # pid, uid, gid: unix(7)
PATIENCE = 10.0  # seconds from a connection, or from the answer before, to a request's whole head
KEEP_ALIVE = 15  # seconds without anything
GRACE = 20  # seconds that requests under way are given
MOST = 256  # connections of one listener
BACKLOG = 128
LONGEST_PATH = 107  # of a unix socket, in bytes


class PeerProtocol(H11Protocol):
    """Says in each request's scope who is at the other end, and ends a connection that sends no request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer, app = peer_of(transport), self.app

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            scope[PEER] = peer
            await app(scope, receive, send)

        self.app = with_peer
        self._patience = self.loop.call_later(PATIENCE, self._judge)

    def data_received(self, data: bytes) -> None:
        waiting = self.cycle is None or self.cycle.response_complete
        super().data_received(data)
        if waiting and self._patience.cancelled():
            self._patience = self.loop.call_later(PATIENCE, self._judge)
        if self.cycle is not None and not self.cycle.response_complete:
            self._patience.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience.cancel()
        super().connection_lost(exc)

    def _judge(self) -> None:
        self._patience.cancel()
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def peer_of(transport: asyncio.Transport) -> Peer:
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family == socket.AF_UNIX:
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        return Peer("unix", uid=CREDENTIALS.unpack(raw)[1])
    name = transport.get_extra_info("peername")
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return Peer(str(name[0]) if name else "", certificate=certificate)


class Quiet(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()


class Serving:
    """Listeners of one application. `run` returns after `stop`, when requests under way have been answered."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._servers: list[tuple[Quiet, socket.socket]] = []
        self.context: ssl.SSLContext | None = None

    def unix(self, path: Path) -> None:
        self._add(open_unix(path), None)

    def https(self, listen: str, context: ssl.SSLContext, opened: Callable[[str], socket.socket] | None = None) -> int:
        """The port that it listens on. `opened` makes the socket elsewhere than in this process's network."""
        self.context = context
        sock = (opened or open_tcp)(listen)
        self._add(sock, context)
        return int(sock.getsockname()[1])

    def _add(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            self._app, http=PeerProtocol, ws="none", lifespan="off", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, limit_concurrency=MOST, backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=GRACE,
            ssl_context_factory=(lambda _config, _default: context) if context else None,
        )  # fmt: skip
        self._servers.append((Quiet(config), sock))

    async def run(self) -> None:
        await asyncio.gather(*(server.serve(sockets=[sock]) for server, sock in self._servers))

    @property
    def started(self) -> bool:
        return all(server.started for server, _ in self._servers)

    def stop(self) -> None:
        self._app.state.feed.stop()
        for server, _ in self._servers:
            server.should_exit = True


def open_unix(path: Path) -> socket.socket:
    """A listening socket of mode 0600. What a controller that died left in its place is removed: call it under a lock.

    UsageError KV-CTL-011 for a path that a socket cannot have.
    """
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(
            "KV-CTL-011", "the path of the controller's socket is too long", where=str(path),
            why=f"a unix socket's path has at most {LONGEST_PATH} bytes",
            fix="give a shorter one: kvctld --socket PATH",
        )  # fmt: skip
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        if path.is_socket():
            path.unlink()
        sock.bind(str(path))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise not_listening(f"unix:{path}", error) from error
    finally:
        os.umask(before)
    return sock


def open_tcp(listen: str) -> socket.socket:
    """KvctlError KV-CTL-012 for an address that cannot be listened on."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise UsageError("KV-CTL-013", f"{listen!r} is no address to listen on", fix="give ADDRESS:PORT")
    try:
        found = socket.getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise not_listening(listen, error) from error
    return sock


def not_listening(where: str, error: OSError) -> KvctlError:
    return KvctlError(
        "KV-CTL-012", "the controller cannot listen there", where=where, why=error.strerror or str(error),
        fix="give another address or path, or end what has it",
    )  # fmt: skip


def tls_context(certificate: Path, key: Path, client_ca: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer. A client may show a certificate; one that `client_ca` did not sign ends the connection.

    UsageError KV-CTL-014 for files that cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # never asks a terminal
        context.load_verify_locations(client_ca)
    except (OSError, ValueError) as error:
        raise UsageError(
            "KV-CTL-014", "the https certificate cannot be used", where=str(certificate), why=str(error),
            fix="see `https` in docs/controller.md",
        ) from error  # fmt: skip
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
