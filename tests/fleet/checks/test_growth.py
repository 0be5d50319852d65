"""Pairs of readings: growth, resets, reboots, time."""

import pytest

from kvctl.fleet.checks.growth import elapsed, grown
from kvctl.fleet.checks.outcome import Outcome
from kvctl.types.facts import known, unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f

PAIRED = ("cnt.lossless", "cnt.pause", "link.flaps")


def test_growth():
    assert grown(known(3, "a"), known(10, "a")) == 7
    assert grown(known(3, "a"), known(3, "a")) == 0


@pytest.mark.parametrize(
    ("before", "now"), [(known(9, "a"), known(3, "a")), (unknown("x"), known(3, "a")), (known(3, "a"), unknown("x"))]
)
def test_no_growth_can_be_told(before, now):
    outcome = grown(before, now)
    assert isinstance(outcome, Outcome)
    assert outcome.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        ("2026-01-15T10:00:00Z", "2026-01-15T10:10:00Z", 600.0),
        ("2026-01-15T10:00:00+01:00", "2026-01-15T10:00:00Z", 3600.0),
        ("2026-01-15T10:10:00Z", "2026-01-15T10:00:00Z", None),
        ("2026-01-15T10:00:00Z", "2026-01-15T10:00:00Z", None),
        ("2026-01-15T10:00:00", "2026-01-15T10:00:00Z", None),
        ("yesterday", "2026-01-15T10:00:00Z", None),
    ],
)
def test_elapsed(before, after, seconds):
    assert elapsed(before, after) == seconds


@pytest.mark.parametrize("check", PAIRED)
def test_one_reading_is_not_enough(check):
    finding = f.of(f.run(), check)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert finding.why.startswith("needs two readings")


@pytest.mark.parametrize("check", PAIRED)
def test_a_boot_between_the_readings_voids_them(check):
    facts = f.with_fact(f.later(f.clean()), "storage2", "host.boot_id", "another")
    finding = f.of(f.run(facts=facts, previous=f.clean()), check)
    assert (finding.verdict, finding.severity) == (Verdict.UNKNOWN, Severity.WARNING)
    assert "booted" in finding.why


@pytest.mark.parametrize("check", PAIRED)
def test_a_reading_is_not_compared_with_itself(check):
    """A node that was not read again has not stood still: nobody looked."""
    finding = f.of(f.run(facts=f.clean(), previous=f.clean()), check)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "not read again since 2026-01-15T10:00:00Z" in finding.why
