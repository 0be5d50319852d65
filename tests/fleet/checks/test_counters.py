"""Losses and pauses between two readings. A counter that is not there is not a zero."""

import pytest

from kvctl.types.facts import unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f

COUNTERS = f.nic(3).counters.value or {}
ERRORS = f.rdma(3).hw_counters.value or {}


def run(counters=None, errors=None, before=None):
    facts, earlier = f.later(f.clean()), f.clean()
    if counters is not None:
        facts = f.with_fact(facts, "storage2", "nic.counters", counters)
    if errors is not None:
        facts = f.with_fact(facts, "storage2", "nic.rdma.hw_counters", errors)
    if before is not None:
        earlier = f.with_fact(earlier, "storage2", "nic.counters", before)
    return f.run(facts=facts, previous=earlier)


def test_nothing_moved():
    finding = f.of(run(), "cnt.lossless")
    assert (finding.verdict, finding.observed) == (Verdict.PASS, "5 counters did not move")


@pytest.mark.parametrize("name", ["rx_prio3_discards", "rx_discards_phy"])
def test_discards(name):
    finding = f.of(run({**COUNTERS, name: COUNTERS[name] + 5}), "cnt.lossless")
    assert (finding.verdict, finding.observed, finding.severity) == (Verdict.FAIL, f"{name} +5", Severity.CRITICAL)


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_transport_errors(name):
    finding = f.of(run(errors={**ERRORS, name: ERRORS[name] + 1}), "cnt.lossless")
    assert (finding.verdict, finding.observed) == (Verdict.FAIL, f"{name} +1")


def test_a_loss_fails_though_the_other_half_is_unknown():
    facts = f.with_fact(f.later(f.clean()), "storage2", "nic.counters", {**COUNTERS, "rx_prio3_discards": 1})
    facts = f.with_fact(facts, "storage2", "nic.rdma.hw_counters", unknown("no such directory"))
    assert f.verdict(f.run(facts=facts, previous=f.clean()), "cnt.lossless") is Verdict.FAIL


@pytest.mark.parametrize(
    "counters",
    [
        {},
        {"rx_packets": 5},
        {n: v for n, v in COUNTERS.items() if n != "rx_prio3_discards"},
        {**COUNTERS, "rx_discards_phy": 0},
    ],
    ids=["empty", "other names", "one vanished", "one went down"],
)
def test_what_is_missing_or_reset_is_unknown(counters):
    assert f.verdict(run(counters), "cnt.lossless") is Verdict.UNKNOWN


def test_the_priority_is_the_sites():
    grown = {**COUNTERS, "rx_prio5_discards": 9}
    findings = run(grown, before={**COUNTERS, "rx_prio5_discards": 0})
    assert f.verdict(findings, "cnt.lossless") is Verdict.PASS


def test_a_loss_behind_a_broken_class_follows_from_it():
    facts = f.with_fact(f.later(f.clean()), "storage2", "nic.counters", {**COUNTERS, "rx_prio3_discards": 1})
    facts = f.with_fact(facts, "storage2", "nic.qos.pfc", frozenset())
    findings = f.run(facts=facts, previous=f.clean())
    assert f.bad(findings) == {("qos.pfc.host", "storage2")}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"rx_prio3_pause": 5000, "rx_prio3_pause_duration": 29_000_000}, Verdict.PASS),
        ({"rx_prio3_pause": 5000, "rx_prio3_pause_duration": 31_000_000}, Verdict.FAIL),
        ({"tx_prio3_pause": 5000, "tx_prio3_pause_duration": 31_000_000}, Verdict.FAIL),
        ({"tx_pause_storm_error_events": 1}, Verdict.FAIL),
        ({"rx_prio3_pause": 1}, Verdict.UNKNOWN),
    ],
)
def test_pauses_are_judged_by_their_duration(changes, verdict):
    """Of 600 s between the readings, 5 % are 30 s."""
    assert f.verdict(run({**COUNTERS, **changes}), "cnt.pause") is verdict


def test_what_is_unknown_is_a_warning():
    """Few drivers show every counter: a fleet of others must not fail for it."""
    findings = run({"rx_packets": 1}, before={"rx_packets": 1})
    assert f.of(findings, "cnt.lossless").severity is Severity.WARNING
    assert f.bad(findings) == set()


def test_a_driver_without_pause_counters_is_unknown():
    assert f.verdict(run({"rx_packets": 1}, before={"rx_packets": 1}), "cnt.pause") is Verdict.UNKNOWN
