"""Where a controller listens: ADDRESS:PORT, or ADDRESS:PORT@NAMESPACE in a network namespace of this machine."""

import socket
from collections.abc import Callable

from kvctl.fleet.remote.netns import in_namespace


def addresses(text: str) -> list[str]:
    """What is listed with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def plain(address: str) -> str:
    """Without the namespace."""
    return address.partition("@")[0]


def url(address: str, port: int = 0) -> str:
    """Where a browser finds what listens there, on `port` when the address leaves it open; "" while no port is known.
    An address of every interface is shown as this machine's name, which the controller's certificate has."""
    host, _, own = plain(address).rpartition(":")
    number = port or int(own or 0)
    if host.strip("[]") in ("", "0.0.0.0", "::"):
        host = socket.gethostname()
    return f"https://{host}:{number}" if number else ""


def placed(address: str, make: Callable[[str], socket.socket]) -> socket.socket:
    """The listening socket that `make` opens, in the address's namespace: a socket stays where it was made."""
    where, _, namespace = address.partition("@")
    return in_namespace(namespace, lambda: make(where)) if namespace else make(where)
