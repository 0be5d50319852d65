"""A daemon's admin socket, reached from the controller: `python3 -m kvctl.daemon.doorway`.

Mutual TLS on an address, plain bytes on to a unix socket. Only the certificate named by --peer, of the CA, gets in.
"""

import argparse
import logging
import select
import socket
import ssl
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from kvctl.daemon.fields import Endpoint
from kvctl.daemon.sockets import open_tcp
from kvctl.types.errors import KvctlError

MOST = 16  # connections of the controller
GREETERS = 64  # connections that have not shown a certificate yet
GREETING = 10.0  # seconds for a handshake
SILENCE = 330.0  # seconds without a byte: a flush waits for requests that run
CHUNK = 64 << 10
log = logging.getLogger("kvctl.doorway")


def context(certificate: Path, key: Path, client_ca: Path) -> ssl.SSLContext:
    """TLS 1.3, and a client's certificate or no connection. OSError for files that cannot be used."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.load_cert_chain(certificate, key)
    made.load_verify_locations(client_ca)
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def common_name(peer: ssl.SSLSocket) -> str:
    found: Any = peer.getpeercert() or {}
    names = [value for group in found.get("subject", ()) for key, value in group if key == "commonName"]
    return str(names[0]) if names else ""


class Doorway:
    """Serves a listening socket until it is closed."""

    def __init__(self, listener: socket.socket, tls: ssl.SSLContext, target: str, peer: str) -> None:
        self._listener = listener
        self._tls = tls
        self._target = target
        self._peer = peer
        self._room = threading.BoundedSemaphore(MOST)
        self._lock = threading.Lock()
        self._greeting: dict[ssl.SSLSocket, None] = {}  # the oldest first

    def serve(self) -> None:
        self._listener.setblocking(True)
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            try:
                plain.settimeout(GREETING)
                near = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
            except OSError:  # it left already
                plain.close()
                continue
            self._make_room(near)
            threading.Thread(target=self._admit, args=(near,), daemon=True).start()

    def _make_room(self, near: ssl.SSLSocket) -> None:
        """One greeter too many ends the oldest: else whoever reaches the port could keep the controller out."""
        with self._lock:
            self._greeting[near] = None
            if len(self._greeting) <= GREETERS:
                return
            oldest = next(iter(self._greeting))
            del self._greeting[oldest]
            with suppress(OSError):
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)  # ssl's own is not for two threads

    def _admit(self, near: ssl.SSLSocket) -> None:
        try:
            with near:
                if self._greeted(near) and self._room.acquire(blocking=False):
                    try:
                        self._pass(near)
                    finally:
                        self._room.release()
        except OSError as error:
            log.info("a connection ended: %s", error)

    def _greeted(self, near: ssl.SSLSocket) -> bool:
        """Whether it is the peer."""
        try:
            near.do_handshake()
        finally:
            with self._lock:
                self._greeting.pop(near, None)
        name = common_name(near)
        if name != self._peer:
            log.warning("turned away: %r", name)
        return name == self._peer

    def _pass(self, near: ssl.SSLSocket) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as far:
            far.settimeout(GREETING)
            far.connect(self._target)
            relay(near, far)


def relay(near: ssl.SSLSocket, far: socket.socket) -> None:
    """Bytes both ways until one side ends, or nothing comes for SILENCE seconds."""
    near.settimeout(SILENCE)
    far.settimeout(SILENCE)
    while True:
        # What TLS has decrypted already does not show up at the descriptor.
        ready = [near] if near.pending() else select.select([near, far], [], [], SILENCE)[0]
        if not ready:
            return
        for source in ready:
            data = source.recv(CHUNK)
            if not data:
                return
            (far if source is near else near).sendall(data)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m kvctl.daemon.doorway", description=__doc__)
    parser.add_argument("--listen", type=Endpoint.parse, required=True, metavar="tcp:ADDRESS:PORT")
    parser.add_argument("--target", required=True, metavar="PATH", help="the unix socket behind it")
    for name in ("certificate", "key", "client-ca"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--peer", default="kvctld", help="common name of who may come in")
    asked = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        tls = context(asked.certificate, asked.key, asked.client_ca)
        listener = open_tcp(*asked.listen.address)
    except (OSError, KvctlError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    Doorway(listener, tls, asked.target, asked.peer).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
