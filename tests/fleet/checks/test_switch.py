"""Switch ports, from the switch's own output."""

from dataclasses import replace
from pathlib import Path

import pytest

from kvctl.fleet.checks.switch_output import read_ports
from kvctl.types.facts import known, unknown
from kvctl.types.findings import Severity, Verdict

from . import fleet as f

VENDORS = ("sonic", "cumulus", "nxos", "eos")


def finding(os, **changes):
    return f.of(f.run(switches=f.switches(os, **changes)), f"sw.{os}", "leaf1")


@pytest.mark.parametrize("os", VENDORS)
def test_a_port_that_runs_the_class_passes(os):
    found = finding(os)
    assert (found.verdict, found.subject) == (Verdict.PASS, "Ethernet0")


@pytest.mark.parametrize("os", VENDORS)
def test_pfc_elsewhere_fails(os):
    found = finding(os, pfc=known(frozenset({4}), "show"))
    assert (found.verdict, found.severity) == (Verdict.FAIL, Severity.CRITICAL)


@pytest.mark.parametrize("os", VENDORS)
def test_more_lossless_priorities_are_the_switchs_own_business(os):
    assert finding(os, pfc=known(frozenset({3, 4}), "show")).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("os", "name", "value"),
    [
        ("sonic", "watchdog", False), ("sonic", "storm", True), ("cumulus", "mode", "lossy"), ("nxos", "mode", "auto"),
        ("nxos", "oper", False), ("eos", "oper", False), ("eos", "watchdog", False),
    ],
)  # fmt: skip
def test_what_makes_pfc_real(os, name, value):
    assert finding(os, **{name: known(value, "show")}).verdict is Verdict.FAIL
    assert finding(os, **{name: unknown("the output was not given")}).verdict is Verdict.UNKNOWN


def several(*priorities):
    """A switch of which nobody knows who is plugged in where."""
    ports = (f.switches("sonic", node="", pfc=known(frozenset(p), "show pfc priority"))["leaf1"][0] for p in priorities)
    return {"leaf1": tuple(replace(port, port=f"Ethernet{4 * i}") for i, port in enumerate(ports))}


def test_a_port_that_nobody_is_known_to_use_is_only_mentioned():
    findings = f.run(switches=several({3}, set()))
    found = next(x for x in findings if x.subject == "Ethernet4")
    assert (found.verdict, found.severity) == (Verdict.FAIL, Severity.INFO)
    assert "nothing says which node" in found.why
    assert f.bad(findings) == set()
    assert f.of(findings, "sw.sonic", "leaf1").observed == "1 of 2 ports"


def test_a_switch_that_runs_the_class_nowhere_fails():
    findings = f.run(switches=several({4}, set()))
    assert f.bad(findings) == {("sw.sonic", "leaf1")}
    assert f.of(findings, "sw.sonic", "leaf1").subject == ""


SAMPLES = Path(__file__).parents[2] / "data" / "samples"


def sample(*names):
    return "\n".join((SAMPLES / name).read_text() for name in names)


@pytest.mark.parametrize("vendor", ["sonic", "none"])
def test_the_text_of_show_commands_is_read(vendor):
    inv = f.fabric(f.inventory(), switch_vendor=vendor)
    findings = f.run(inv, switches={"leaf1": sample("sonic/show_pfc_priority.txt", "sonic/show_pfcwd_config.txt")})
    mine = {x.subject: x for x in findings if x.check == "sw.sonic"}
    assert set(mine) == {"", "Ethernet0", "Ethernet4"}
    assert (mine[""].verdict, mine[""].observed) == (Verdict.PASS, "2 of 2 ports")
    assert mine["Ethernet0"].verdict is Verdict.UNKNOWN
    assert f.bad(findings) == set()


@pytest.mark.parametrize(
    ("vendor", "name"),
    [("nxos", "nxos/show_int_pfc_auto_off.txt"), ("eos", "arista_eos/show_priority_flow_control_ports_disabled.txt")],
)
def test_switches_that_are_globally_on_and_off_at_every_port(vendor, name):
    findings = f.run(f.fabric(f.inventory(), switch_vendor=vendor), switches={"leaf1": sample(name)})
    assert f.bad(findings) == {(f"sw.{vendor}", "leaf1")}


@pytest.mark.parametrize("vendor", ["sonic", "none"])
def test_a_text_that_is_no_switch_output_is_unknown_and_counts(vendor):
    findings = f.run(f.fabric(f.inventory(), switch_vendor=vendor), switches={"leaf1": "% Invalid input"})
    found = f.of(findings, "sw.sonic", "leaf1")
    assert found.bad
    assert found.why.startswith("not the output of a switch that is known: sonic:")


def test_a_watchdog_that_was_not_given_is_unknown_and_the_storm_of_one_port_is_its_own():
    text = sample("sonic/show_pfcwd_stats_stormed_z9332.txt")
    priority = "Interface    Lossless priorities\n-----------  ---------------------\nEthernet4    3\nEthernet6    3\n"
    four, six = read_ports(priority + "\n" + text, "sonic")
    assert (four.storm.value, six.storm.value) == (False, True)
    assert four.watchdog.or_none() is None


def test_without_a_vendor_nothing_is_asked():
    findings = f.run()
    assert {f.verdict(findings, f"sw.{os}", "") for os in VENDORS} == {Verdict.NOT_APPLICABLE}


@pytest.mark.parametrize("switches", [None, {}, {"leaf1": ()}])
def test_a_vendor_without_output_is_a_warning_that_says_what_to_pass(switches):
    findings = f.run(f.fabric(f.inventory(), switch_vendor="eos"), switches=switches)
    found = f.of(findings, "sw.eos", "")
    assert (found.verdict, found.severity) == (Verdict.UNKNOWN, Severity.WARNING)
    assert "--switch-output" in found.why
    assert f.verdict(findings, "sw.sonic", "") is Verdict.NOT_APPLICABLE
    assert f.bad(findings) == set()


def test_the_priority_is_the_sites():
    findings = f.run(f.fabric(f.inventory(), lossless_priority=4, dscp=32), switches=f.switches("sonic"))
    assert f.verdict(findings, "sw.sonic", "leaf1") is Verdict.FAIL
