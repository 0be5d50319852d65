"""What faces ask of kvstored; today the direct carrier: over the store's own admin socket."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOUR = 3600.0


class Stores:
    """The admin side of one kvstored. Raises UnreachableError, or the error that the store answered with."""

    def __init__(
        self, endpoint: str, certificate: Path | None = None, key: Path | None = None, ca: Path | None = None
    ) -> None:
        from kvctl.controller.stores import StoreAddress

        self._address = StoreAddress(endpoint, certificate, key, ca)

    def stat(self) -> dict[str, Any]:
        return self._ask("stat")

    def ls(self, tenant: str | None, domain: str | None, limit: int) -> Iterator[dict[str, Any]]:
        """Chunks, at most `limit`, asked for page by page."""
        after = ""
        while limit > 0:
            named = {"tenant": tenant, "domain": domain, "after": after, "limit": min(limit, 1000)}
            page = self._ask("ls", query={k: v for k, v in named.items() if v})["chunks"]
            yield from page
            if len(page) < min(limit, 1000):
                return
            limit -= len(page)
            after = page[-1]["cursor"]

    def scrub(self, tier: str) -> dict[str, Any]:
        """Read a whole tier again; takes as long as that takes."""
        return self._ask("scrub", {"tier": tier}, timeout=24 * HOUR)

    def drain(self) -> dict[str, Any]:
        return self._ask("drain", {}, timeout=HOUR)

    def resume(self) -> dict[str, Any]:
        return self._ask("resume", {})

    def _ask(
        self,
        verb: str,
        body: dict[str, Any] | None = None,
        *,
        query: dict[str, Any] | None = None,
        timeout: float = 60.0,
    ) -> dict[str, Any]:
        from kvctl.controller.stores import ask

        return ask(self._address, verb, body, query=query, timeout=timeout)
