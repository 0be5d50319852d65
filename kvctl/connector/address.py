"""Where a store listens."""


def parse(address: str) -> tuple[str, tuple[str, ...]]:
    """("tcp", (host, port)) or ("unix", (path,)); a v6 host is in brackets."""
    family, _, rest = address.partition(":")
    host, _, port = rest.rpartition(":")
    if family == "unix" and rest.startswith("/"):
        return family, (rest,)
    if family == "tcp" and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
        return family, (host.removeprefix("[").removesuffix("]"), port)
    raise ValueError(f"not an address: {address!r}; tcp:host:port or unix:/path")
