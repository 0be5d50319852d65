"""Identity: count, part, PSID, generation."""

from dataclasses import replace

import pytest

from kvctl.types.facts import known, unknown
from kvctl.types.findings import Verdict

from . import fleet as f

BF3 = {"nic.device_id": "a2dc", "nic.part_number": "900-9D3B6-00CV-AA0", "nic.psid": "MT_0000000884"}


def test_a_count_other_than_the_roles_fails():
    nic = f.inventory().roles["storage"].nic.model_copy(update={"count": 2})
    finding = f.of(f.run(f.role(f.inventory(), "storage", nic=nic)), "nic.count")
    assert (finding.verdict, finding.observed, finding.expected) == (Verdict.FAIL, f"1: {f.NETDEV}", "2")


def test_without_rails_every_roce_port_is_a_fabric_port_and_the_management_port_is_not():
    inv = f.inventory()
    for name in ("gpu", "storage"):
        nic = inv.roles[name].nic.model_copy(update={"count": None})
        inv = f.role(inv, name, rails=(), nic=nic)
    findings = f.run(inv)
    assert f.verdict(findings, "nic.count") is Verdict.NOT_APPLICABLE
    assert {x.subject for x in findings if x.check == "net.mtu"} == {f.NETDEV}
    assert f.bad(findings) == set()


def test_without_rails_and_without_a_roce_port_nothing_can_be_said():
    nic = f.inventory().roles["storage"].nic.model_copy(update={"count": None})
    inv = f.role(f.inventory(), "storage", rails=(), nic=nic)
    facts = {**f.clean(), "storage2": replace(f.clean()["storage2"], nics=f.clean()["storage2"].nics[1:])}
    findings = f.run(inv, facts)
    assert f.verdict(findings, "nic.count") is Verdict.UNKNOWN
    assert f.verdict(findings, "qos.pfc.host") is Verdict.NOT_APPLICABLE


def test_a_role_without_fabric_ports_is_not_judged():
    nic = f.inventory().roles["storage"].nic.model_copy(update={"count": 0})
    inv = f.role(f.inventory(), "storage", rails=(), nic=nic)
    facts = {n: replace(v, nics=v.nics[1:]) if n != "gpu1" else v for n, v in f.clean().items()}
    findings = f.run(inv, facts)
    assert f.verdict(findings, "nic.count") is Verdict.PASS
    assert f.verdict(findings, "qos.pfc.host") is Verdict.NOT_APPLICABLE


def test_a_virtual_function_is_never_judged():
    facts = f.with_fact(f.clean(), "storage2", "nic.virtual_function", True)
    findings = f.run(facts=f.with_fact(facts, "storage2", "nic.mtu", 1500))
    mine = [x for x in findings if x.node == "storage2" and x.subject == f.NETDEV]
    assert mine
    assert {x.verdict for x in mine} == {Verdict.NOT_APPLICABLE}
    assert f.bad(findings) == {("nic.count", "storage2")}


def test_any_part_is_allowed_without_a_list():
    assert f.verdict(f.run(), "nic.part", "gpu1") is Verdict.NOT_APPLICABLE


def test_an_unpinned_psid_is_compared_with_equal_parts():
    facts = f.with_fact(f.clean(), "storage2", "nic.psid", "LNV0000000041")
    finding = f.of(f.run(f.unpinned(f.inventory()), facts), "nic.psid")
    assert (finding.verdict, finding.expected) == (Verdict.FAIL, f.PSID)


@pytest.mark.parametrize("driver", ["bnxt_en", "ice", "ionic"])
def test_other_vendors_have_no_psid(driver):
    facts = f.with_fact(f.clean(), "storage2", "nic.driver", driver)
    facts = f.with_fact(facts, "storage2", "nic.psid", unknown("no such field"))
    assert f.verdict(f.run(facts=facts), "nic.psid") is Verdict.NOT_APPLICABLE


def test_one_odd_generation_is_reported_at_the_odd_end():
    facts = f.clean()
    for path, value in BF3.items():
        facts = f.with_fact(facts, "gpu1", path, value)
    findings = f.run(facts=facts)
    assert f.bad(findings) == {("nic.generation", "gpu1")}
    finding = f.of(findings, "nic.generation", "gpu1")
    assert "storage1:enp65s0f0np0 has 15b3:101d" in finding.expected
    assert "gpu1" in f.of(findings, "nic.generation").why


def test_a_bluefield_bond_beside_the_rails_is_another_group():
    """A host with ConnectX rails and a BlueField-3 management bond is not mixed."""

    def with_bond(node):
        bond = replace(node.nics[0], netdev="ens1f0np0", device_id=known("a2dc", "sysfs"))
        return replace(node, nics=(*node.nics, bond))

    facts = {n: with_bond(v) if n == "gpu1" else v for n, v in f.clean().items()}
    assert f.bad(f.run(facts=facts)) == set()
