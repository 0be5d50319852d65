"""Waivers: by check, node and subject, until a day, with a reason."""

from datetime import date

import pytest

from kvctl.types.facts import unknown
from kvctl.types.findings import Verdict

from . import fleet as f


def waiver(**fields):
    return {"check": "net.mtu", "reason": "old switch until spring", "until": date(2026, 3, 1), **fields}


def findings(*waivers, **kwargs):
    facts = kwargs.pop("facts", None) or f.with_fact(f.clean(), "storage2", "nic.mtu", 1500)
    return f.run(f.inventory(waivers=waivers, **kwargs), facts)


def test_a_waived_failure_does_not_count_and_says_why():
    finding = f.of(findings(waiver()), "net.mtu")
    assert finding.verdict is Verdict.WAIVED
    assert not finding.bad
    assert finding.why == "fail waived until 2026-03-01: old switch until spring"


def test_what_follows_from_a_waived_failure_still_follows():
    assert f.verdict(findings(waiver()), "net.mtu.peer") is Verdict.FOLLOWS


def test_a_waiver_holds_through_its_last_day():
    assert f.verdict(findings(waiver(until=f.TODAY)), "net.mtu") is Verdict.WAIVED


def test_an_expired_waiver_waives_nothing_and_is_mentioned():
    finding = f.of(findings(waiver(until=date(2026, 1, 14))), "net.mtu")
    assert finding.verdict is Verdict.FAIL
    assert "ended on 2026-01-14: old switch until spring" in finding.why


def test_one_that_holds_wins_over_one_that_ended():
    both = (waiver(until=date(2025, 1, 1)), waiver())
    assert f.verdict(findings(*both), "net.mtu") is Verdict.WAIVED


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"node": "storage*"}, Verdict.WAIVED),
        ({"node": "gpu*"}, Verdict.FAIL),
        ({"subject": "enp65*"}, Verdict.WAIVED),
        ({"subject": "enp66*"}, Verdict.FAIL),
        ({"check": "net.*"}, Verdict.WAIVED),
        ({"check": "net.mtu.peer"}, Verdict.FAIL),
    ],
)
def test_scope(fields, verdict):
    assert f.verdict(findings(waiver(**fields)), "net.mtu") is verdict


def test_an_unknown_can_be_waived():
    facts = f.with_fact(f.clean(), "storage2", "nic.rdma.cm_tos", unknown("configfs is not mounted"))
    finding = f.of(findings(waiver(check="cm.tos"), facts=facts), "cm.tos")
    assert finding.verdict is Verdict.WAIVED
    assert "configfs is not mounted" in finding.why


def test_a_pass_is_not_waived():
    assert f.verdict(findings(waiver(check="*")), "qos.trust") is Verdict.PASS


def test_a_lab_host_in_production_cannot_be_waived():
    from dataclasses import replace

    facts = {**f.clean(), "storage2": replace(f.clean()["storage2"], lab=True)}
    finding = f.of(findings(waiver(check="host.lab"), facts=facts), "host.lab")
    assert finding.verdict is Verdict.FAIL
    assert "cannot be waived" in finding.why
