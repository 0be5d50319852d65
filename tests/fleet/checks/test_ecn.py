"""DCQCN is a site's policy; where the driver does not show it, that is a warning."""

import pytest

from kvctl.types.facts import unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f

ON, OFF = dict.fromkeys(range(8), True), dict.fromkeys(range(8), False)


@pytest.mark.parametrize("check", ["ecn.np", "ecn.rp"])
@pytest.mark.parametrize(
    ("policy", "table", "verdict"),
    [
        ("dcqcn", ON, Verdict.PASS),
        ("dcqcn", OFF, Verdict.FAIL),
        ("dcqcn", {**OFF, 3: True}, Verdict.PASS),
        ("off", ON, Verdict.FAIL),
        ("off", OFF, Verdict.PASS),
        ("any", OFF, Verdict.NOT_APPLICABLE),
        ("dcqcn", {0: True}, Verdict.UNKNOWN),
    ],
)
def test_policy(check, policy, table, verdict):
    facts = f.with_fact(f.clean(), "storage2", f"nic.{check}", table)
    assert f.verdict(f.run(f.fabric(f.inventory(), ecn=policy), facts), check) is verdict


def test_an_inbox_driver_shows_nothing_and_that_is_a_warning():
    facts = f.clean()
    for name in ("np", "rp", "cnp_dscp", "cnp_prio"):
        facts = f.with_fact(facts, "storage2", f"nic.ecn.{name}", unknown("no such file: inbox driver"))
    findings = f.run(facts=facts)
    for check in ("ecn.np", "ecn.rp", "ecn.cnp"):
        finding = f.of(findings, check)
        assert (finding.verdict, finding.severity) == (Verdict.UNKNOWN, Severity.WARNING)
    assert f.bad(findings) == set()


def test_a_driver_that_shows_one_half_must_show_the_other():
    facts = f.with_fact(f.clean(), "storage2", "nic.ecn.rp", unknown("permission denied"))
    finding = f.of(f.run(facts=facts), "ecn.rp")
    assert (finding.verdict, finding.severity) == (Verdict.UNKNOWN, Severity.CRITICAL)


def test_cnp_marking_is_the_sites():
    facts = f.with_fact(f.clean(), "storage2", "nic.ecn.cnp_dscp", 46)
    finding = f.of(f.run(facts=facts), "ecn.cnp")
    assert (finding.verdict, finding.observed) == (Verdict.FAIL, "DSCP 46, priority 6")
    assert f.verdict(f.run(f.fabric(f.inventory(), cnp_dscp=46), facts), "ecn.cnp") is Verdict.PASS
