"""What faces ask of kvstored; today the direct carrier: over the store's own admin socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl.types.errors import KvctlError, RefusedError

if TYPE_CHECKING:
    from kvctl.client.controller import ControllerClient
    from kvctl.client.ledger import Recorder
    from kvctl.controller.acts import Act

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Where work on a store goes on record: `directory` is the site's state here."""

    directory: Path
    ledger: Recorder

    def acting(self, what: str, node: str, **more: Any) -> AbstractContextManager[Act]:
        """`upkeep.started` is in the control log before the block, `upkeep.ended` after it. KV-CTL-070 when it cannot
        be recorded: then nothing was done."""
        from kvctl.controller.acts import acting, new_id

        return acting(self, "upkeep", new_id(), {"what": what, "nodes": [node], **more})


def upkeep(
    inventory: Path | None, state_dir: Path, find: Callable[[], ControllerClient] | None,
    unrecorded: Callable[[str, KvctlError], None],
) -> Upkeep:  # fmt: skip
    """Of the site that the inventory names, with the controller that `find` gives, or the one on this state.

    RefusedError KV-STORE-034 when no controller was named and none has its state here: a log that is begun on the
    store's own host is read by nobody.
    """
    from kvctl.client.choose import nearest, site_settings
    from kvctl.client.ledger import Recorder

    settings = site_settings(inventory, state_dir)
    if find is None and inventory is None and not (settings.directory / "ledger").exists():
        raise RefusedError(
            "KV-STORE-034", "nobody here keeps a record: nothing was changed",
            why="no controller has its state here, and none was named",
            fix="--controller https://HOST:PORT (KVCTL_CONTROLLER), or do it on the controller's machine",
        )  # fmt: skip
    site = settings.site if inventory is not None or find is None else None
    return Upkeep(settings.directory, Recorder(find or (lambda: nearest(settings)), site, unrecorded))


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
