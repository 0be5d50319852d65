"""Marking by ToS: the DSCP counts, the ECN bits do not."""

import pytest

from kvctl.types.facts import unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f


@pytest.mark.parametrize("path", ["nic.rdma.cm_tos", "nic.rdma.tclass"])
@pytest.mark.parametrize(
    ("tos", "verdict"),
    [(t, Verdict.PASS) for t in (104, 105, 106, 107)] + [(t, Verdict.FAIL) for t in (0, 26, 103, 108, 255)],
)
def test_tos(path, tos, verdict):
    check = {"nic.rdma.cm_tos": "cm.tos", "nic.rdma.tclass": "tc.sysfs"}[path]
    assert f.verdict(f.run(facts=f.with_fact(f.clean(), "storage2", path, tos)), check) is verdict


def test_an_unset_traffic_class_is_unknown_and_not_zero():
    facts = f.with_fact(f.clean(), "storage2", "nic.rdma.tclass", unknown("nothing is set"))
    finding = f.of(f.run(facts=facts), "tc.sysfs")
    assert (finding.verdict, finding.severity) == (Verdict.UNKNOWN, Severity.WARNING)


def test_cm_without_configfs_is_unknown_and_counts():
    facts = f.with_fact(f.clean(), "storage2", "nic.rdma.cm_tos", unknown("configfs is not mounted"))
    assert f.bad(f.run(facts=facts)) == {("cm.tos", "storage2")}


def test_mode():
    facts = f.with_fact(f.clean(), "storage2", "nic.rdma.cm_mode", "RoCE v1")
    finding = f.of(f.run(facts=facts), "cm.mode")
    assert (finding.verdict, finding.remedy.text) == (Verdict.FAIL, "cma_roce_mode -d mlx5_0 -p 1 -m 2")
