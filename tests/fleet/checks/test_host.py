"""The node: system, clock, settings, daemon, lab marker."""

from dataclasses import replace

import pytest

from kvctl.types.facts import Service, unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f


def changed(path, value):
    return f.with_fact(f.clean(), "storage2", path, value)


@pytest.mark.parametrize(
    ("site", "marked", "verdict", "severity"),
    [(False, False, "pass", "critical"), (False, True, "fail", "critical"), (True, True, "pass", "critical"),
     (True, False, "fail", "info")],
)  # fmt: skip
def test_lab(site, marked, verdict, severity):
    inv = f.inventory(site={"name": "test", "lab": site})
    facts = {**f.clean(), "storage2": replace(f.clean()["storage2"], lab=marked)}
    finding = f.of(f.run(inv, facts), "host.lab")
    assert (finding.verdict, finding.severity) == (Verdict(verdict), Severity(severity))


@pytest.mark.parametrize(
    ("name", "version", "verdict"),
    [
        ("debian", "12", "pass"), ("debian", "11", "fail"), ("ubuntu", "24.04", "pass"), ("ubuntu", "20.04", "fail"),
        ("rhel", "9.4", "pass"), ("rocky", "10.0", "pass"), ("rhel", "8.10", "fail"), ("rhel", "90", "fail"),
        ("gentoo", "2.15", "fail"),
    ],
)  # fmt: skip
def test_system(name, version, verdict):
    facts = f.with_fact(changed("host.os_id", name), "storage2", "host.os_version", version)
    assert f.verdict(f.run(facts=facts), "host.os") is Verdict(verdict)


@pytest.mark.parametrize(
    ("offset", "verdict"), [(0.0, "pass"), (-0.9, "pass"), (1.0, "fail"), (-3600.0, "fail"), (unknown("x"), "unknown")]
)
def test_clock(offset, verdict):
    assert f.verdict(f.run(facts=changed("host.clock_offset", offset)), "host.clock") is Verdict(verdict)


@pytest.mark.parametrize(
    ("wanted", "seen", "verdict"),
    [
        ({"net.ipv4.tcp_rmem": "4096 131072 6291456"}, {"net.ipv4.tcp_rmem": "4096\t131072\t6291456"}, "pass"),
        ({"vm.swappiness": "1"}, {"vm.swappiness": "60"}, "fail"),
        ({"vm.swappiness": "1"}, {}, "unknown"),
        ({"vm.swappiness": "1"}, unknown("not read"), "unknown"),
        ({"vm.swappiness": "1", "vm.other": "2"}, {"vm.swappiness": "60"}, "fail"),
        ({}, unknown("not read"), "not-applicable"),
    ],
)
def test_sysctl(wanted, seen, verdict):
    inv = f.role(f.inventory(), "storage", sysctls=wanted)
    assert f.verdict(f.run(inv, changed("host.sysctls", seen)), "host.sysctl") is Verdict(verdict)


@pytest.mark.parametrize(
    ("unit", "verdict", "bad"),
    [
        (Service("active", "running", "enabled"), "pass", False),
        (Service("failed", "failed", "enabled"), "fail", True),
        (Service("active", "running", "disabled"), "fail", True),
        (Service("inactive", "dead", "not-found"), "fail", False),
        (None, "fail", False),
    ],
)
def test_kvnoded_that_is_not_installed_is_only_mentioned(unit, verdict, bad):
    services = {"kvnoded.service": unit} if unit else {}
    finding = f.of(f.run(facts=changed("host.services", services)), "node.kvnoded")
    assert (finding.verdict, finding.bad) == (Verdict(verdict), bad)
    assert finding.remedy.role == ("node" if verdict == "fail" else "")
