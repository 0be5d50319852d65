"""The lossless class of the host, by the site's own numbers."""

from dataclasses import replace

import pytest

from kvctl.types.facts import known, unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f
from . import vendors

FLAT = {d: d >> 3 for d in range(64)}


def changed(path, value, node="storage2"):
    return f.with_fact(f.clean(), node, path, value)


def test_another_site_runs_another_class():
    """Priority 5 with DSCP 59: nothing about 3 and 26 is fixed."""
    inv = f.fabric(f.inventory(), lossless_priority=5, dscp=59)

    def on_five(nic):
        qos = replace(
            nic.qos,
            pfc=known(frozenset({5}), "mlnx_qos"),
            peer_pfc=known(frozenset({5}), "lldp"),
            dscp_prio=known({**FLAT, 59: 5}, "mlnx_qos"),
            prio_buffer=known({**dict.fromkeys(range(8), 0), 5: 2}, "mlnx_qos"),
            buffer_size=known({0: 90000, 2: 90000}, "mlnx_qos"),
            tc_bw=known({**dict.fromkeys(range(8), 0), 5: 50}, "mlnx_qos"),
        )
        rdma = replace(nic.rdma, cm_tos=known(236, "configfs"), tclass=known(236, "sysfs"))
        return replace(nic, qos=qos, rdma=rdma)

    assert f.bad(f.run(inv, vendors.all_nics(f.clean(), on_five))) == set()
    assert {c for c, _ in f.bad(f.run(inv))} == {
        "qos.dscpmap",
        "qos.pfc.host",
        "qos.pfc.peer",
        "qos.ets",
        "cm.tos",
        "tc.sysfs",
    }


@pytest.mark.parametrize(
    ("priorities", "severity"), [(set(), "critical"), ({4}, "critical"), ({3, 4}, "warning"), ({0, 1, 2}, "critical")]
)
def test_pfc_severity(priorities, severity):
    finding = f.of(f.run(facts=changed("nic.qos.pfc", frozenset(priorities))), "qos.pfc.host")
    assert (finding.verdict, finding.severity) == (Verdict.FAIL, Severity(severity))


def test_a_wrong_neighbour_is_a_fault_beside_a_wrong_host():
    facts = changed("nic.qos.pfc", frozenset())
    findings = f.run(facts=f.with_fact(facts, "storage2", "nic.qos.peer_pfc", frozenset({4})))
    assert {c for c, _ in f.bad(findings)} == {"qos.pfc.host", "qos.pfc.peer"}


@pytest.mark.parametrize(("vendor", "severity"), [("sonic", Severity.WARNING), ("none", Severity.INFO)])
def test_an_unknown_neighbour_is_a_warning_where_a_switch_is_named(vendor, severity):
    facts = changed("nic.qos.peer_pfc", unknown("no LLDP listener"))
    finding = f.of(f.run(f.fabric(f.inventory(), switch_vendor=vendor), facts), "qos.pfc.peer")
    assert (finding.verdict, finding.severity, finding.bad) == (Verdict.UNKNOWN, severity, False)


def test_pcp_sites_need_no_dscp_map():
    findings = f.run(f.fabric(f.inventory(), trust="pcp"))
    assert f.verdict(findings, "qos.dscpmap") is Verdict.NOT_APPLICABLE
    assert f.verdict(findings, "qos.trust") is Verdict.FAIL


def test_broadcom_may_send_cnps_on_seven_and_others_may_not():
    facts = f.with_fact(vendors.bnxt(), "storage2", "nic.qos.dscp_prio", {**FLAT, 48: 6})
    assert f.verdict(f.run(vendors.bnxt_inventory(), facts), "qos.dscpmap") is Verdict.PASS
    assert f.verdict(f.run(facts=changed("nic.qos.dscp_prio", {**FLAT, 48: 7})), "qos.dscpmap") is Verdict.FAIL


