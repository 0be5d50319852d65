"""The list itself: complete, without circles, and each id once."""

import pytest

from kvctl.fleet.checks.causes import cycle
from kvctl.fleet.checks.registry import REGISTRY, check, specs
from kvctl.fleet.checks.wording import GENERIC
from kvctl.types.findings import Remedy, Severity

PROMISED = """
nic.generation nic.psid nic.fw.running nic.fw.pending nic.fw.intel nic.fw.bnxt nic.count nic.part nv.linktype nv.rocecc
nv.cnp qos.trust qos.dscpmap qos.pfc.host qos.pfc.peer qos.dcbx qos.pause qos.buffer qos.ets ecn.np ecn.rp ecn.cnp
cm.tos cm.mode tc.sysfs net.mtu net.mtu.rdma net.mtu.peer net.gid net.route link.state link.speed link.flaps pcie.width
pcie.mrrs acs.redirect gdr cnt.lossless cnt.pause cnt.class probe.bw sw.sonic sw.cumulus sw.nxos sw.eos intel.e810
intel.lldp nvme.model nvme.count nvme.lba nvme.ns nvme.wear nvme.link nvme.id nvme.queue nvme.state md.sync fs.discard
host.os host.clock host.lab node.kvnoded
""".split()  # noqa: SIM905


def test_every_promised_check_is_there():
    assert set(PROMISED) <= {s.id for s in specs()}


def test_no_two_checks_explain_each_other():
    """A circle would let a fault hide itself: both would follow and neither would fail."""
    assert cycle({s.id: s.after for s in specs()}) == ()


def test_a_circle_is_found():
    assert cycle({"a": ("b",), "b": ("c",), "c": ("b",)}) == ("b", "c", "b")


def test_causes_are_checks():
    for spec in specs():
        assert set(spec.after) <= set(REGISTRY), spec.id


@pytest.mark.parametrize("spec", specs(), ids=lambda s: s.id)
def test_each_check_says_what_is_right_and_what_to_do(spec):
    assert spec.title
    assert spec.right.format_map(GENERIC)
    assert spec.remedy.text.format_map(GENERIC)
    assert spec.reads or not spec.fed
    assert spec.docs == f"docs/checks.md#{spec.id.replace('.', '-')}"
    assert spec.remedy.role in ("", "roce", "nic_firmware", "nvme", "host", "node")


def test_an_id_is_taken_once():
    with pytest.raises(ValueError, match="registered twice"):
        check(id="qos.trust", severity=Severity.INFO, title="t", right="r", remedy=Remedy())(lambda fleet: ())


def test_only_a_format_destroys_data():
    assert {s.id for s in specs() if s.remedy.destroys_data} == {"nvme.lba", "nvme.ns"}
