"""A relay in front of stores: `python -m kvctl.bench.ttft.relay PORT:TARGET ...`, on loopback.

Each line of standard input is a rate: bytes a second that all its connections together get from the stores; 0: as many
as come. "ready" tells that it is in force. It ends with standard input.
"""

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Sequence

HOST = "127.0.0.1"
PIECE = 1 << 18  # bytes
SLOW_PIECE = 1 << 14  # bytes, so that what is slow is slow evenly


class Pace:
    """Thread-safe. When the next bytes may go, at `rate` bytes a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0
        self.rate = 0.0

    def wait(self, size: int) -> None:
        if not self.rate:
            return
        with self._lock:
            begin = max(time.monotonic(), self._next)
            self._next = begin + size / self.rate
        time.sleep(max(begin - time.monotonic(), 0))  # the pace itself, no condition


def pump(source: socket.socket, target: socket.socket, pace: Pace | None) -> None:
    """Pass bytes on until one side ends; then both end."""
    memory = memoryview(bytearray(PIECE))
    with contextlib.suppress(OSError):
        while size := source.recv_into(memory, SLOW_PIECE if pace and pace.rate else PIECE):
            if pace is not None:
                pace.wait(size)
            target.sendall(memory[:size])
    for stream in (source, target):
        with contextlib.suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)


def accept(listener: socket.socket, port: int, pace: Pace) -> None:
    while True:
        client, _ = listener.accept()
        try:
            store = socket.create_connection((HOST, port))
        except OSError:  # the store is gone: so is its relay, to whoever connects
            client.close()
            continue
        for stream in (client, store):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for ends in ((client, store, None), (store, client, pace)):
            threading.Thread(target=pump, args=ends, daemon=True).start()


def main(argv: Sequence[str]) -> None:
    pace = Pace()
    for pair in argv:
        port, _, target = pair.partition(":")
        listener = socket.create_server((HOST, int(port)))
        threading.Thread(target=accept, args=(listener, int(target), pace), daemon=True).start()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        pace.rate = float(line)
        print("ready", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
