"""Listening sockets, and who is at the other end of one."""

import errno
import socket
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

from kvctl.daemon.fields import Endpoint
from kvctl.types.errors import KvctlError

BACKLOG = 512
SOCKET_MODE = 0o660


def peer_uid(sock: socket.socket) -> int:
    """User id of the process at the other end of a unix socket (unix(7), SO_PEERCRED)."""
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def open_endpoints(endpoints: Sequence[Endpoint]) -> list[socket.socket]:
    """Listening, non-blocking sockets; none stays open when one fails. KvctlError KV-STORE-010."""
    opened: list[socket.socket] = []
    try:
        for endpoint in endpoints:
            opened += [open_unix(endpoint.path)] if endpoint.path else [open_tcp(*endpoint.address)]
    except BaseException:
        for sock in opened:
            sock.close()
        raise
    return opened


def open_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as bad:
        sock.close()
        raise _not_bound(f"tcp:{host}:{port}", bad.strerror or str(bad)) from bad
    sock.setblocking(False)
    return sock


def open_unix(path: str) -> socket.socket:
    """A socket of mode 0660. One that a dead process left behind is replaced; one in use is not."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        sock.bind(path)
        Path(path).chmod(SOCKET_MODE)  # before listen: until then nobody gets in
        sock.listen(BACKLOG)
    except OSError as bad:
        sock.close()
        raise _not_bound(f"unix:{path}", bad.strerror or str(bad)) from bad
    sock.setblocking(False)
    return sock


def _clear(path: str) -> None:
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, "another process listens there")
    Path(path).unlink()


def _not_bound(where: str, why: str) -> KvctlError:
    return KvctlError(
        "KV-STORE-010", "an address cannot be listened on", where=where, why=why, fix="is another kvstored running?"
    )
