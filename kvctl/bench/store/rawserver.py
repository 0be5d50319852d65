"""The server end of the plain socket pair: `python -m kvctl.bench.store.rawserver TCP_PORT UNIX_PATH SET_BYTES`.

A request is an operation byte, the chunk's index and its length; the answer to a GET is that many bytes, to a PUT one
byte. The least that a Python data server can do.
"""

import socket
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from kvctl.bench.store.lanes.lane import touched

REQUEST = struct.Struct("<BQQ")
GET, PUT = 0, 1


def serve(stream: socket.socket, held: memoryview) -> None:
    """Answer one connection until its end."""
    head, taken = memoryview(bytearray(REQUEST.size)), memoryview(bytearray(0))
    with stream:
        while stream.recv_into(head, len(head), socket.MSG_WAITALL) == len(head):
            op, index, length = REQUEST.unpack(head)
            if op == GET:
                stream.sendall(place(held, index, length))
                continue
            if len(taken) < length:
                taken = touched(length)
            receive(stream, taken[:length])
            stream.sendall(b"\1")


def place(held: memoryview, index: int, length: int) -> memoryview:
    """The bytes of a chunk in the set that the server holds."""
    at = index % (len(held) // length) * length
    return held[at : at + length]


def receive(stream: socket.socket, into: memoryview) -> None:
    """Fill `into`; ConnectionError when the peer is gone before that."""
    while into:
        got = stream.recv_into(into, len(into), socket.MSG_WAITALL)
        if not got:
            raise ConnectionError("the peer closed inside a chunk")
        into = into[got:]


def accept(listener: socket.socket, held: memoryview) -> None:
    while True:
        stream, _ = listener.accept()
        if stream.family != socket.AF_UNIX:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(stream, held), daemon=True).start()


def main(argv: Sequence[str]) -> None:
    """Serve until standard input ends, that is, until the benchmark does."""
    port, path, size = int(argv[0]), Path(argv[1]), int(argv[2])
    held = touched(size)
    tcp = socket.create_server(("127.0.0.1", port))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(path))
    unix.listen()
    for listener in (tcp, unix):
        threading.Thread(target=accept, args=(listener, held), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
