"""Who comes in: accepting connections and making each prove its key, in one thread and without ever waiting for one.

A connection that has not proved who it is costs a socket and a buffer of 88 bytes, has a deadline, and is the first to
go when there are too many. One that has proved it gets a session and a thread of its own.
"""

import errno
import os
import selectors
import socket
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Sequence

from kvctl.connector import wire
from kvctl.connector.keys import verify
from kvctl.connector.wire import Frame, Refusal, Type, WireError
from kvctl.daemon.sockets import peer_uid
from kvctl.store.peer import TCP_OPTIONS, Peer
from kvctl.store.service import Service
from kvctl.store.session import Session, error_frame

BATCH = 64  # connections taken before others get their turn
PAUSE = 1.0  # seconds without accepting when descriptors or memory are used up
NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
UNREAD = 64 << 10
HEAD = wire.HEADER.size
LONGEST = HEAD + wire.LIMITS[Type.HELLO][1]


class HalfOpen:
    """A connection between its first byte and its WELCOME."""

    def __init__(self, sock: socket.socket, address: str, deadline: float) -> None:
        self.sock = sock
        self.address = address  # without the port: what the limit a peer counts
        self.deadline = deadline
        self.nonce = os.urandom(wire.NONCE_BYTES)  # of this connection alone, so a replayed proof fails
        self.expected = Type.HELLO
        self.connector = b""
        self.connector_nonce = b""
        self._buffer = bytearray(LONGEST)
        self._got = 0
        self._need = HEAD
        self._frame: Frame | None = None

    def read(self) -> memoryview | None:
        """The expected frame's body once it is whole, never a byte beyond; EOFError, WireError, OSError."""
        while self._got < self._need:
            count = self.sock.recv_into(memoryview(self._buffer)[self._got : self._need])
            if not count:
                raise EOFError
            self._got += count
            if self._got == HEAD and self._frame is None:
                self._frame = self._judge()
                self._need = HEAD + self._frame.length
        self._got, self._need, self._frame = 0, HEAD, None
        return memoryview(self._buffer)[HEAD:]

    def _judge(self) -> Frame:
        frame = wire.unpack(memoryview(self._buffer)[:HEAD])
        if frame.type is not self.expected:
            raise WireError(Refusal.MALFORMED, f"{frame.type.name} where {self.expected.name} is due")
        return frame