@pytest.mark.parametrize(
    ("policy", "dcbx", "willing", "verdict"),
    [
        ("os", "os", False, Verdict.PASS),
        ("os", "os", True, Verdict.FAIL),
        ("os", "firmware", False, Verdict.FAIL),
        ("firmware", "firmware", True, Verdict.PASS),
        ("firmware", "os", False, Verdict.FAIL),
        ("any", "os", True, Verdict.NOT_APPLICABLE),
    ],
)
def test_who_negotiates(policy, dcbx, willing, verdict):
    facts = f.with_fact(changed("nic.qos.dcbx", dcbx), "storage2", "nic.qos.willing", willing)
    assert f.verdict(f.run(f.fabric(f.inventory(), dcbx=policy), facts), "qos.dcbx") is verdict


def test_tiny_headroom_fails_though_pfc_is_on():
    facts = f.with_fact(
        changed("nic.qos.prio_buffer", {**dict.fromkeys(range(8), 0), 3: 7}),
        "storage2",
        "nic.qos.buffer_size",
        {0: 261120, 7: 896},
    )
    finding = f.of(f.run(facts=facts), "qos.buffer")
    assert (finding.verdict, finding.observed, finding.expected) == (
        Verdict.FAIL, "buffer 7, 896 bytes", "own buffer, >= 65536 bytes",
    )  # fmt: skip


def test_the_smallest_buffer_is_the_sites():
    facts = changed("nic.qos.buffer_size", {0: 131072, 1: 8192})
    assert f.verdict(f.run(f.fabric(f.inventory(), buffer_min=8192), facts), "qos.buffer") is Verdict.PASS
    assert f.verdict(f.run(f.fabric(f.inventory(), buffer_min=8193), facts), "qos.buffer") is Verdict.FAIL


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("nic.qos.prio_buffer", unknown("this version prints no buffers")),
        ("nic.qos.buffer_size", {0: 131072}),
        ("nic.qos.prio_buffer", {0: 0}),
    ],
)
def test_buffers_that_an_old_tool_does_not_print_are_a_warning(path, value):
    finding = f.of(f.run(facts=changed(path, value)), "qos.buffer")
    assert (finding.verdict, finding.severity) == (Verdict.UNKNOWN, Severity.WARNING)


@pytest.mark.parametrize(
    ("path", "value", "observed"),
    [
        ("nic.qos.prio_tc", {**{p: p for p in range(8)}, 4: 3}, "priority 3 shares its class"),
        ("nic.qos.tsa", {**dict.fromkeys(range(8), "ets")}, "priority 6 is ets"),
        ("nic.qos.tsa", {**dict.fromkeys(range(8), "strict")}, "class 3 is strict"),
        ("nic.qos.tc_bw", dict.fromkeys(range(8), 12), "class 3 is ets 12 %"),
    ],
)
def test_scheduling(path, value, observed):
    finding = f.of(f.run(facts=changed(path, value)), "qos.ets")
    assert finding.verdict is Verdict.FAIL
    assert observed in finding.observed


@pytest.mark.parametrize("path", ["nic.qos.prio_tc", "nic.qos.tsa", "nic.qos.tc_bw"])
def test_an_incomplete_table_is_unknown_and_not_zero(path):
    assert f.verdict(f.run(facts=changed(path, {})), "qos.ets") is Verdict.UNKNOWN


def test_the_class_of_both_ends_is_compared():
    finding = f.of(f.run(), "qos.class.peer", "gpu1")
    assert finding.verdict is Verdict.PASS
    assert finding.observed == "trust dscp, PFC 3, DSCP 26->3"
    assert "storage1:enp65s0f0np0" in finding.expected


def test_trust_that_a_driver_does_not_report_is_a_warning():
    facts = f.with_fact(vendors.bnxt(), "storage2", "nic.qos.trust", unknown("the driver does not report it"))
    findings = f.run(vendors.bnxt_inventory(), facts)
    assert f.of(findings, "qos.trust").severity is Severity.WARNING
    assert f.bad(findings) == set()
    assert f.bad(f.run(facts=changed("nic.qos.trust", unknown("timed out")))) == {("qos.trust", "storage2")}
