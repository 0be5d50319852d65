"""Sockets made in another network namespace of this machine."""

import ctypes
import os
import socket
import threading
from collections.abc import Callable

from kvctl.fleet.remote import failures

_CLONE_NEWNET = 0x40000000  # linux/sched.h


def in_namespace(name: str, make: Callable[[], socket.socket]) -> socket.socket:
    """Run `make` in a thread that has entered the network namespace /run/netns/`name`.

    A socket stays in the namespace in which it was made (setns(2) is per thread), so the thread can end.
    """
    made: list[socket.socket] = []
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            _setns(name)
            made.append(make())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failed.append(error)

    thread = threading.Thread(target=enter, name=f"netns-{name}", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _setns(name: str) -> None:
    try:
        fd = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise failures.no_namespace(name, error.strerror or str(error)) from error
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(fd, _CLONE_NEWNET) != 0:
            raise failures.no_namespace(name, os.strerror(ctypes.get_errno()))
    finally:
        os.close(fd)
