"""Marked transfers: on the class, and fast enough."""

from dataclasses import replace

import pytest

from kvctl.types.facts import known, unknown
from kvctl.types.findings import Verdict

from . import fleet as f

CHECKS = ("cnt.class", "probe.bw")


def with_probe(**changes):
    """The probe that storage2 sends, changed."""
    return tuple(replace(p, **changes) if p.node == "storage2" else p for p in f.probes())


@pytest.mark.parametrize("check", CHECKS)
def test_nothing_asked_is_not_applicable(check):
    finding = f.of(f.run(), check)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "--probe" in finding.why


@pytest.mark.parametrize("check", CHECKS)
def test_a_probe_that_did_not_run_on_a_port_is_unknown(check):
    findings = f.run(probes=f.probes()[:2])
    assert f.verdict(findings, check, "storage1") is Verdict.PASS
    assert f.verdict(findings, check, "storage3") is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("gbits", "verdict"), [(200.0, Verdict.PASS), (180.0, Verdict.PASS), (179.9, Verdict.FAIL), (13.0, Verdict.FAIL)]
)
def test_bandwidth(gbits, verdict):
    assert f.verdict(f.run(probes=with_probe(gbits=known(gbits, "ib_write_bw"))), "probe.bw") is verdict


@pytest.mark.parametrize(
    ("sent", "received", "verdict"),
    [
        ({0: 20, 3: 1000}, {0: 20, 3: 1000}, Verdict.PASS),
        ({3: 1000}, {0: 1000, 3: 0}, Verdict.FAIL),
        ({0: 1000, 3: 0}, {0: 1000, 3: 0}, Verdict.FAIL),
        ({0: 1000}, {3: 1000}, Verdict.UNKNOWN),
    ],
)
def test_class_at_both_ends(sent, received, verdict):
    findings = f.run(probes=with_probe(sent=known(sent, "ethtool"), received=known(received, "ethtool")))
    assert f.verdict(findings, "cnt.class") is verdict


def test_a_probe_that_moved_nothing_proves_nothing():
    assert f.verdict(f.run(probes=with_probe(volume=0)), "cnt.class") is Verdict.UNKNOWN


def test_unread_results_are_unknown():
    findings = f.run(probes=with_probe(gbits=unknown("ib_write_bw timed out"), sent=unknown("no counters")))
    assert {f.verdict(findings, c) for c in CHECKS} == {Verdict.UNKNOWN}


def test_a_slow_probe_on_half_the_lanes_follows_from_the_lanes():
    facts = f.with_fact(f.clean(), "storage2", "nic.pcie.current_width", 4)
    findings = f.run(facts=facts, probes=with_probe(gbits=known(50.0, "ib_write_bw")))
    assert f.bad(findings) == {("pcie.width", "storage2")}
