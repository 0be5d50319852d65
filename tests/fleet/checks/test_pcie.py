"""PCI Express widths and speeds; idle GPUs."""

import pytest

from kvctl.types.facts import unknown
from kvctl.types.findings import Verdict

from . import fleet as f


@pytest.mark.parametrize(("path", "value"), [("current_width", 8), ("current_speed", 8.0)])
def test_a_narrow_or_slow_nic_fails(path, value):
    finding = f.of(f.run(facts=f.with_fact(f.clean(), "storage2", f"nic.pcie.{path}", value)), "pcie.width")
    assert finding.verdict is Verdict.FAIL
    assert finding.expected == "x16 at 16 GT/s"


@pytest.mark.parametrize(
    ("busy", "verdict"), [(False, Verdict.PASS), (True, Verdict.FAIL), (unknown("not read"), Verdict.PASS)]
)
def test_an_idle_gpu_may_run_slow(busy, verdict):
    facts = f.with_fact(f.clean(), "gpu1", "gpu.pcie.current_speed", 2.5)
    facts = f.with_fact(facts, "gpu1", "gpu.busy", busy)
    assert f.verdict(f.run(facts=facts), "pcie.gpu", "gpu1") is verdict


def test_an_idle_gpu_may_not_be_narrow():
    facts = f.with_fact(f.clean(), "gpu1", "gpu.pcie.current_width", 4)
    finding = f.of(f.run(facts=facts), "pcie.gpu", "gpu1")
    assert (finding.verdict, finding.subject) == (Verdict.FAIL, "GPU-1")


def test_acs_is_about_gpu_nodes():
    findings = f.run(facts=f.with_fact(f.clean(), "gpu1", "host.acs_redirect", ("0000:40:01.0", "0000:41:02.0")))
    assert f.of(findings, "acs.redirect", "gpu1").observed == "0000:40:01.0, 0000:41:02.0"
    assert f.verdict(findings, "acs.redirect", "storage1") is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize("check", ["pcie.mrrs", "pcie.ro"])
def test_what_no_fact_feeds_says_so(check):
    finding = f.of(f.run(), check)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "facts hold no" in finding.why
