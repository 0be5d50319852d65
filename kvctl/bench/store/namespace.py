"""A network namespace of the benchmark's own: nothing that it starts can be reached from outside, whatever it binds."""

import ctypes
import fcntl
import os
import socket
import struct

from kvctl.types.errors import KvctlError

CLONE_NEWNET = 0x40000000  # linux/sched.h
SIOCSIFFLAGS = 0x8914  # linux/sockios.h
IFF_UP = 1  # linux/if.h
IFREQ = struct.Struct("16sh22x")  # struct ifreq: name, flags


def enter_private_network() -> bool:
    """Leave the machine's network for an empty one with loopback up; False when not root. For a process of one thread.

    Threads and processes that it starts later are in there too (network_namespaces(7)). KV-BENCH-015.
    """
    if os.geteuid() != 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise KvctlError(
            "KV-BENCH-015", "cannot make a network namespace for the benchmark", why=os.strerror(number),
            fix="run it where unshare(2) is allowed, or not as root: then it leaves Mooncake out",
        )  # fmt: skip
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, IFREQ.pack(b"lo", IFF_UP))
    return True
