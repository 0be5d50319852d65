"""Traffic of a lab's tenants, as a connector makes it: lease from kvctld over https, chunks to every store."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl.types.requests import LeaseRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvctl.controller.settings import ControllerSettings
    from kvctl.fleet.lab.layout import Layout

CLASS = "conversation"


def connector(settings: ControllerSettings, name: str, out: Path) -> dict[str, str]:
    """Make and register a connector's keys in `out`."""
    from kvctl.controller.enrolment import connector as enrolled

    made = enrolled(settings.directory, settings.site, name, out)
    return {"name": made.name, "public": made.public, "directory": str(made.directory)}


def traffic(
    settings: ControllerSettings, layout: Layout, files: Path, endpoint: str, tenant: str, domain: str,
    users: Sequence[str], chunks: int, size: int,
) -> dict[str, Any]:  # fmt: skip
    """Write conversations of these users and one common prompt; counts by status. Needs the state directory."""
    from kvctl.client.http import Http
    from kvctl.connector.keys import Identity
    from kvctl.controller.enrolment import CA, CERTIFICATE, IDENTITY, KEY
    from kvctl.fleet.lab.traffic import Traffic, send

    identity = files / IDENTITY
    http = Http(endpoint, ca=files / CA, certificate=files / CERTIFICATE, key=files / KEY)
    lease = http.call("lease.issue", LeaseRequest(tenant, domain, Identity.load(identity).public.hex()))
    people, seconds = pseudonyms(settings, tenant, users)
    ends = int(time.time()) + seconds if seconds else 0
    with tempfile.TemporaryDirectory(dir=files) as scratch:
        path = Path(scratch) / "lease.json"
        path.touch(0o600)
        path.write_text(json.dumps(lease))
        wanted = Traffic(tenant, {**people, "system prompt": ""}, chunks, size, "lab-model", ends)
        return send(layout, stores(settings), identity, path, wanted)


def stores(settings: ControllerSettings) -> dict[str, str]:
    """Where each store takes chunks -> its public key, as it says over its admin side."""
    from kvctl.controller.stores import StoreAddress, ask

    return {one.endpoint: ask(StoreAddress.of(one), "stat")["daemon"]["identity"] for one in settings.stores.values()}


def pseudonyms(settings: ControllerSettings, tenant: str, users: Sequence[str]) -> tuple[dict[str, str], int | None]:
    """Each user's pseudonym, and how long the tenant's conversations are kept (seconds; None: no end), as the
    controller's snapshot says."""
    from kvctl.connector.keys import Identity
    from kvctl.connector.pseudonym import pseudonym
    from kvctl.connector.snapshotfile import read_snapshot
    from kvctl.types.errors import UsageError

    site = Identity.load(settings.directory / "site.key").public
    snapshot = read_snapshot(settings.directory / "snapshot.json", [site], now=time.time())
    for view in snapshot.tenants:
        if view.name == tenant:
            people = {user: pseudonym(view.subject_key, user).hex() for user in users}
            return people, view.retention.get(CLASS)
    raise UsageError("KV-LAB-041", f"there is no tenant {tenant}", fix=f"kvctl tenant create {tenant} ...")
