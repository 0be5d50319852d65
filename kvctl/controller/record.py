"""Events of the fleet plane in the control log: from another process of this site, and from the controller itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvctl.controller import told
from kvctl.controller.acts import take_up
from kvctl.types.errors import KvctlError, RefusedError
from kvctl.types.events import Event
from kvctl.types.principals import SYSTEM, Principal
from kvctl.types.requests import EventRecord

if TYPE_CHECKING:
    from kvctl.controller.core import Controller, Service

log = logging.getLogger(__name__)


def record(ctl: Controller, who: Principal, p: EventRecord) -> dict[str, Any]:
    """An act of a command of this site, as it tells it: under the caller's name, with `told` in its data: whether this
    state's own files show it.

    UsageError KV-AUD-005 for what no command tells; RefusedError KV-CTL-073 when it is of another site, 075 when the
    controller knows better: that is on record.
    """
    told.check_form(p)
    if p.site is not None and p.site != ctl.site:
        raise RefusedError(
            "KV-CTL-073", f"this controller is of the site {ctl.site}", why=f"the event is of {p.site}",
            fix="name the controller of that site: --controller, KVCTL_CONTROLLER",
        )  # fmt: skip
    try:
        data = {**p.data, "told": told.seen(ctl, p)}
    except RefusedError as refused:
        about = {"operation": "event.record", "code": refused.code, "kind": p.kind, "why": refused.what}
        ctl.refusals.record(who, about)
        raise
    (done,) = ctl.books.commit(who, [Event(p.kind, data, outcome=p.outcome)])
    return {"schema": "kvctl.event.record/1", "index": done.index, "told": data["told"]}


class OwnLedger:
    """The control log for the controller's own process."""

    def __init__(self, ctl: Controller, who: Principal = SYSTEM) -> None:
        self._ctl, self._who = ctl, who

    def record(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> None:
        self._ctl.books.commit(self._who, [Event(kind, data, outcome=outcome)])

    def note(self, kind: str, data: Mapping[str, Any], outcome: str = "ok") -> bool:
        try:
            self.record(kind, data, outcome)
        except KvctlError as error:
            log.warning("not on record: %s: %s %s", kind, error.code, error.what)
            return False
        return True


def take_up_acts(ctl: Controller) -> int:
    """Record how changes ended whose command did not get to it."""
    return take_up(ctl.directory, OwnLedger(ctl))


SERVICES: dict[str, Service] = {"event.record": record}
