"""Which carrier to the controller: one that is named, a kvctld that runs on this state, otherwise this process."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl.client.controller import ControllerClient, Direct
from kvctl.client.http import Http
from kvctl.types.errors import LockedError, UsageError

if TYPE_CHECKING:
    from kvctl.controller.settings import ControllerSettings
    from kvctl.controller.site import Site
    from kvctl.types.principals import Principal

SOCKET = "kvctld.sock"
DIRECT = "direct"


class Embedded(Direct):
    """The controller in this process; when another one has the books, it says how to ask that one."""

    def __init__(self, settings: ControllerSettings, who: Principal | None = None) -> None:
        super().__init__(settings, who)
        self.settings = settings

    def call(self, name: str, request: Any) -> dict[str, Any]:
        try:
            return super().call(name, request)
        except LockedError as locked:
            raise self._locked(locked) from None

    def login(self, name: str, password: str, code: str = "") -> dict[str, Any]:
        """Be a local account from now on. RefusedError as the accounts raise it."""
        from kvctl.controller.accounts import Accounts
        from kvctl.controller.core import opened

        try:
            with opened(self.settings) as controller:
                principal = Accounts(controller.books).authenticate(name, password, code)
        except LockedError as locked:
            raise self._locked(locked) from None
        self._who = replace(principal, fresh=True)
        return {"schema": "kvctl.session/1", "name": principal.name, "roles": sorted(principal.roles)}

    def _locked(self, locked: LockedError) -> LockedError:
        if not locked.code.startswith("KV-LEDGER-"):
            return locked
        return LockedError(
            "KV-CTL-010", "another controller has this site's state", where=str(self.settings.directory),
            why=locked.what, fix=f"ask that one: kvctl --controller unix:{self.settings.directory / SOCKET}",
        )  # fmt: skip


def controller(
    inventory: Path | None, state_dir: Path, *, endpoint: str | None = None, ca: Path | None = None
) -> ControllerClient:
    """The client for this site. `endpoint`: unix:/PATH, https://HOST:PORT, or `direct`; None: whichever is there."""
    if endpoint and endpoint != DIRECT:
        return Http(endpoint, ca=ca or own_ca(state_dir) if endpoint.startswith("https:") else None)
    settings = site_settings(inventory, state_dir)
    return Embedded(settings) if endpoint else nearest(settings)


def nearest(settings: ControllerSettings) -> ControllerClient:
    """The kvctld that runs on this state, otherwise this process."""
    sock = settings.directory / SOCKET
    return Http(f"unix:{sock}") if listens(sock) else Embedded(settings)


def site_settings(inventory: Path | None, state_dir: Path) -> ControllerSettings:
    """What the controller of this site is told. Without an inventory, the site is called `local`."""
    from kvctl.controller.settings import read

    if inventory is None:
        return read(state_dir / "local", site="local", state_dir=state_dir)
    from kvctl.controller.site import open_site

    return settings_of(open_site(inventory, state_dir), inventory, state_dir)


def settings_of(site: Site, inventory: Path, state_dir: Path) -> ControllerSettings:
    """What the controller of a site is told whose inventory was read already."""
    from kvctl.controller.settings import read

    about = site.inventory.site
    return read(
        site.directory, site=about.name, country=about.country, entity=about.entity, inventory=inventory,
        state_dir=state_dir,
    )  # fmt: skip


def listens(path: Path) -> bool:
    """Whether somebody is behind a socket; one that a process left when it died is nobody."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1.0)
        try:
            sock.connect(str(path))
        except (ConnectionError, FileNotFoundError, TimeoutError):
            return False
    return True


def own_ca(state_dir: Path) -> Path | None:
    """The CA of the one site whose state is here, if there is one; otherwise the system's CAs count."""
    found = sorted(state_dir.glob("*/tls/ca.crt"))
    return found[0] if len(found) == 1 else None


def sign_in(client: ControllerClient, name: str, password: str, code: str = "") -> ControllerClient:
    """The same controller as a person. UsageError KV-CTL-034 for a carrier that has no persons."""
    if isinstance(client, Http | Embedded):
        client.login(name, password, code)
        return client
    raise UsageError("KV-CTL-034", "this carrier knows no local accounts", fix="use the controller's socket or https")
