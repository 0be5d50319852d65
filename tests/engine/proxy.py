"""Between an engine and its store: what a network and a broken store do to the frames on their way back."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kvctl.connector import wire
from kvctl.connector.wire import Type

PIECE = 64 << 10


class Proxy:
    """Listens on `path` and speaks with the store at `store`; both are unix sockets. Frames pass whole."""

    def __init__(self, path: Path, store: Path) -> None:
        self.path = path
        self._store = store
        self.rate: float | None = None  # bytes a second of all connections together
        self.flips = False  # a bit of every chunk's last byte, which is in its tag
        self._at: tuple[int, Callable[[], None]] | None = None
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self.acting: threading.Thread | None = None
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    def after(self, chunks: int, act: Callable[[], None]) -> None:
        """Do this once so many chunks have passed from now on, before the next one."""
        with self._lock:
            self._at, self.acting = (chunks, act), None

    def clear(self) -> None:
        self.rate, self.flips = None, False
        with self._lock:
            self._at = None
        if self.acting is not None:
            self.acting.join()

    def close(self) -> None:
        self._ended.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                engine, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(engine,), daemon=True).start()

    def _serve(self, engine: socket.socket) -> None:
        store = socket.socket(socket.AF_UNIX)
        with engine, store, suppress(OSError, EOFError):
            store.connect(str(self._store))
            threading.Thread(target=self._forth, args=(engine, store), daemon=True).start()
            while True:
                self._frame(store, engine)

    def _forth(self, engine: socket.socket, store: socket.socket) -> None:
        with suppress(OSError):
            while data := engine.recv(PIECE):
                store.sendall(data)
        for end in (engine, store):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _frame(self, store: socket.socket, engine: socket.socket) -> None:
        head = read(store, wire.HEADER.size)
        frame = wire.unpack(head)
        body = read(store, frame.length)
        if frame.type is Type.CHUNK and frame.length > wire.CHUNK_HEAD.size:
            self._counted()
            if self.flips:
                body[-1] ^= 0x10
        self._send(engine, head + body)

    def _counted(self) -> None:
        with self._lock:
            if self._at is None:
                return
            left, act = self._at
            self._at = (left - 1, act) if left else None
            if not left:
                # In a thread: what it does to the store must not wait for this frame.
                self.acting = threading.Thread(target=act)
                self.acting.start()

    def _send(self, engine: socket.socket, data: bytearray) -> None:
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            if self.rate is not None:
                with self._turn:
                    self._ended.wait(len(piece) / self.rate)
            engine.sendall(piece)


def read(peer: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        got = peer.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return data
