"""A store in memory that speaks the block protocol over real sockets, and misbehaves when a test says so."""

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kvctl.connector import wire
from kvctl.connector.keys import Identity, KeyLease, RootKey, verify
from kvctl.connector.wire import Frame, GetStatus, PutStatus, Refusal, Type
from kvctl.types.chunks import Meta, Scope

DRIP = 0.05  # seconds between the bytes of a slow peer


@dataclass
class Faults:
    """What the store does wrong; every field can be changed while it runs."""

    reverse: bool = False  # answers a GET from its last key
    flip: set[bytes] = field(default_factory=set)  # keys whose bytes are damaged
    swap: dict[bytes, bytes] = field(default_factory=dict)  # key -> the key whose bytes are sent
    close_after: int | None = None  # bytes of a chunk, then the connection ends
    drip_after: int | None = None  # bytes of a chunk, then one byte at a time
    stall: set[Type] = field(default_factory=set)  # requests never answered
    refuse: dict[Type, tuple[Refusal, int]] = field(default_factory=dict)  # request -> (refusal, flags)
    instead: dict[Type, bytes] = field(default_factory=dict)  # request -> raw bytes in place of the answer
    statuses: dict[bytes, GetStatus] = field(default_factory=dict)
    put: PutStatus | None = None
    wrong_proof: bool = False
    silent: bool = False  # accepts, and says nothing
    repeat: bool = False  # sends the first chunk of a GET twice


class Gone(Exception):
    pass


class StandIn:
    def __init__(self, address: str) -> None:
        self.identity = Identity.generate()
        self.faults = Faults()
        self.chunks: dict[bytes, tuple[bytes, Meta]] = {}
        self.requests: list[tuple[Type, int, bytes]] = []  # what was asked: type, slot, body (PUT: its head)
        self.accepted = 0
        self.chunk_limit = wire.MAX_CHUNK
        self.key_limit = wire.MAX_KEYS
        self.connectors: set[bytes] | None = None
        self._live: list[socket.socket] = []
        self._stop = threading.Event()
        self._listen(address)

    def _listen(self, address: str) -> None:
        if address.startswith("unix:"):
            path = address.removeprefix("unix:")
            with suppress(FileNotFoundError):
                Path(path).unlink()
            self._server = socket.socket(socket.AF_UNIX)
            self._server.bind(path)
            self.address = address
        else:
            host, _, port = address.removeprefix("tcp:").rpartition(":")
            self._server = socket.create_server((host, int(port)))
            self.address = f"tcp:{host}:{self._server.getsockname()[1]}"
        self._server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._server.accept()
            except OSError:
                return
            self.accepted += 1
            self._live.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def hang_up(self) -> None:
        """End every connection, as a restart does; listening goes on."""
        for peer in self._live:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        self._live.clear()

    def close(self) -> None:
        self._stop.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.hang_up()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(Gone, OSError), peer:
            if self.faults.silent:
                self._stop.wait()
                return
            Session(self, peer, self._stop).run()


