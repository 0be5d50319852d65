"""What an E810 can carry, and its LLDP agent."""

import pytest

from kvctl.types.facts import Service, unknown
from kvctl.types.findings import Verdict

from . import fleet as f
from . import vendors

INV = vendors.e810_inventory()


def changed(path, value):
    return f.with_fact(vendors.e810(), "storage2", path, value)


@pytest.mark.parametrize(
    ("priority", "verdict"), [(0, "pass"), (2, "pass"), (4, "pass"), (3, "fail"), (5, "fail"), (7, "fail")]
)
def test_reachable_priorities(priority, verdict):
    findings = f.run(f.fabric(INV, lossless_priority=priority), vendors.e810())
    assert f.verdict(findings, "intel.e810") is Verdict(verdict)


@pytest.mark.parametrize(
    ("classes", "verdict"),
    [
        ({0: 0, 4: 1, 6: 2}, Verdict.PASS),
        ({0: 0, 2: 1, 4: 2, 6: 3}, Verdict.PASS),
        ({p: p for p in range(5)}, Verdict.FAIL),
        ({0: 0, 4: 2}, Verdict.FAIL),
        ({}, Verdict.UNKNOWN),
    ],
)
def test_traffic_classes(classes, verdict):
    assert f.verdict(f.run(INV, changed("nic.qos.prio_tc", classes)), "intel.e810") is verdict


@pytest.mark.parametrize(
    ("dcbx", "agent", "lldpad", "verdict"),
    [
        ("os", False, "active", Verdict.PASS),
        ("os", True, "active", Verdict.FAIL),
        ("firmware", True, "inactive", Verdict.PASS),
        ("firmware", False, "active", Verdict.FAIL),
        ("any", True, "active", Verdict.FAIL),
        ("any", True, "inactive", Verdict.PASS),
        ("any", False, "active", Verdict.PASS),
    ],
)
def test_one_agent(dcbx, agent, lldpad, verdict):
    facts = changed("nic.priv_flags", {"fw-lldp-agent": agent})
    facts = f.with_fact(facts, "storage2", "host.services", {"lldpad.service": Service(lldpad, "x", "enabled")})
    assert f.verdict(f.run(f.fabric(INV, dcbx=dcbx), facts), "intel.lldp") is verdict


@pytest.mark.parametrize("flags", [{}, unknown("ethtool is not installed")])
def test_a_flag_that_is_not_shown_is_unknown(flags):
    assert f.verdict(f.run(INV, changed("nic.priv_flags", flags)), "intel.lldp") is Verdict.UNKNOWN
