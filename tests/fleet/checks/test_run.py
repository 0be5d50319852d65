"""The whole run: nodes without facts, order, evidence, remedies, other findings."""

from dataclasses import replace

from kvctl.fleet.checks.registry import specs
from kvctl.fleet.checks.run import NO_FACTS
from kvctl.types.facts import Fact, unknown
from kvctl.types.findings import Evidence, Finding, Severity, Verdict

from . import fleet as f


def test_a_node_without_facts_is_unknown_everywhere():
    facts = {n: v for n, v in f.clean().items() if n != "storage2"}
    mine = [x for x in f.run(facts=facts) if x.node == "storage2"]
    judged = {x.check: x for x in mine if x.verdict is Verdict.UNKNOWN}
    assert all(x.why == NO_FACTS for x in judged.values())
    assert not [x for x in mine if x.verdict is Verdict.PASS]
    assert {s.id for s in specs() if s.fed and not s.site_wide and "storage" in s.kinds} == set(judged)
    assert judged["qos.pfc.host"].bad


def test_no_facts_at_all_is_no_pass():
    findings = f.run(facts={})
    assert Verdict.PASS not in {x.verdict for x in findings}
    assert any(x.bad for x in findings)


def test_facts_of_nodes_outside_the_inventory_are_ignored():
    facts = {**f.clean(), "stranger": replace(f.clean()["gpu1"], node="stranger")}
    assert "stranger" not in {x.node for x in f.run(facts=facts)}


def test_worst_first():
    facts = f.with_fact(f.clean(), "storage1", "host.os_version", "11")
    facts = f.with_fact(facts, "storage3", "nic.qos.trust", unknown("mlnx_qos is not installed"))
    facts = f.with_fact(facts, "gpu1", "nic.mtu", 1500)
    findings = f.run(facts=facts)
    head = [(x.check, x.verdict, x.severity) for x in findings[:3]]
    assert head == [
        ("net.mtu", Verdict.FAIL, Severity.CRITICAL),
        ("qos.trust", Verdict.UNKNOWN, Severity.CRITICAL),
        ("host.os", Verdict.FAIL, Severity.WARNING),
    ]
    assert findings[-1].verdict is Verdict.NOT_APPLICABLE
    assert [x.bad for x in findings] == sorted((x.bad for x in findings), reverse=True)


def test_the_order_does_not_depend_on_the_order_of_facts():
    facts = f.with_fact(f.clean(), "gpu1", "nic.mtu", 1500)
    assert f.run(facts=facts) == f.run(facts=dict(reversed(facts.items())))


def test_evidence_says_simulated_when_a_stand_in_answered():
    pfc = Fact(frozenset({3}), "mlnx_qos", "", True)
    findings = f.run(facts=f.with_fact(f.clean(), "storage2", "nic.qos.pfc", pfc))
    assert f.of(findings, "qos.pfc.host").evidence is Evidence.SIMULATED
    assert f.of(findings, "qos.pfc.host", "storage1").evidence is Evidence.READ_BACK
    assert f.of(findings, "qos.trust").evidence is Evidence.READ_BACK


def test_counters_and_probes_are_evidence_of_effect():
    findings = f.run(facts=f.later(f.clean()), previous=f.clean(), probes=f.probes())
    assert {f.of(findings, c).evidence for c in ("cnt.lossless", "cnt.pause", "cnt.class", "probe.bw")} == {
        Evidence.EFFECT
    }


def test_a_finding_tells_what_where_and_how_to_repair():
    finding = f.of(f.run(facts=f.with_fact(f.clean(), "storage2", "nic.qos.pfc", frozenset())), "qos.pfc.host")
    assert (finding.node, finding.subject) == ("storage2", f.NETDEV)
    assert (finding.observed, finding.expected) == ("none", "3")
    assert finding.remedy.role == "roce"
    assert finding.remedy.text == f"mlnx_qos -i {f.NETDEV} --pfc 0,0,0,1,0,0,0,0"
    assert finding.source == "changed"


def test_remedies_speak_of_the_sites_own_class():
    inv = f.fabric(f.inventory(), lossless_priority=5, dscp=46)
    findings = f.run(inv)
    assert f.of(findings, "qos.pfc.host").remedy.text == f"mlnx_qos -i {f.NETDEV} --pfc 0,0,0,0,0,1,0,0"
    assert f.of(findings, "cm.tos").remedy.text == "cma_roce_tos -d mlx5_0 -t 186"


def test_an_unknown_is_not_repaired_by_a_role():
    """A role that changes the node on a value nobody could read would change it blindly."""
    facts = f.with_fact(f.clean(), "storage2", "nic.qos.pfc", unknown("mlnx_qos timed out after 5 s", "mlnx_qos -i X"))
    finding = f.of(f.run(facts=facts), "qos.pfc.host")
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.why == "mlnx_qos timed out after 5 s"
    assert finding.remedy.role == ""
    assert "mlnx_qos -i X" in finding.remedy.text


def test_findings_from_elsewhere_are_sorted_in():
    extra = Finding("access.ssh", "storage1", "", Verdict.FAIL, Severity.CRITICAL, why="host key changed")
    assert f.run(extra=[extra])[0] == extra


def test_only_limits_what_is_returned_and_not_what_is_known():
    facts = f.with_fact(f.clean(), "storage2", "nic.qos.pfc", frozenset())
    findings = f.run(facts=facts, only=("qos.buffer", "qos.pfc.p*"))
    assert {x.check for x in findings} == {"qos.buffer", "qos.pfc.peer"}
    assert f.verdict(findings, "qos.pfc.peer") is Verdict.FOLLOWS
