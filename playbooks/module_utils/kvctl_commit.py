"""Commit-confirm: a change to the network that goes away unless a new connection confirms it.

The timer that reverts is armed before the change. Nothing that outlives a boot is written before the confirm, so a
node that restarts in between comes up as it was: runtime settings are gone, and the boot unit has the old class.
/var/lib/kvctl/pending/RUN-STEP.json: {"state": "armed"|"applied"|"confirmed"|"reverted"|"failed", "boot_id", ...}
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional

from .kvctl_command import Command, execute, run
from .kvctl_files import locked, read_json, write_json
from .kvctl_job import JOBS, Report
from .kvctl_refused import Refused
from .kvctl_systemd import boot_id, start_transient

PENDING = "/var/lib/kvctl/pending"
DECIDED = ("confirmed", "reverted", "failed")


def path_of(key: str) -> str:
    return "%s/%s.json" % (PENDING, key)


def lock_of(key: str) -> str:
    return "%s/%s.lock" % (PENDING, key)


def pending(key: str) -> Optional[Dict[str, Any]]:
    """The record of a change; one from an earlier boot counts as reverted by the restart."""
    record = read_json(path_of(key))
    if record is not None and record["state"] not in DECIDED and record["boot_id"] != boot_id():
        record["state"] = "reverted"
    return record


def settle(key: str, record: Dict[str, Any], state: str) -> None:
    record["state"] = state
    write_json(path_of(key), record)


def arm(
    key: str, back: List[Command], interfaces: List[Dict[str, Any]], before: Dict[str, Any], seconds: float
) -> None:
    """Save how to put the old state back, then start the timer that does it."""
    record = {
        "state": "armed", "boot_id": boot_id(), "seconds": seconds,
        "back": back, "before": before, "interfaces": interfaces,
    }  # fmt: skip
    write_json(path_of(key), record)
    words = ["/usr/bin/python3", "%s/%s/worker.pyz" % (JOBS, key), "revert", key]
    start_transient("kvctl-revert-" + key, words, "kvctl revert of " + key, after=seconds)


def disarm(key: str) -> None:
    run(["systemctl", "stop", "kvctl-revert-%s.timer" % key])


def change(key: str, forward: List[Command], check: Callable[[], None], seconds: float, report: Report) -> str:
    """Carry out `forward` (after `arm`), `check` it, and wait for the verdict: "confirmed" or "reverted".

    A command that fails, or a check that raises Refused, puts everything back at once.
    """
    with locked(lock_of(key), wait=30):
        record = read_json(path_of(key))
        if record is None or record["state"] != "armed":
            raise Refused("KV-NET-022", "the change %s is not armed any more" % key, "run the step again")
        try:
            execute(forward, "KV-ROCE-020")
            check()
        except Refused:
            put_back(key, record, "failed")
            raise
        settle(key, record, "applied")
    report(phase="applied", changed=True)
    deadline = time.monotonic() + seconds + 30  # the timer decides; this only bounds a wait on a timer that was killed
    while time.monotonic() < deadline:
        record = read_json(path_of(key))
        if record is not None and record["state"] in DECIDED:
            return str(record["state"])
        time.sleep(0.1)
    revert(key)
    return "reverted"


def put_back(key: str, record: Dict[str, Any], state: str) -> None:
    """Undo, going on after a command that fails, so that one refusal does not leave the rest half-set."""
    problems = []
    for command in record["back"]:
        try:
            execute([command], "KV-NET-023")
        except Refused as refused:
            problems.append(refused.what)
    record["problems"] = problems
    settle(key, record, state)


def revert(key: str) -> List[Dict[str, Any]]:
    """What the timer runs: undo an unconfirmed change; returns its interfaces when it did. Safe to call at any time."""
    with locked(lock_of(key), wait=120):
        record = pending(key)
        if record is None or record["state"] in DECIDED:
            return []
        put_back(key, record, "reverted")
    return list(record["interfaces"])


def confirm(key: str) -> List[Dict[str, Any]]:
    """Keep the change; returns its interfaces, to be owned. KV-NET-020 when it has been put back already."""
    with locked(lock_of(key), wait=60):
        record = pending(key)
        if record is None:
            raise Refused("KV-NET-021", "there is no pending change %s" % key, "run the step again")
        if record["state"] in ("reverted", "failed"):
            raise cut(key)
        if record["state"] != "confirmed":
            settle(key, record, "confirmed")
    disarm(key)
    interfaces: List[Dict[str, Any]] = record["interfaces"]
    return interfaces


def cut(key: str) -> Refused:
    return Refused(
        "KV-NET-020",
        "the change would have cut the SSH path: no new connection confirmed %s in time, and it has been put back"
        % key,
        "check the path from the controller with the new settings (MTU, class) before running it again",
    )