class Listener(threading.Thread):
    """Takes connections until `stop`. `beat` is the last time it was seen alive (time.monotonic)."""

    def __init__(self, service: Service, sockets: Sequence[socket.socket]) -> None:
        super().__init__(name="listen")
        self._service = service
        self._sockets = list(sockets)
        self._selector = selectors.DefaultSelector()
        self._half_open: OrderedDict[socket.socket, HalfOpen] = OrderedDict()  # oldest first
        self._per_peer: dict[str, int] = {}
        self._wake, self._woken = socket.socketpair()
        self._resume_at: float | None = None
        self._stopping = False
        self.beat = time.monotonic()

    @property
    def half_open(self) -> int:
        return len(self._half_open)

    def stop(self) -> None:
        """Close the listening sockets and whoever has not proved itself; returns when that is done."""
        self._stopping = True
        self._wake.send(b".")
        self.join()

    def run(self) -> None:
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._watch()
        while not self._stopping:
            for key, _ in self._selector.select(self._patience()):
                self._guard(key.fileobj)  # type: ignore[arg-type]  # only sockets are registered
            self.beat = time.monotonic()
            self._expire()
            if self._resume_at is not None and self.beat >= self._resume_at:
                self._watch()
        for sock in [*self._sockets, *list(self._half_open), self._wake, self._woken]:
            sock.close()
        self._selector.close()

    def _watch(self) -> None:
        self._resume_at = None
        for sock in self._sockets:
            self._selector.register(sock, selectors.EVENT_READ)

    def _patience(self) -> float:
        oldest = next(iter(self._half_open.values()), None)
        ends = [self._resume_at, oldest.deadline if oldest else None]
        return min([1.0, *(max(0.0, end - time.monotonic()) for end in ends if end is not None)])

    def _guard(self, sock: socket.socket) -> None:
        """One socket's turn. Whatever goes wrong is that connection's end, not this thread's."""
        try:
            if sock in self._sockets:
                self._accept(sock)
            elif sock in self._half_open:  # else: it was closed earlier in this round
                self._advance(self._half_open[sock])
        except Exception:  # noqa: BLE001  logged with an id; others must still get in
            self._service.fault("listener fault", traceback.format_exc())
            if sock in self._half_open:
                self._drop(self._half_open[sock])

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BATCH if self._resume_at is None else 0):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as bad:
                if bad.errno in NO_ROOM:
                    self._pause(bad)
                    return
                continue  # the peer went away before it was taken (accept(2): treat like EAGAIN)
            self._service.metrics.count("kvstored_connections_total")
            try:
                self._take(sock, address)
            except OSError as bad:
                sock.close()
                self._service.log.refused("connection lost", "socket", why=str(bad))

    def _pause(self, bad: OSError) -> None:
        """A full table of descriptors keeps the socket readable: waiting on it would spin."""
        for sock in self._sockets:
            self._selector.unregister(sock)
        self._resume_at = time.monotonic() + PAUSE
        self._service.metrics.count("kvstored_refusals_total", reason="no_descriptors")
        self._service.log.refused("accepting paused", "no_descriptors", why=str(bad), seconds=PAUSE)

    def _take(self, sock: socket.socket, address: object) -> None:
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            name = f"unix uid {peer_uid(sock)}"
        else:
            for option in TCP_OPTIONS:
                sock.setsockopt(*option)
            name = str(address[0])  # type: ignore[index]  # (host, port, ...) of an internet socket
        limits = self._service.live.config.limits
        if self._service.draining:
            self._say(sock, WireError(Refusal.DRAINING, "this store is draining"), name)
            sock.close()
            return
        if self._per_peer.get(name, 0) >= limits.half_open_per_peer:
            self._evict(name)
        elif len(self._half_open) >= limits.half_open:
            self._evict(None)
        fresh = HalfOpen(sock, name, time.monotonic() + limits.hello_seconds)
        self._half_open[sock] = fresh
        self._per_peer[name] = self._per_peer.get(name, 0) + 1
        self._selector.register(sock, selectors.EVENT_READ)

    def _evict(self, address: str | None) -> None:
        """Close the oldest connection, of this peer or of all. An honest one has proved itself long before its turn."""
        oldest = next(one for one in self._half_open.values() if address in (None, one.address))
        self._refuse(oldest, WireError(Refusal.TOO_MANY, "too many connections that have not proved who they are"))

    def _expire(self) -> None:
        now = time.monotonic()
        # Oldest first; a reload may have changed hello_seconds, so a younger one may wait for its elder's turn.
        while self._half_open and (oldest := next(iter(self._half_open.values()))).deadline <= now:
            self._refuse(oldest, WireError(Refusal.TIMEOUT, "no proof in time"))

    def _advance(self, one: HalfOpen) -> None:
        try:
            body = one.read()
            if body is not None:
                self._hello(one, body) if one.expected is Type.HELLO else self._prove(one, body)
        except BlockingIOError:
            return
        except WireError as bad:
            self._refuse(one, bad)
        except (EOFError, OSError):
            self._service.metrics.count("kvstored_refusals_total", reason="gone")
            self._drop(one)

    def _hello(self, one: HalfOpen, body: memoryview) -> None:
        one.connector, one.connector_nonce = wire.unpack_hello(bytes(body))
        if one.connector not in self._service.live.connectors:
            raise WireError(Refusal.UNKNOWN_CONNECTOR, f"no connector has the key {one.connector.hex()}")
        challenge = self._service.identity.public + one.nonce
        one.expected = Type.PROVE
        _send(one.sock, wire.pack(Type.CHALLENGE, len(challenge)) + challenge)
        self._advance(one)

    def _prove(self, one: HalfOpen, body: memoryview) -> None:
        service = self._service
        nonces = (service.identity.public, one.nonce, one.connector, one.connector_nonce)
        proof = bytes(body[: wire.SIGNATURE_BYTES])
        if not verify(one.connector, proof, wire.proof_text(wire.HELLO_LABEL, *nonces)):
            raise WireError(Refusal.BAD_PROOF, "the proof is not of this key and challenge")
        name = service.live.connectors.get(one.connector)
        if name is None:
            raise WireError(Refusal.UNKNOWN_CONNECTOR, "this connector is not in the store's list any more")
        peer = Peer(one.sock, one.address, service.scratch)
        session = Session(service, peer, one.connector, name)
        if not service.enter(session):
            raise WireError(Refusal.TOO_MANY, "there are as many sessions as there may be")
        try:
            limits = service.live.config.limits
            welcome = service.identity.sign(wire.proof_text(wire.WELCOME_LABEL, *nonces))
            welcome += wire.WELCOME.pack(session.id, limits.chunk, limits.request_keys)
            one.sock.setblocking(False)
            _send(one.sock, wire.pack(Type.WELCOME, len(welcome)) + welcome)
            one.sock.setblocking(True)
            thread = threading.Thread(target=session.run, name=f"session {name}", daemon=True)
            self._forget(one)
            thread.start()
        except (OSError, RuntimeError) as bad:  # RuntimeError: no more threads
            service.leave(session)
            service.log.refused("session not begun", "no_thread", why=str(bad), connector=name)
            one.sock.close()
            self._forget(one)

    def _refuse(self, one: HalfOpen, bad: WireError) -> None:
        name = self._service.live.connectors.get(one.connector, "")
        self._say(one.sock, bad, one.address, name)
        self._drop(one)

    def _say(self, sock: socket.socket, bad: WireError, address: str, connector: str = "") -> None:
        """Last words, if they fit without waiting; logged and counted in any case."""
        reason = bad.refusal.name.lower()
        self._service.metrics.count("kvstored_refusals_total", reason=reason)
        self._service.log.refused("connection refused", reason, peer=address, connector=connector, why=bad.why)
        try:
            sock.setblocking(False)
            _send(sock, error_frame(bad.refusal, bad.why))
            sock.shutdown(socket.SHUT_WR)
            sock.recv_into(self._service.scratch[:UNREAD])  # unread bytes would turn the close into a reset
        except OSError:
            return  # the peer does not take them

    def _drop(self, one: HalfOpen) -> None:
        self._forget(one)
        one.sock.close()

    def _forget(self, one: HalfOpen) -> None:
        if self._half_open.pop(one.sock, None) is None:
            return
        self._selector.unregister(one.sock)
        self._per_peer[one.address] -= 1
        if not self._per_peer[one.address]:
            del self._per_peer[one.address]


def _send(sock: socket.socket, frame: bytes) -> None:
    """A small frame to a peer that has been sent next to nothing: its buffer has room, or it is no honest one."""
    if sock.send(frame) != len(frame):
        raise OSError(errno.ENOBUFS, "the peer's socket takes no bytes")
