"""Running, stored, pinned, and compared by majority."""

from dataclasses import replace

import pytest

from kvctl.types.facts import known, unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f
from . import vendors

FREE = f.unpinned(f.inventory())


def versions(*running: str) -> f.Facts:
    """Firmware by node, running and stored."""
    facts = f.clean()
    for node, version in zip(f.NODES, running, strict=False):
        facts = f.with_fact(f.with_fact(facts, node, "nic.fw_running", version), node, "nic.fw_stored", version)
    return facts


def only(inv, *names):
    return inv.model_copy(update={"nodes": tuple(n for n in inv.nodes if n.name in names)})


def test_a_pin_decides_even_against_the_majority():
    findings = f.run(facts=versions(f.OLD, f.OLD, f.OLD, f.FIRMWARE))
    assert f.bad(findings) == {("nic.fw.running", n) for n in ("gpu1", "storage1", "storage2")}
    assert f.of(findings, "nic.fw.running").expected == f.FIRMWARE
    assert f.of(findings, "nic.fw.running").remedy.role == "nic_firmware"
    assert f.of(findings, "nic.fw.running").remedy.reboot


def test_padding_is_no_difference():
    assert f.bad(f.run(facts=versions(f.FIRMWARE, "22.43.01014", f.FIRMWARE, f.FIRMWARE))) == set()


def test_without_pins_the_majority_decides():
    assert f.bad(f.run(FREE, versions(f.FIRMWARE, f.FIRMWARE, f.OLD, f.FIRMWARE))) == {("nic.fw.running", "storage2")}


def test_without_pins_a_tie_is_unknown():
    findings = f.run(FREE, versions(f.FIRMWARE, f.FIRMWARE, f.OLD, f.OLD))
    assert {f.verdict(findings, "nic.fw.running", n) for n in f.NODES} == {Verdict.UNKNOWN}
    assert f.of(findings, "nic.fw.running").bad
    assert "no majority" in f.of(findings, "nic.fw.running").why


def test_without_pins_two_nodes_that_differ_are_unknown():
    inv = only(FREE, "gpu1", "storage1")
    findings = f.run(inv, versions(f.FIRMWARE, f.OLD))
    assert f.verdict(findings, "nic.fw.running", "storage1") is Verdict.UNKNOWN
    assert "two nodes differ" in f.of(findings, "nic.fw.running", "storage1").why


def test_without_pins_two_nodes_that_agree_pass():
    findings = f.run(only(FREE, "gpu1", "storage1"))
    assert f.verdict(findings, "nic.fw.running", "storage1") is Verdict.PASS


def test_without_pins_a_single_node_is_unknown():
    finding = f.of(f.run(only(FREE, "storage1")), "nic.fw.running", "storage1")
    assert finding.verdict is Verdict.UNKNOWN
    assert "no equal part" in finding.why or "equal part elsewhere" in finding.why


def test_groups_are_compared_by_psid_never_by_version_alone():
    """Two OEM cards with their own firmware line are a group of their own, not a minority."""
    facts = versions(f.FIRMWARE, f.FIRMWARE, f.OLD, f.OLD)
    for node in ("storage2", "storage3"):
        facts = f.with_fact(facts, node, "nic.psid", "LNV0000000041")
        facts = f.with_fact(facts, node, "nic.part_number", "SN37A28292")
    inv = vendors.without_parts(f.inventory())
    findings = f.run(inv, facts)
    assert {f.verdict(findings, "nic.fw.running", n) for n in f.NODES} == {Verdict.PASS}


def test_a_psid_without_a_pin_follows_the_psid_finding():
    facts = f.with_fact(f.clean(), "storage2", "nic.psid", "LNV0000000041")
    findings = f.run(facts=facts)
    assert f.bad(findings) == {("nic.psid", "storage2")}
    assert f.verdict(findings, "nic.fw.running") is Verdict.FOLLOWS


def test_pending_needs_the_stored_version():
    facts = f.with_fact(f.clean(), "storage2", "nic.fw_stored", unknown("mstflint is not installed"))
    findings = f.run(facts=facts)
    assert f.bad(findings) == {("nic.fw.pending", "storage2")}
    assert f.verdict(findings, "nic.fw.running") is Verdict.PASS


def test_neither_stored_nor_running_is_right():
    facts = f.with_fact(f.clean(), "storage2", "nic.fw_running", "22.31.1014")
    facts = f.with_fact(facts, "storage2", "nic.fw_stored", f.OLD)
    findings = f.run(facts=facts)
    assert f.bad(findings) == {("nic.fw.running", "storage2")}
    assert f.verdict(findings, "nic.fw.pending") is Verdict.FOLLOWS


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("237.1.137.0", Verdict.PASS), ("235.2.86.1", Verdict.PASS), ("232.0.1.1", Verdict.FAIL),
     ("231.2.63.0", Verdict.FAIL), ("229.0.1.0", Verdict.UNKNOWN), ("237.2.0.0", Verdict.UNKNOWN)],
)  # fmt: skip
def test_broadcom_branches(version, verdict):
    facts = f.with_fact(vendors.bnxt(), "storage2", "nic.fw_running", version)
    finding = f.of(f.run(vendors.bnxt_inventory(), facts), "nic.fw.bnxt")
    assert finding.verdict is verdict
    assert finding.severity is Severity.CRITICAL


def test_intel_ignores_the_management_api_version():
    mine = {"fw.mgmt": "7.3.4", "fw.mgmt.api": "1.5", "fw.app": "1.3.35.0"}
    facts = f.with_fact(vendors.e810(), "storage2", "nic.fw_components", mine)
    assert f.verdict(f.run(vendors.e810_inventory(), facts), "nic.fw.intel") is Verdict.PASS


def test_intel_without_known_components_is_unknown():
    facts = f.with_fact(vendors.e810(), "storage2", "nic.fw_components", {"fw.undi": "1.0"})
    assert f.verdict(f.run(vendors.e810_inventory(), facts), "nic.fw.intel") is Verdict.UNKNOWN


@pytest.mark.parametrize("check", ["nic.fw.intel", "nic.fw.bnxt", "intel.e810"])
def test_vendor_checks_do_not_apply_to_others_and_need_to_know_the_vendor(check):
    assert f.verdict(f.run(), check) is Verdict.NOT_APPLICABLE

    def nameless(nic):
        return replace(nic, driver=unknown("no link"), vendor_id=unknown("no file"), mtu=known(9000, "sysfs"))

    assert f.verdict(f.run(facts=vendors.all_nics(f.clean(), nameless)), check) is Verdict.UNKNOWN
