"""What runs as a unit for the nvme role: format, mkfs and sanitize. Each drive is found by its serial at every step."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List

from . import kvctl_nvme, kvctl_nvme_sanitize, kvctl_nvme_state
from .kvctl_command import execute
from .kvctl_job import Report
from .kvctl_refused import Refused

ENTRY = "kvctl_nvme_job"
FORMAT_SECONDS = 7200.0


def work(payload: Dict[str, Any], report: Report) -> Dict[str, Any]:
    if payload.get("sanitize"):
        return kvctl_nvme_sanitize.work(payload, report)
    # Every refusal comes before the first byte is destroyed.
    plans = [kvctl_nvme.plan(wanted, kvctl_nvme_state.read(wanted["serial"])) for wanted in payload["drives"]]
    changed: List[str] = []
    for wanted, plan in zip(payload["drives"], plans):
        if plan.destroys:
            prepare(wanted, report)
            changed.append(wanted["serial"])
    return {"changed": bool(changed), "detail": "prepared %s" % (", ".join(changed) or "nothing")}


def prepare(wanted: Dict[str, Any], report: Report) -> None:
    """Format and make the file system of one drive, each decided on what the drive is at that moment."""
    serial = wanted["serial"]
    drive = kvctl_nvme_state.read(serial)
    plan = kvctl_nvme.plan(wanted, drive)
    if plan.lbaf is not None:
        report(detail="formatting %s to %d bytes" % (serial, wanted["lba"]), changed=True)
        execute([kvctl_nvme.format_command(drive, plan.lbaf)], "KV-NVME-020", FORMAT_SECONDS)
        until("drive %s has LBAs of %d bytes" % (serial, wanted["lba"]), lambda: lba(serial) == wanted["lba"])
        drive = kvctl_nvme_state.read(serial)
        plan = kvctl_nvme.plan(wanted, drive)
    if plan.mkfs:
        report(detail="making %s on %s" % (wanted["layout"], serial), changed=True)
        execute(kvctl_nvme.mkfs_commands(wanted, drive), "KV-NVME-021", FORMAT_SECONDS)


def lba(serial: str) -> int:
    try:
        return kvctl_nvme_state.lba_size(kvctl_nvme_state.find(serial)[1])
    except Refused:
        return 0  # the kernel takes a namespace away for a moment while it revalidates it


def until(what: str, holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise Refused("KV-NVME-022", "after %g s it is not so that %s" % (seconds, what), "see the kernel log")
        time.sleep(0.1)


def verb(words: List[str]) -> int:
    return 2