class Session:
    def __init__(self, store: StandIn, peer: socket.socket, stop: threading.Event) -> None:
        self.store = store
        self.peer = peer
        self.stop = stop
        self.slots: dict[int, bytes] = {}

    def run(self) -> None:
        if not self.greet():
            return
        while True:
            self.answer(self.frame())

    def take(self, count: int) -> bytes:
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            got = self.peer.recv_into(view[at:])
            if not got:
                raise Gone
            at += got
        return bytes(data)

    def frame(self) -> Frame:
        return wire.unpack(self.take(wire.HEADER.size))

    def send(self, kind: Type, body: bytes, frame: Frame | None = None, flags: int = 0) -> None:
        slot, request = (frame.slot, frame.request) if frame else (0, 0)
        self.peer.sendall(wire.pack(kind, len(body), slot=slot, flags=flags, request=request) + body)

    def greet(self) -> bool:
        connector, nonce = wire.unpack_hello(self.take(self.frame().length))
        mine, own_nonce = self.store.identity.public, secrets.token_bytes(wire.NONCE_BYTES)
        self.send(Type.CHALLENGE, mine + own_nonce)
        proof = self.take(self.frame().length)
        nonces = (mine, own_nonce, connector, nonce)
        known = self.store.connectors is None or connector in self.store.connectors
        if not known or not verify(connector, proof, wire.proof_text(wire.HELLO_LABEL, *nonces)):
            refusal = Refusal.BAD_PROOF if known else Refusal.UNKNOWN_CONNECTOR
            self.send(Type.ERROR, wire.pack_error(refusal, "not let in"), flags=wire.FATAL)
            return False
        signer = Identity.generate() if self.store.faults.wrong_proof else self.store.identity
        limits = wire.WELCOME.pack(secrets.token_bytes(16), self.store.chunk_limit, self.store.key_limit)
        self.send(Type.WELCOME, signer.sign(wire.proof_text(wire.WELCOME_LABEL, *nonces)) + limits)
        return True

    def answer(self, frame: Frame) -> None:
        faults = self.store.faults
        taken = min(frame.length, wire.PUT_HEAD.size) if frame.type is Type.PUT else frame.length
        body = self.take(taken)
        self.store.requests.append((frame.type, frame.slot, body))
        if frame.type in faults.stall:
            self.stop.wait()
            raise Gone
        sealed = self.take(frame.length - taken)
        if frame.type in faults.instead:
            self.peer.sendall(faults.instead[frame.type])
        elif frame.type in faults.refuse:
            refusal, flags = faults.refuse[frame.type]
            self.send(Type.ERROR, wire.pack_error(refusal, "as the test says"), frame, flags)
            if flags:
                raise Gone
        elif frame.type is not Type.ATTACH and frame.slot not in self.slots:
            self.send(Type.ERROR, wire.pack_error(Refusal.NOT_ATTACHED, "no capability"), frame)
        else:
            HANDLERS[frame.type](self, frame, body, sealed)

    def attach(self, frame: Frame, body: bytes, _: bytes) -> None:
        self.slots[frame.slot] = body
        self.send(Type.ATTACHED, wire.ATTACHED.pack(2**40), frame)

    def has(self, frame: Frame, body: bytes, _: bytes) -> None:
        _, keys = wire.unpack_keys(Type.HAS, body)
        self.send(Type.BITMAP, wire.pack_bitmap([key in self.store.chunks for key in keys]), frame)

    def touch(self, frame: Frame, body: bytes, _: bytes) -> None:
        _, keys = wire.unpack_keys(Type.TOUCH, body)
        there = sum(key in self.store.chunks for key in keys)
        self.send(Type.TOUCHED, wire.NUMBER.pack(there), frame)

    def lineage(self, frame: Frame, body: bytes, _: bytes) -> None:
        _, keys = wire.unpack_keys(Type.LINEAGE, body)
        there = sum(key in self.store.chunks for key in keys)
        self.send(Type.TOUCHED, wire.NUMBER.pack(there), frame)

    def stat(self, frame: Frame, _: bytes, __: bytes) -> None:
        self.send(Type.STATS, json.dumps({"chunks": len(self.store.chunks)}).encode(), frame)

    def put(self, frame: Frame, body: bytes, sealed: bytes) -> None:
        key, meta, _ = wire.unpack_put(body)
        status = self.store.faults.put
        if status is None:
            status = PutStatus.EXISTS if key in self.store.chunks else PutStatus.STORED
        if status is PutStatus.STORED:
            self.store.chunks[key] = (sealed, meta)
        self.send(Type.PUT_DONE, wire.NUMBER.pack(status), frame)

    def get(self, frame: Frame, body: bytes, _: bytes) -> None:
        _, keys = wire.unpack_keys(Type.GET, body)
        order = list(enumerate(keys))
        if self.store.faults.reverse:
            order.reverse()
        if self.store.faults.repeat:
            order.insert(0, order[0])
        for index, key in order:
            self.chunk(frame, index, key)

    def chunk(self, frame: Frame, index: int, key: bytes) -> None:
        faults = self.store.faults
        status = faults.statuses.get(key, GetStatus.HIT if key in self.store.chunks else GetStatus.MISS)
        sealed = b""
        if status is GetStatus.HIT:
            sealed = self.store.chunks[faults.swap.get(key, key)][0]
            if key in faults.flip:
                sealed = sealed[:-1] + bytes((sealed[-1] ^ 1,))
        head = wire.pack(Type.CHUNK, wire.CHUNK_HEAD.size + len(sealed), slot=frame.slot, request=frame.request)
        self.peer.sendall(head + wire.CHUNK_HEAD.pack(index, status))
        if sealed and faults.close_after is not None:
            self.peer.sendall(sealed[: faults.close_after])
            raise Gone
        if sealed and faults.drip_after is not None:
            self.peer.sendall(sealed[: faults.drip_after])
            self.drip(sealed[faults.drip_after :])
        else:
            self.peer.sendall(sealed)

    def drip(self, data: bytes) -> None:
        for byte in data:
            self.peer.sendall(bytes((byte,)))
            if self.stop.wait(DRIP):
                raise Gone


HANDLERS: dict[Type, Callable[[Session, Frame, bytes, bytes], None]] = {
    Type.ATTACH: Session.attach,
    Type.HAS: Session.has,
    Type.TOUCH: Session.touch,
    Type.LINEAGE: Session.lineage,
    Type.STAT: Session.stat,
    Type.PUT: Session.put,
    Type.GET: Session.get,
}


@contextmanager
def running(address: str = "tcp:127.0.0.1:0") -> Iterator[StandIn]:
    store = StandIn(address)
    try:
        yield store
    finally:
        store.close()


def key_lease(tenant: str = "acme", root: bytes = b"r" * 32, token: bytes = b"t" * 80) -> KeyLease:
    scope = Scope(tenant, "chat", b"epoch-0123456789"[:16])
    return KeyLease(RootKey(scope, root), token, int(time.time()) + 3600)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")
