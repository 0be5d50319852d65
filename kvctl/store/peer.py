"""A connection with its deadlines: every wait ends, whatever the peer does or does not do.

The socket blocks, with SO_RCVTIMEO and SO_SNDTIMEO of one tick: a call that waits comes back after a tick, and the
deadline is judged there. (A socket's own timeout would add a poll to every call.)
"""

import socket
import struct
import time
from collections.abc import Sequence

from kvctl.connector.wire import Refusal, WireError

TICK = 1.0  # seconds; how late a deadline may be noticed
UNIX_SLICE = 256 << 10  # a unix socket's send starts its timeout anew with every buffer of some 48 KiB
LAST_WORDS = 0.5  # seconds that a peer has to take an ERROR before the connection is closed
LAST_BYTES = 4 << 20  # and how much of what it still sends is read for that

TCP_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)

Part = bytes | bytearray | memoryview


class PeerGone(Exception):
    """The peer closed the connection, or it broke."""


class Peer:
    """One connection and its other side's name. For one thread, except `end`."""

    def __init__(self, sock: socket.socket, name: str, scratch: memoryview, tick: float = TICK) -> None:
        """`scratch` takes what nobody reads; threads may share it. Makes the socket a blocking one."""
        self._sock = sock
        self._scratch = scratch
        self._slice = UNIX_SLICE if sock.family == socket.AF_UNIX else 0
        self.name = name
        sock.setblocking(True)
        wait = struct.pack("ll", int(tick), int(tick % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)

    def begin(self, view: memoryview) -> int | None:
        """The first bytes of a frame: how many came; None: nothing within a tick; 0: the peer closed."""
        try:
            return self._sock.recv_into(view)
        except BlockingIOError:
            return None
        except OSError as broken:
            raise PeerGone(str(broken)) from broken

    def fill(self, view: memoryview, deadline: float) -> None:
        """Receive all of `view`. WireError TIMEOUT after the deadline (time.monotonic), PeerGone."""
        while view:
            try:
                count = self._sock.recv_into(view, 0, socket.MSG_WAITALL)
            except BlockingIOError:
                count = None
            except OSError as broken:
                raise PeerGone(str(broken)) from broken
            if count == 0:
                raise PeerGone("it closed in the middle of a frame")
            view = view[count or 0 :]
            if view and time.monotonic() > deadline:
                raise WireError(Refusal.TIMEOUT, f"{len(view)} bytes of a frame are missing")

    def discard(self, count: int, deadline: float) -> None:
        """Receive bytes that nobody wants, so that the next frame begins where it should."""
        while count:
            part = self._scratch[: min(count, len(self._scratch))]
            self.fill(part, deadline)
            count -= len(part)

    def send(self, parts: Sequence[Part], deadline: float) -> None:
        """Send all parts. WireError TIMEOUT when the peer has not taken them by the deadline, PeerGone."""
        left = [part if isinstance(part, memoryview) else memoryview(part) for part in parts]
        while left:
            try:
                count = self._sock.sendmsg(left if not self._slice else _cut(left, self._slice))
            except BlockingIOError:
                count = 0
            except OSError as broken:
                raise PeerGone(str(broken)) from broken
            left = _after(left, count)
            if left and time.monotonic() > deadline:
                raise WireError(Refusal.TIMEOUT, f"the peer does not read: {sum(map(len, left))} bytes are left")

    def end(self) -> None:
        """Break the connection now; whoever waits on it gets PeerGone. From any thread."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is broken already, which is what was wanted

    def close(self, last_words: bytes = b"") -> None:
        """Close; with last words, only after the peer had a chance to read them."""
        try:
            if last_words:
                _farewell(self._sock, last_words, self._scratch)
        except OSError:
            return  # the peer is gone and needs no words
        finally:
            self._sock.close()


def _farewell(sock: socket.socket, words: bytes, scratch: memoryview) -> None:
    """Closing over unread bytes would reset the connection and take the words away from the peer."""
    end = time.monotonic() + LAST_WORDS
    wait = struct.pack("ll", 0, 100_000)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    sock.sendall(words)
    sock.shutdown(socket.SHUT_WR)
    taken = 0
    while taken < LAST_BYTES and time.monotonic() < end:
        try:
            count = sock.recv_into(scratch)
        except BlockingIOError:
            continue
        if not count:
            return
        taken += count


def _cut(parts: list[memoryview], most: int) -> list[memoryview]:
    """The first `most` bytes of the parts."""
    cut = []
    for part in parts:
        cut.append(part[:most])
        most -= len(cut[-1])
        if not most:
            break
    return cut


def _after(parts: list[memoryview], count: int) -> list[memoryview]:
    """What is left of the parts behind `count` bytes."""
    for at, part in enumerate(parts):
        if count < len(part):
            return [part[count:], *parts[at + 1 :]] if count else parts[at:]
        count -= len(part)
    return []
