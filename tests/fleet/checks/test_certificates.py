"""tls.ends: certificates that end within 30 days, and what renews each."""

from datetime import date, timedelta

import pytest

from kvctl.fleet.checks.certificates import REMEDIES
from kvctl.fleet.checks.readings import Certificate
from kvctl.fleet.checks.run import run_checks
from kvctl.types.findings import Severity, Verdict
from tests.fleet.checks.fleet import inventory

TODAY = date(2026, 3, 1)


def found(*certificates):
    made = run_checks(inventory(), {}, today=TODAY, certificates=certificates, only=("tls.ends",))
    return {(f.node, f.subject): f for f in made}


@pytest.mark.parametrize(
    ("days", "verdict", "severity", "bad"),
    [
        (31, Verdict.PASS, Severity.WARNING, False), (30, Verdict.FAIL, Severity.WARNING, True),
        (0, Verdict.FAIL, Severity.WARNING, True), (-1, Verdict.FAIL, Severity.CRITICAL, True),
    ],
)  # fmt: skip
def test_a_certificate_that_ends_within_30_days_is_a_finding(days, verdict, severity, bad):
    one = found(Certificate("gpu1-engine", "engine", "gpu1", TODAY + timedelta(days=days)))[
        "gpu1", "certificate gpu1-engine"
    ]
    assert (one.verdict, one.severity, one.bad) == (verdict, severity, bad)


@pytest.mark.parametrize("use", sorted(REMEDIES))
def test_each_says_what_renews_it(use):
    one = found(Certificate("x-1", use, "gpu1", TODAY))["gpu1", "certificate x-1"]
    assert "kvctl" in one.remedy.text
    assert "{" not in one.remedy.text


def test_one_that_cannot_be_read_is_unknown_and_none_is_not_a_pass():
    assert found(Certificate("ca", "ca", "", None, "ca.crt: no PEM"))["", "certificate ca"].verdict is Verdict.UNKNOWN
    assert [f.verdict for f in found().values()] == [Verdict.NOT_APPLICABLE]
