"""Whether somebody is there: said once when it changes, and found again."""

import contextlib
import http.client
import queue
import socket
import threading

from kvctl.tui.pulse import Pulse

ALIVE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
SECONDS = 20.0


def answering(server: socket.socket) -> None:
    """Answer one connection after the other until the test ends."""
    with contextlib.suppress(OSError):
        while True:
            peer, _ = server.accept()
            with peer:
                while peer.recv(4096):
                    peer.sendall(ALIVE)


def test_silence_and_an_answer_are_told_once_each():
    server = socket.create_server(("127.0.0.1", 0))
    said: queue.Queue[str] = queue.Queue()
    port = server.getsockname()[1]
    pulse = Pulse(lambda timeout: http.client.HTTPConnection("127.0.0.1", port, timeout=timeout), said.put)
    pulse.start()
    try:
        assert said.get(timeout=SECONDS) == "timed out"  # it was taken, and nobody spoke
        threading.Thread(target=answering, args=(server,), daemon=True).start()
        assert said.get(timeout=SECONDS) == ""
        assert said.empty()
    finally:
        pulse.stop()
        server.close()
