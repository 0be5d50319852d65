"""What the tables do not take is not in the log, from which they are made again."""

import pytest

from kvctl.types.errors import UsageError
from kvctl.types.events import Event
from kvctl.types.requests import (
    AuditVerify,
    EventRecord,
    HoldSet,
    ResidencyHistory,
    RetentionPlan,
    TenantCreate,
    TenantQuota,
    TenantScope,
)
from tests.controller import people


@pytest.fixture
def ctl(tmp_path):
    with people.controller(tmp_path) as made:
        made.call("tenant.create", people.OPERATOR, TenantCreate("acme", "Acme SAS", "FR"))
        yield made


def refused(ctl, name, request):
    size = ctl.books.log.size
    with pytest.raises(UsageError) as error:
        ctl.call(name, people.OPERATOR, request)
    assert ctl.books.log.size == size
    return error.value.code


@pytest.mark.parametrize("value", [2**31, 2**53 + 1, 2**63, 10**30, 0, -1])
def test_a_limit_that_no_column_holds(ctl, value):
    assert refused(ctl, "tenant.quota", TenantQuota("acme", max_concurrent=value)) == "KV-TEN-002"
    assert refused(ctl, "tenant.create", TenantCreate("bob", "Bob", "FR", max_concurrent=value)) == "KV-TEN-002"
    ctl.call("tenant.quota", people.OPERATOR, TenantQuota("acme", max_concurrent=2**31 - 1))


@pytest.mark.parametrize(
    "data",
    [{"x": float("nan")}, {"x": [float("-inf")]}, {"x": "\ud800"}],
    ids=["nan", "infinity", "half a pair"],
)
def test_what_no_reader_of_the_log_takes(ctl, data):
    assert refused(ctl, "event.record", EventRecord("fleet.checked", data)) == "KV-CTL-076"
    assert ctl.call("audit.verify", people.OPERATOR, AuditVerify())["sound"]


def test_events_that_a_table_refuses_are_in_neither(ctl):
    size = ctl.books.log.size
    limits = dict.fromkeys(("quota_bytes", "requests_per_minute", "tokens_per_day", "max_concurrent"), 2**40)
    with pytest.raises(UsageError, match="KV-CTL-076"):
        ctl.books.commit(
            people.OPERATOR,
            [Event("tenant.suspended", {}, "acme"), Event("tenant.quota-changed", limits, "acme")],
        )
    assert ctl.books.log.size == ctl.books.state.applied() == size
    (row,) = ctl.call("tenant.ls", people.OPERATOR, TenantScope())["tenants"]
    assert row["state"] == "active"


def test_a_log_that_cannot_be_written_leaves_the_tables_as_they_were(ctl, monkeypatch):
    def full(entries):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ctl.books.log, "append", full)
        with pytest.raises(OSError, match="No space"):
            ctl.call("tenant.create", people.OPERATOR, TenantCreate("bob", "Bob", "FR"))
    assert len(ctl.call("tenant.ls", people.OPERATOR, TenantScope())["tenants"]) == 1
    ctl.call("tenant.create", people.OPERATOR, TenantCreate("bob", "Bob", "FR"))


def test_times_and_limits_that_cannot_be(ctl):
    early = "0001-01-01T00:00:00+05:00"
    assert refused(ctl, "residency.history", ResidencyHistory("acme", early)) == "KV-POL-005"
    assert refused(ctl, "hold.set", HoldSet("acme", "case 1", until=early)) == "KV-RET-003"
    assert refused(ctl, "retention.plan", RetentionPlan(limit=-1)) == "KV-RET-010"
