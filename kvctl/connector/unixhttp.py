"""HTTP over a unix socket: how daemons of ours are asked on their own machine."""

import http.client
import os
import socket


class UnixConnection(http.client.HTTPConnection):
    """`timeout`: seconds without a byte; `connect`: seconds for the connection itself, the same if not given."""

    def __init__(self, path: str | os.PathLike[str], timeout: float, *, connect: float | None = None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = os.fspath(path)
        self._connect = timeout if connect is None else connect

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._connect)
        self.sock.connect(self._path)
        self.sock.settimeout(self.timeout)
