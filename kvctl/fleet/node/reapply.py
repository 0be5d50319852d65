"""The owned class: is it there, and putting it back, with the code of the roce role."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kvctl.fleet.node import roles


@dataclass(frozen=True)
class Outcome:
    """What one look at an interface gave.

    "ok", "reapplied", "drifted" (it differs and was left so), "busy" (a change is under way) or "failed".
    """

    netdev: str
    state: str
    drift: str = ""  # what had differed
    why: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.state in ("ok", "reapplied")


def owned() -> dict[str, Any]:
    """The owned interfaces by netdev, from class.json."""
    return dict(roles.load("kvctl_class").owned())


def look(netdev: str) -> Outcome:
    """Compare one interface with its owned class; changes nothing."""
    classes, files, refused = roles.load("kvctl_class"), roles.load("kvctl_files"), roles.load("kvctl_refused")
    begun = time.monotonic()
    try:
        have = classes.owned()
        if netdev not in have:
            return Outcome(netdev, "failed", why="not owned any more")
        with files.locked(files.CHANGE_LOCK):  # half of a change under way is not drift
            drift = describe(classes.plan(have[netdev]).diff)
    except refused.Refused as error:
        state = "busy" if error.code == "KV-LOCK-001" else "failed"
        return Outcome(netdev, state, why=str(error), seconds=time.monotonic() - begun)
    state, why = ("drifted", "it differs from its owned class; kvctl check says how") if drift else ("ok", "")
    return Outcome(netdev, state, drift, why, time.monotonic() - begun)


def ensure(netdev: str) -> Outcome:
    """Put the owned class of one interface back and look again. Nothing that class.json does not name is touched."""
    classes, files, refused = roles.load("kvctl_class"), roles.load("kvctl_files"), roles.load("kvctl_refused")
    begun = time.monotonic()
    drift = ""
    try:
        have = classes.owned()
        if netdev not in have:
            return Outcome(netdev, "failed", why="not owned any more")
        planned = classes.plan(have[netdev])
        if not planned.diff:
            return Outcome(netdev, "ok", seconds=time.monotonic() - begun)
        with files.locked(files.CHANGE_LOCK):
            planned = classes.plan(have[netdev])  # what was seen before the lock may have been a change under way
            drift = describe(planned.diff)
            if drift:
                classes.carry_out([planned])
        left = classes.plan(have[netdev]).diff
    except refused.Refused as error:
        state = "busy" if error.code == "KV-LOCK-001" else "failed"
        return Outcome(netdev, state, drift, str(error), time.monotonic() - begun)
    seconds = time.monotonic() - begun
    if left:
        return Outcome(netdev, "failed", drift, f"still differs: {describe(left)}", seconds)
    return Outcome(netdev, "reapplied" if drift else "ok", drift, "", seconds)


def describe(diff: Any) -> str:
    return "; ".join(f"{name} {diff.before[name]} -> {diff.after[name]}" for name in diff.after)
