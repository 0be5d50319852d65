"""mlxconfig settings: now, after the next boot, and not shown."""

import pytest

from kvctl.fleet.checks.nvconfig import number
from kvctl.types.facts import NvConfig, unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f

ROWS = f.nic(3).nvconfig.value or {}


def rows(**changes):
    return f.with_fact(f.clean(), "storage2", "nic.nvconfig", {**ROWS, **changes})


@pytest.mark.parametrize(
    ("text", "value"), [("ETH(2)", 2), ("48", 48), ("0xff", 255), ("True(1)", 1), ("ETH", None), ("", None)]
)
def test_number(text, value):
    assert number(text) == value


def test_a_change_that_waits_for_the_next_boot_is_a_failure_now():
    finding = f.of(f.run(facts=rows(LINK_TYPE_P1=NvConfig("ETH(2)", "IB(1)", "ETH(2)"))), "nv.linktype")
    assert finding.verdict is Verdict.FAIL
    assert finding.observed == "LINK_TYPE_P1 IB(1) (next boot ETH(2))"
    assert finding.remedy.reboot


def test_without_the_tool_it_is_a_warning():
    findings = f.run(facts=f.with_fact(f.clean(), "storage2", "nic.nvconfig", unknown("mlxconfig is not installed")))
    for check in ("nv.linktype", "nv.rocecc", "nv.cnp"):
        finding = f.of(findings, check)
        assert (finding.verdict, finding.severity) == (Verdict.UNKNOWN, Severity.WARNING)
    assert f.bad(findings) == set()


def test_an_ethernet_only_card_has_no_link_type():
    facts = f.with_fact(f.clean(), "storage2", "nic.nvconfig", {n: r for n, r in ROWS.items() if n != "LINK_TYPE_P1"})
    assert f.verdict(f.run(facts=facts), "nv.linktype") is Verdict.NOT_APPLICABLE


def test_a_setting_that_is_not_shown_is_unknown():
    facts = f.with_fact(f.clean(), "storage2", "nic.nvconfig", {"LINK_TYPE_P1": ROWS["LINK_TYPE_P1"]})
    assert f.verdict(f.run(facts=facts), "nv.rocecc") is Verdict.UNKNOWN


def test_a_current_value_that_is_not_shown_is_unknown():
    facts = rows(CNP_DSCP_P1=NvConfig(None, None, "48"))
    assert f.verdict(f.run(facts=facts), "nv.cnp") is Verdict.UNKNOWN


def test_the_second_function_is_judged_by_the_second_ports_setting():
    facts = rows(LINK_TYPE_P2=NvConfig("IB(1)", "IB(1)", "IB(1)"))
    assert f.verdict(f.run(facts=facts), "nv.linktype") is Verdict.PASS
    facts = f.with_fact(facts, "storage2", "nic.pci", "0000:41:00.1")
    assert f.verdict(f.run(facts=facts), "nv.linktype") is Verdict.FAIL


@pytest.mark.parametrize("ecn", ["off", "any"])
def test_without_dcqcn_congestion_settings_are_not_judged(ecn):
    findings = f.run(f.fabric(f.inventory(), ecn=ecn))
    assert {f.verdict(findings, c) for c in ("nv.rocecc", "nv.cnp", "ecn.cnp")} == {Verdict.NOT_APPLICABLE}


def test_the_mask_must_cover_the_sites_priority():
    inv, facts = f.fabric(f.inventory(), lossless_priority=5), rows(ROCE_CC_PRIO_MASK_P1=NvConfig("255", "8", "8"))
    assert f.verdict(f.run(inv, facts), "nv.rocecc") is Verdict.FAIL
    assert f.verdict(f.run(f.inventory(), facts), "nv.rocecc") is Verdict.PASS


@pytest.mark.parametrize(("value", "verdict"), [("ETH(2)", Verdict.PASS), ("2", Verdict.PASS), ("IB(1)", Verdict.FAIL)])
def test_policy_reads_a_value_as_a_person_writes_it(value, verdict):
    nic = f.inventory().roles["storage"].nic.model_copy(update={"nvconfig": {"LINK_TYPE_P1": value}})
    assert f.verdict(f.run(f.role(f.inventory(), "storage", nic=nic)), "nv.policy") is verdict
