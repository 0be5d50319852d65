"""What is done on the controller's own machine without asking it: running it, putting a backup back, its master key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl.client.choose import SOCKET, listens, site_settings
from kvctl.client.controller import local_principal
from kvctl.types.errors import LockedError

if TYPE_CHECKING:
    from kvctl.controller.settings import ControllerSettings


def serve(inventory: Path | None, state_dir: Path, socket: Path | None, listen: str | None) -> None:
    """Be a kvctld until a signal."""
    from kvctl.api.daemon import run

    run(site_settings(inventory, state_dir), socket, listen)


def restore(
    inventory: Path | None, state_dir: Path, file: Path, *, master: Path | None, force: str, dry_run: bool
) -> dict[str, Any]:
    """Verify a backup and put it in the place of the state. LockedError KV-CTL-010 while a controller runs."""
    from kvctl.controller.restore import restore as put_back

    settings = site_settings(inventory, state_dir)
    if listens(settings.directory / SOCKET):
        raise running(settings)
    try:
        found = put_back(settings, file, local_principal(), master=master, force=force, dry_run=dry_run)
    except LockedError as locked:
        raise running(settings, locked.what) from None
    told = {
        "backup": found.manifest["backup"], "site": found.manifest["site"], "events": found.events, "same": found.same,
        "differences": found.differences, "keys_left_out": found.keys_left_out,
        "aside": str(found.aside) if found.aside else None,
    }  # fmt: skip
    return {"schema": "kvctl.controller.restore/1", **({"would": told} if dry_run else told)}


def running(settings: ControllerSettings, why: str = "its kvctld runs") -> LockedError:
    return LockedError(
        "KV-CTL-010", "another controller has this site's state", where=str(settings.directory), why=why,
        fix="stop it first: systemctl stop kvctld",
    )  # fmt: skip


def export_master_key(inventory: Path | None, state_dir: Path, target: Path) -> None:
    """Copy the key store's master key to a file of mode 0600. With it, a backup opens; keep the two apart.

    Whoever calls this records it first: `controller.master-key-copied`.
    """
    from kvctl.connector.secretfile import write_secret
    from kvctl.controller.backup import KEYS, master_key

    write_secret(target, master_key(site_settings(inventory, state_dir).directory / KEYS))


def new_request(name: str) -> tuple[bytes, bytes]:
    """A new private key and a certificate request for it, PEM."""
    from kvctl.controller.pki import new_request as make

    return make(name)


def keep_certificate(directory: Path, name: str, key: bytes, signed: dict[str, Any]) -> None:
    """A service's key (mode 0600), certificate and CA as files."""
    from kvctl.connector.secretfile import write_secret

    directory.mkdir(parents=True, exist_ok=True)
    write_secret(directory / f"{name}.key", key)
    (directory / f"{name}.crt").write_text(signed["certificate"])
    (directory / "ca.crt").write_text(signed["ca"])


def reindex(inventory: Path | None, state_dir: Path) -> int:
    """Make the tables again from the control log; how many events that were. LockedError while a kvctld runs."""
    from kvctl.controller.core import opened
    from kvctl.types.events import Event

    settings = site_settings(inventory, state_dir)
    try:
        with opened(settings) as controller:
            done = controller.books.reindex()
            controller.books.commit(local_principal(), [Event("controller.reindexed", {"events": done})])
            return done
    except LockedError as locked:
        raise running(settings, locked.what) from None
