"""What runs as a unit for the roce role: the commit-confirmed change, its revert, and the class at boot."""

from __future__ import annotations

import sys
from typing import Any, Dict, List

from . import kvctl_class, kvctl_commit
from .kvctl_job import Report
from .kvctl_refused import Refused
from .kvctl_roce import Difference

ENTRY = "kvctl_roce_job"


def describe(planned: List[kvctl_class.Planned]) -> Difference:
    """Before and after by interface, for a diff."""
    before = {item.netdev: item.diff.before for item in planned if item.diff}
    after = {item.netdev: item.diff.after for item in planned if item.diff}
    return Difference(before, after)


def work(payload: Dict[str, Any], report: Report) -> Dict[str, Any]:
    """Apply the class of the payload's interfaces and wait for the confirm; every command is known before the first."""
    key, seconds = payload["key"], float(payload["confirm_timeout"])
    planned = [kvctl_class.plan(interface) for interface in payload["interfaces"]]
    if not any(item.diff for item in planned):
        return {"detail": "nothing to change", "changed": False}
    back = [command for item in reversed(planned) for command in kvctl_class.put_back(item)]
    forward = [command for item in planned for command in item.commands]
    before = {item.netdev: item.diff.before for item in planned}
    kvctl_commit.arm(key, back, payload["interfaces"], before, seconds)

    def check() -> None:
        left = describe([kvctl_class.plan(interface) for interface in payload["interfaces"]])
        if left:
            raise Refused("KV-ROCE-021", "the device did not take %s; all was put back" % left.after, "see its log")

    verdict = kvctl_commit.change(key, forward, check, seconds, report)
    if verdict == "reverted":
        cut = kvctl_commit.cut(key)
        return dict(cut.as_dict(), state="reverted", detail=str(cut), changed=True, phase="ended")
    # Still under the change lock: kvnoded must not put the old class back in between.
    kvctl_class.own(payload["interfaces"], ENTRY)
    return {"state": "done", "detail": "confirmed", "changed": True, "phase": "ended"}


def revert(key: str) -> None:
    """Put an unconfirmed change back. A class that cut the path is not kept at the next boot or by kvnoded either."""
    interfaces = kvctl_commit.revert(key)
    owned = kvctl_class.owned()
    kvctl_class.disown([item["netdev"] for item in interfaces if owned.get(item["netdev"]) == item])


def verb(words: List[str]) -> int:
    try:
        if words[:1] == ["revert"]:
            revert(words[1])
            return 0
        if words[:1] == ["class"]:
            planned = kvctl_class.reapply(words[1])
            print("%s: %s" % (words[1], planned.diff.after or "as it must be"))  # noqa: T201  the unit's journal
            return 0
    except Refused as refused:
        sys.stderr.write("%s\n" % refused)
        return 1
    sys.stderr.write("usage: work KEY | revert KEY | class INTERFACE\n")
    return 2
