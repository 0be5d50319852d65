"""The controller's own state: how it stands, and backups of it."""

from __future__ import annotations

import os
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvctl import __version__
from kvctl.controller import backup as archive
from kvctl.controller.residency import of_verdict
from kvctl.govern.policy import of_rows
from kvctl.govern.residency import decide_at
from kvctl.state import policies
from kvctl.state.audit import events
from kvctl.state.governance import rows
from kvctl.types.errors import RefusedError, UsageError
from kvctl.types.events import Event
from kvctl.types.principals import Principal
from kvctl.types.requests import BackupMake, Nothing

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

STARTED = time.monotonic()  # of this process, nearly enough
MAX_DAYS = 3650


def status(ctl: Controller, who: Principal, p: Nothing) -> dict[str, Any]:
    """Process, log and when it was last verified, tables, jobs, who ships to it, disk. What is not known is null."""
    disk = os.statvfs(ctl.directory)
    with ctl.books.state.reading() as db:
        verified = events(db, kind="audit.verified", limit=1)
        sources = rows(db, "SELECT source, state, seen_at, sent, stored, why FROM sources ORDER BY source")
    trouble, data, settings = ctl.books.log.trouble, ctl.books.data, ctl.settings_trouble
    return {
        "schema": "kvctl.controller.status/1", "site": ctl.site, "version": __version__,
        "pid": os.getpid(), "daemon": ctl.schedule is not None,
        "uptime_seconds": round(time.monotonic() - STARTED, 1) if ctl.schedule else None,
        "state": str(ctl.directory), "log_size": ctl.books.log.size, "applied": ctl.books.state.applied(),
        "verified": {name: verified[0][name] for name in ("idx", "ts", "actor", "outcome")} if verified else None,
        "log_trouble": trouble.as_dict() if trouble else None,
        "settings_trouble": settings.as_dict() if settings else None,
        "data_log": {"refused": data.refused, "trouble": data.trouble.as_dict() if data.trouble else None},
        "jobs": ctl.schedule.rows() if ctl.schedule else [],
        "stores": sorted(ctl.settings.stores), "gateways": sorted(ctl.settings.gateways), "sources": sources,
        "free_bytes": disk.f_bavail * disk.f_frsize, "disk_bytes": disk.f_blocks * disk.f_frsize,
    }  # fmt: skip


def backup(ctl: Controller, who: Principal, p: BackupMake) -> dict[str, Any]:
    """Write a backup. Its file is of the caller's choice only for who works on this very machine."""
    name = f"b-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    target = where(ctl, who, p, name)
    if not 1 <= p.days <= MAX_DAYS:
        raise UsageError("KV-CTL-055", "a backup has an end", why=f"1 to {MAX_DAYS} days", fix="give --days")
    site = p.site or ctl.site
    about = {"backup": name, "label": p.label, "kept_at": site, "expires_at": archive.days_from_now(p.days)}
    if p.dry_run:
        events = decisions(ctl, "backup", site, name)
        refused = [e.data["rule"] for e in events if e.outcome != "ok"]
        would = {**about, "file": str(target), "tenants": len(events), "refused_by": refused}
        return {"schema": "kvctl.controller.backup/1", "would": would}

    def decide() -> None:
        """For the tenants that are in the archive, no more and no fewer: nothing changes before it has its keys."""
        events = decisions(ctl, "backup", site, name)
        ctl.books.commit(who, events)
        refuse(events, site)

    made = archive.write(ctl, target, about, decide)
    found = {**about, "file": str(target), "size": made["size"], "sha256": archive.digest(target)["sha256"]}
    ctl.books.commit(who, [Event("backup.created", found)])
    return {
        "schema": "kvctl.controller.backup/1", **found, "bytes": target.stat().st_size, "files": len(made["files"]),
    }  # fmt: skip


def refuse(events: list[Event], site: str) -> None:
    refused = [event.data["rule"] for event in events if event.outcome != "ok"]
    if refused:
        raise RefusedError(
            "KV-CTL-056", "residency refuses this backup", where=site, why="; ".join(refused[:3]),
            fix="keep it at a site that every tenant's policy allows: --site NAME",
        )  # fmt: skip


def where(ctl: Controller, who: Principal, p: BackupMake, name: str) -> Path:
    if p.file is None:
        (ctl.directory / "backups").mkdir(exist_ok=True, mode=0o700)
        return ctl.directory / "backups" / f"{name}.kvbackup"
    if not who.name.startswith("unix:"):
        raise RefusedError(
            "KV-CTL-057", "a backup's file is named on the controller's own machine", why=f"{who.name} is elsewhere",
            fix="leave the file out: it is written below the controller's state",
        )  # fmt: skip
    target = Path(p.file)
    if not target.is_absolute() or not target.parent.is_dir():
        raise UsageError("KV-CTL-051", "the backup cannot be written", where=p.file, why="its directory is not there")
    return target


def decisions(ctl: Controller, action: str, site: str, ref: str) -> list[Event]:
    """For each tenant whose records and keys are in the archive: may they be at that site? Nothing is recorded yet."""
    with ctl.books.deciding() as db:
        tenants = [str(r["tenant"]) for r in rows(db, "SELECT tenant FROM tenants WHERE state <> 'offboarded'")]
        policy, bound = of_rows(policies.in_force(db)), policies.versions(db)
    found = []
    for tenant in tenants:
        verdict = decide_at(policy, tenant, site, home=ctl.settings.country, version=bound.get(tenant))
        event = of_verdict(action, tenant, verdict, ref).event
        found.append(at_home(event, bound=tenant in bound) if site == ctl.site else event)
    return found


def at_home(event: Event, *, bound: bool) -> Event:
    """What is at the controller's own site may stay there, unless the tenant's policy speaks of that very site."""
    if event.outcome == "ok" or (bound and event.data["site"] is not None):
        return event
    why = "the policy declares no such site" if bound else "no residency policy"
    rule = f"{why}: the archive stays at the controller's own site"
    return Event(event.kind, {**event.data, "verdict": "allow", "rule": rule}, event.tenant)


SERVICES: dict[str, Service] = {"controller.backup": backup, "controller.status": status}
