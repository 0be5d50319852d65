"""What systemd is told (sd_notify(3)): a datagram to NOTIFY_SOCKET. Without one, nothing is sent."""

import os
import socket
import time
from collections.abc import Mapping

from kvctl.daemon.log import Log


class Notify:
    """`environ` is read once: NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""

    def __init__(self, environ: Mapping[str, str], log: Log) -> None:
        self._log = log
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        usec = environ.get("WATCHDOG_USEC", "")
        meant = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Half of what systemd waits, as sd_watchdog_enabled(3) advises; None: no watchdog.
        self.interval = int(usec) / 2e6 if usec.isdigit() and int(usec) and meant and name else None

    def ready(self, status: str) -> None:
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        self._send("STOPPING=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        self._send(f"STATUS={status}")

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError as bad:  # serving does not depend on who watches
            self._log.refused("systemd not told", "notify", what=lines[0], why=str(bad))
