"""A principal that is refused again and again is on record, and does not fill the log."""

import pytest

from kvctl.controller.refusals import EACH, WINDOW
from kvctl.types.errors import RefusedError
from kvctl.types.requests import TenantCreate
from tests.controller import people


@pytest.fixture
def ctl(tmp_path):
    with people.controller(tmp_path) as made:
        yield made


def refused(ctl, who, times):
    for _ in range(times):
        with pytest.raises(RefusedError):
            ctl.call("tenant.create", who, TenantCreate("evil", "Evil"))


def denied(ctl):
    return [(event.actor, event.data.get("more")) for event in ctl.books.recorded(0) if event.kind == "access.denied"]


def test_thousands_of_refusals_are_thirty_events_and_a_count(tmp_path):
    with people.controller(tmp_path) as ctl:
        refused(ctl, people.ACME_ADMIN, 2000)
        assert denied(ctl) == [("local:ann", None)] * EACH
        refused(ctl, people.AUDITOR, 1)  # one that goes on hides nobody else
        assert denied(ctl)[-1] == ("unix:olga", None)
    with people.controller(tmp_path) as ctl:
        assert denied(ctl)[-1] == ("local:ann", 2000 - EACH - 1)
        assert len(denied(ctl)) == EACH + 2


def test_the_count_is_put_on_record_when_its_minute_is_over(ctl, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(ctl.refusals, "_clock", lambda: now[0])
    refused(ctl, people.ACME_ADMIN, EACH + 3)
    ctl.refusals.settle()
    assert len(denied(ctl)) == EACH
    now[0] = WINDOW
    refused(ctl, people.ACME_ADMIN, 1)
    assert denied(ctl)[EACH:] == [("local:ann", 2), ("local:ann", None)]
