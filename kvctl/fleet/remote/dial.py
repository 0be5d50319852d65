"""Sockets to a node: plain, from a network namespace, or through a ProxyCommand; and the deadline over them."""

import errno
import os
import socket
import subprocess
import time
from dataclasses import dataclass

from kvctl.fleet.remote import failures
from kvctl.fleet.remote.netns import in_namespace
from kvctl.fleet.remote.target import Target

_TCP_USER_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, `seconds` after it was set."""

    at: float
    seconds: float

    @staticmethod
    def after(seconds: float) -> "Deadline":
        return Deadline(time.monotonic() + seconds, seconds)

    def left(self) -> float:
        return max(0.0, self.at - time.monotonic())

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.at


@dataclass(frozen=True, slots=True)
class Line:
    """An open way to a node's sshd. `close` also ends the proxy's process, when there is one."""

    sock: socket.socket
    proxy: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        self.sock.close()
        if self.proxy is not None:
            self.proxy.kill()
            self.proxy.wait()


def dial(target: Target, deadline: Deadline) -> Line:
    """Connect to the node's sshd. UnreachableError KV-SSH-001, -007 or -010."""
    if target.proxy_command:
        return _through_proxy(target)
    if target.netns:
        return Line(in_namespace(target.netns, lambda: _connect(target, deadline)))
    return Line(_connect(target, deadline))


def _connect(target: Target, deadline: Deadline) -> socket.socket:
    limit = min(target.connect_timeout, deadline.left())
    try:
        addresses = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise failures.unreachable(target, f"the name {target.host} does not resolve: {error.strerror}") from error
    whys = []
    for family, kind, proto, _, address in addresses:
        sock = socket.socket(family, kind, proto)
        try:
            sock.settimeout(max(0.05, min(limit, deadline.left())))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)
        except OSError as error:
            sock.close()
            whys.append(_why(error, str(address[0]), target.port, limit))
        else:
            return sock
    raise failures.unreachable(target, "; ".join(dict.fromkeys(whys)))


def _why(error: OSError, address: str, port: int, limit: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer from {address} port {port} within {limit:.3g} s (timeout)"
    if error.errno == errno.ECONNREFUSED:
        return f"{address} port {port} refused the connection: no sshd listens there"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"no route to {address}: {os.strerror(error.errno)}"
    return f"{address} port {port}: {error.strerror or error}"


def _through_proxy(target: Target) -> Line:
    near, far = socket.socketpair()
    try:
        argv = [*target.netns_prefix(), "/bin/sh", "-c", f"exec {target.proxy_command}"]
        proxy = subprocess.Popen(
            argv, stdin=far.fileno(), stdout=far.fileno(), stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        near.close()
        raise failures.unreachable(target, f"the proxy command did not start: {error.strerror}") from error
    finally:
        far.close()
    return Line(near, proxy)
