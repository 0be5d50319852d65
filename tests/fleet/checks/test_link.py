"""Links: state, speed, flaps."""

from dataclasses import replace

import pytest

from kvctl.types.facts import unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f


def changed(path, value, node="storage2"):
    return f.with_fact(f.clean(), node, path, value)


@pytest.mark.parametrize(
    ("path", "value", "verdict"),
    [
        ("nic.operstate", "down", Verdict.FAIL),
        ("nic.operstate", "lowerlayerdown", Verdict.FAIL),
        ("nic.operstate", "unknown", Verdict.PASS),
        ("nic.carrier", False, Verdict.FAIL),
        ("nic.rdma.state", "INIT", Verdict.FAIL),
        ("nic.rdma.phys_state", "Polling", Verdict.FAIL),
        ("nic.rdma.state", unknown("no RDMA device"), Verdict.UNKNOWN),
    ],
)
def test_state(path, value, verdict):
    assert f.verdict(f.run(facts=changed(path, value)), "link.state") is verdict


def test_a_down_link_is_a_failure_though_its_carrier_is_not_readable():
    facts = f.with_fact(changed("nic.operstate", "down"), "storage2", "nic.carrier", unknown("EINVAL"))
    finding = f.of(f.run(facts=facts), "link.state")
    assert (finding.verdict, finding.observed) == (
        Verdict.FAIL, "operstate down, RDMA ACTIVE, physical LinkUp",
    )  # fmt: skip


def stated(gpu: int | None, storage: int | None):
    inv = f.inventory()
    for name, speed in (("gpu", gpu), ("storage", storage)):
        rails = tuple(r.model_copy(update={"speed": speed}) for r in inv.roles[name].rails)
        inv = f.role(inv, name, rails=rails)
    return inv


def test_without_a_stated_speed_only_the_comparison_is_left():
    findings = f.run(stated(None, None), changed("nic.speed", 100000))
    assert f.verdict(findings, "link.speed") is Verdict.NOT_APPLICABLE
    assert f.bad(findings) == {("link.speed.peer", "storage2")}


def test_speeds_that_differ_on_purpose_are_no_difference():
    inv, facts = stated(400000, 200000), changed("nic.speed", 400000, "gpu1")
    assert f.bad(f.run(inv, facts)) == set()
    findings = f.run(inv, f.with_fact(facts, "storage3", "nic.speed", 100000))
    assert f.bad(findings) == {("link.speed", "storage3")}


@pytest.mark.parametrize(
    ("changes", "verdict", "severity"),
    [(2, "pass", "warning"), (4, "fail", "warning"), (7, "fail", "critical"), (1, "unknown", "warning")],
)
def test_flaps_are_growth(changes, verdict, severity):
    facts = f.with_fact(f.later(f.clean()), "storage2", "nic.carrier_changes", changes)
    finding = f.of(f.run(facts=facts, previous=f.clean()), "link.flaps")
    assert (finding.verdict, finding.severity) == (Verdict(verdict), Severity(severity))


def test_one_reading_shows_no_flaps():
    finding = f.of(f.run(facts=changed("nic.carrier_changes", 1252)), "link.flaps")
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "needs two readings" in finding.why


def test_a_port_that_is_new_since_the_last_reading_is_unknown():
    before = {**f.clean(), "storage2": replace(f.clean()["storage2"], nics=())}
    assert f.verdict(f.run(facts=f.later(f.clean()), previous=before), "link.flaps") is Verdict.UNKNOWN
