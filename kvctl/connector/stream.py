"""Bytes in and out of one blocking socket, each call bounded by a deadline, without a poll before every read.

SO_RCVTIMEO bounds a whole recv with MSG_WAITALL, however slowly bytes drip in (net/ipv4/tcp.c tcp_recvmsg_locked and
net/unix/af_unix.c unix_stream_read_generic count the time down over their waits), so setting it to the time that is
left, once a call, holds the deadline. A send on a unix socket would wait anew for every 32 KiB: sends do not block,
and a poll waits only when the socket's buffer is full.

A deadline is a value of `time.monotonic()`.
"""

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from kvctl.connector.address import parse
from kvctl.connector.failures import DeadlineExceeded, StoreUnavailable

TIMEVAL = struct.Struct("@ll")
BUFFER = 8 << 20
NEAR = 0.002  # seconds
SEND = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
# Of TCP: a size that is set by hand stops the kernel from growing it, so it must beat what would be grown to.
GROWN = {socket.SO_RCVBUF: "net/ipv4/tcp_rmem", socket.SO_SNDBUF: "net/ipv4/tcp_wmem"}
ALLOWED = {socket.SO_RCVBUF: "net/core/rmem_max", socket.SO_SNDBUF: "net/core/wmem_max"}


def left(deadline: float) -> float:
    """Seconds until the deadline; DeadlineExceeded when there are none."""
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise DeadlineExceeded("the deadline has passed")
    return rest


class Stream:
    """One connected socket. Not thread-safe: one caller at a time."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(None)
        self._sock = sock
        self._room = select.poll()
        self._room.register(sock, select.POLLOUT)
        self._arrival = select.poll()
        self._arrival.register(sock, select.POLLIN)
        self._limit = (0.0, 0.0)  # the deadline that SO_RCVTIMEO was set for, and until when that is near enough

    def receive(self, view: memoryview, deadline: float) -> None:
        """Fill the view. StoreUnavailable when the peer ends first, DeadlineExceeded when it is too slow."""
        self._fill(view, len(view), socket.MSG_WAITALL, deadline)

    def receive_some(self, view: memoryview, least: int, deadline: float) -> int:
        """What is there of the view, `least` bytes or more; how many. Raises as `receive` does."""
        return self._fill(view, least, 0, deadline)

    def _fill(self, view: memoryview, least: int, flags: int, deadline: float) -> int:
        at = 0
        while at < least:
            self._await_signalled(deadline)
            self._bound(deadline)
            try:
                count = self._sock.recv_into(view[at:], 0, flags)
            except BlockingIOError:
                raise DeadlineExceeded("no answer by the deadline") from None
            except OSError as error:
                raise StoreUnavailable(f"the connection broke: {error}") from error
            if not count:
                raise StoreUnavailable("the peer closed the connection")
            at += count
        return at

    def send(self, parts: Sequence[memoryview], deadline: float) -> None:
        """Send all parts in order."""
        rest = list(parts)
        while rest:
            try:
                count = self._sock.sendmsg(rest, (), SEND)
            except BlockingIOError:
                self._wait_for_room(deadline)
            except OSError as error:
                raise StoreUnavailable(f"the connection broke: {error}") from error
            else:
                rest = behind(rest, count)

    def close(self) -> None:
        self._sock.close()

    @property
    def idle(self) -> bool:
        """Whether the socket is open and says nothing: what a connection between two requests must be."""
        try:
            self._sock.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _await_signalled(self, deadline: float) -> None:
        """In the main thread, which signals interrupt: wait for a first byte.

        Python begins an interrupted recv anew with all of SO_RCVTIMEO (PEP 475), a poll with the time that is left.
        An interrupted recv that has some bytes returns them.
        """
        if threading.get_ident() != threading.main_thread().ident:
            return
        if not self._arrival.poll(int(left(deadline) * 1000) + 1):
            raise DeadlineExceeded("no answer by the deadline")

    def _bound(self, deadline: float) -> None:
        """Have the next recv end at the deadline, or at most NEAR later: one setting serves the parts of an answer."""
        now = time.monotonic()
        bound, near = self._limit
        if bound == deadline and now < min(near, deadline):
            return
        whole, part = divmod(max(int(left(deadline) * 1e6), 1), 1_000_000)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL.pack(whole, part))
        self._limit = (deadline, now + NEAR)

    def _wait_for_room(self, deadline: float) -> None:
        if not self._room.poll(int(left(deadline) * 1000) + 1):
            raise DeadlineExceeded("the peer takes no bytes")


def behind(parts: Sequence[memoryview], count: int) -> list[memoryview]:
    """What is left of the parts after `count` bytes."""
    for at, part in enumerate(parts):
        if count < len(part):
            return [part[count:], *parts[at + 1 :]]
        count -= len(part)
    return []


def dial(address: str, deadline: float) -> Stream:
    """Connect to `tcp:host:port` or `unix:/path`; ValueError for anything else.

    A host's addresses are tried in the resolver's order. The deadline bounds the connecting, not the name look-up:
    give addresses where names may hang.
    """
    family, where = parse(address)
    try:
        sock = dial_unix(where[0], deadline) if family == "unix" else dial_tcp(where[0], int(where[1]), deadline)
    except TimeoutError:
        raise DeadlineExceeded(f"{address} does not answer") from None
    except (OSError, UnicodeError) as error:  # the latter for what can be no host name
        raise StoreUnavailable(f"{address}: {error}") from error
    widen(sock)
    return Stream(sock)


def dial_tcp(host: str, port: int, deadline: float) -> socket.socket:
    refused: OSError | None = None
    for family, kind, protocol, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            sock = connect(socket.socket(family, kind, protocol), where, deadline)
        except OSError as error:
            refused = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise refused or OSError(f"{host} has no address")


def dial_unix(path: str, deadline: float) -> socket.socket:
    return connect(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), path, deadline)


def connect(sock: socket.socket, where: object, deadline: float) -> socket.socket:
    try:
        sock.settimeout(left(deadline))
        sock.connect(where)  # type: ignore[arg-type]  # as getaddrinfo gave it
    except BaseException:
        sock.close()
        raise
    return sock


def widen(sock: socket.socket) -> None:
    """Ask for buffers that hold a chunk, where that makes them larger than the kernel would."""
    for option, file in ALLOWED.items():
        allowed = limit(file)
        grown = limit(GROWN[option]) if sock.family != socket.AF_UNIX else 0
        if allowed is not None and grown is not None and min(allowed, BUFFER) * 2 > grown:
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER)


def limit(file: str) -> int | None:
    """The last number of a sysctl; None where it cannot be read (then the kernel's own sizes stay)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((Path("/proc/sys") / file).read_text().split()[-1])
    return None
