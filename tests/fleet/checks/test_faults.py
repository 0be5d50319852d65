"""A clean fleet has no finding; one planted fault has exactly one, at its cause."""

import pytest

from kvctl.fleet.checks.registry import specs
from kvctl.types.findings import Verdict

from . import faults, vendors
from . import fleet as f


def test_a_clean_fleet_has_nothing_to_report():
    findings = f.run()
    assert {x.verdict for x in findings} == {Verdict.PASS, Verdict.NOT_APPLICABLE}


def test_a_clean_fleet_read_twice_and_probed_has_nothing_to_report():
    findings = f.run(facts=f.later(f.clean()), previous=f.clean(), probes=f.probes(), switches=f.switches())
    assert {x.verdict for x in findings} == {Verdict.PASS, Verdict.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("inv", "facts"),
    [
        (vendors.e810_inventory(), vendors.e810()),
        (vendors.bnxt_inventory(), vendors.bnxt()),
        (faults.XFS, faults.xfs_facts()),
        (f.unpinned(f.inventory()), f.clean()),
    ],
    ids=["e810", "bnxt", "xfs", "unpinned"],
)
def test_other_clean_fleets_have_nothing_to_report(inv, facts):
    assert f.bad(f.run(inv, facts)) == set()


@pytest.mark.parametrize("fault", faults.ALL, ids=lambda fault: fault.name)
def test_one_fault_is_one_finding(fault):
    findings = f.run(fault.inv, fault.facts, **fault.kwargs)
    assert {check for check, _ in f.bad(findings)} == {fault.check}
    assert fault.node in {node for _, node in f.bad(findings)}
    worst = findings[0]
    assert worst.check == fault.check
    assert worst.bad
    for finding in findings:
        if finding.verdict is Verdict.FOLLOWS:
            assert fault.check in finding.why


@pytest.mark.parametrize(
    ("name", "followers"),
    [
        ("PFC off", {"qos.pfc.peer", "qos.buffer", "qos.class.peer"}),
        ("trust pcp", {"qos.dscpmap", "qos.class.peer"}),
        ("MTU 1500", {"net.mtu.rdma", "net.mtu.peer"}),
        ("MTU 1500 on the GPU node", {"net.mtu.rdma", "net.mtu.peer"}),
        ("older firmware running and stored", set()),
        ("new firmware stored, old runs", {"nic.fw.running"}),
        ("100G", {"link.speed.peer"}),
        ("link down", {"link.speed", "link.speed.peer", "net.mtu.rdma", "net.mtu.peer", "net.gid"}),
    ],
)
def test_what_follows_is_named_and_does_not_count(name, followers):
    fault = next(x for x in faults.FAULTS if x.name == name)
    findings = f.run(fault.inv, fault.facts)
    mine = {x.check for x in findings if x.verdict is Verdict.FOLLOWS and x.node == fault.node}
    assert mine == followers


def test_two_faults_are_two_findings():
    facts = f.with_fact(f.with_fact(f.clean(), "storage1", "nic.mtu", 1500), "storage3", "nic.qos.pfc", frozenset())
    assert f.bad(f.run(facts=facts)) == {("net.mtu", "storage1"), ("qos.pfc.host", "storage3")}


def test_a_wrong_map_beside_a_wrong_trust_is_a_second_fault():
    facts = f.with_fact(f.clean(), "storage2", "nic.qos.trust", "pcp")
    facts = f.with_fact(facts, "storage2", "nic.qos.dscp_prio", {26: 0, 48: 6})
    assert {c for c, _ in f.bad(f.run(facts=facts))} == {"qos.trust", "qos.dscpmap"}


def test_every_check_has_a_planted_fault():
    planted = {fault.check for fault in faults.ALL} | faults.EXPLAINED
    assert {s.id for s in specs() if s.fed} == planted
