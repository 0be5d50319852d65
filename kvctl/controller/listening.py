"""Where a controller listens: ADDRESS:PORT, or ADDRESS:PORT@NAMESPACE in a network namespace of this machine."""

import socket
from collections.abc import Callable

from kvctl.fleet.remote.dial import in_namespace


def addresses(text: str) -> list[str]:
    """What is listed with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def plain(address: str) -> str:
    """Without the namespace."""
    return address.partition("@")[0]


def placed(address: str, make: Callable[[str], socket.socket]) -> socket.socket:
    """The listening socket that `make` opens, in the address's namespace: a socket stays where it was made."""
    where, _, namespace = address.partition("@")
    return in_namespace(namespace, lambda: make(where)) if namespace else make(where)
