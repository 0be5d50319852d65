"""When a node returns to service, which nodes go first, and what dead nodes make of an outcome."""

from pathlib import Path

import pytest

from kvctl.controller.provision import canary, options_for, verdict, with_dead_nodes
from kvctl.controller.site import Site, open_site
from kvctl.types.findings import Finding, Severity, Verdict
from kvctl.types.plans import Plan, Step
from kvctl.types.reports import CheckReport, Unreachable

NODES = {"storage1": "storage", "storage2": "storage", "gpu1": "gpu"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    file = tmp_path / "inventory.yaml"
    rows = "".join(f"- {{name: {n}, address: 192.0.2.{i}, role: {r}}}\n" for i, (n, r) in enumerate(NODES.items(), 1))
    file.write_text("site: {name: t}\nnodes:\n" + rows)
    return open_site(file, tmp_path / "state", timeout=7.0, transport="system")


def plan(*nodes: str) -> Plan:
    steps = tuple(Step(f"s{i}", n, "host", "apply", {}, {}, (), ()) for i, n in enumerate(nodes))
    return Plan("p-1", "", "t", "", dict.fromkeys(nodes, "t"), steps=steps, desired={n: {} for n in NODES})


def report(*findings: Finding, unreachable: tuple[Unreachable, ...] = ()) -> CheckReport:
    return CheckReport("t", "", False, tuple(NODES), findings, unreachable)


def finding(severity: Severity, outcome: Verdict = Verdict.FAIL) -> Finding:
    return Finding("net.mtu", "storage1", "rail0", outcome, severity, "1500", "9000")


@pytest.mark.parametrize(
    ("outcome", "seen", "why"),
    [
        ("done", report(), ""),
        ("done", report(finding(Severity.WARNING)), ""),
        ("done", report(finding(Severity.CRITICAL)), "net.mtu rail0: 1500, should be 9000"),
        ("failed", report(), "its steps ended as failed"),
        (
            "done",
            report(unreachable=(Unreachable("storage1", "KV-SSH-001", "refused", ""),)),
            "did not answer after the change: refused",
        ),
    ],
)
def test_a_node_returns_only_when_it_is_done_and_no_critical_check_is_against_it(
    outcome: str, seen: CheckReport, why: str
) -> None:
    assert verdict("storage1", outcome, seen) == why


def test_one_node_of_each_role_goes_first_when_others_are_left_to_protect(site: Site) -> None:
    assert canary(site, plan("storage1", "storage2", "gpu1")) == ("storage1", "gpu1")
    assert canary(site, plan("storage2", "gpu1")) == ()


def test_the_run_reads_nodes_as_the_command_did(site: Site) -> None:
    options = options_for(site, plan("storage1"), converge=False, concurrency=99, max_fail=2)
    assert (options.timeout, options.transport, options.max_fail) == (7.0, "system", 2)
    assert list(options.targets) == ["storage1"]
    assert list(options_for(site, plan("storage1"), True, 1, 0).targets) == list(NODES)


def test_nodes_that_could_not_be_planned_for_make_the_outcome_partial() -> None:
    view = with_dead_nodes({"nodes_view": [{"node": "a", "state": "returned", "why": ""}], "exit_code": 0}, ("a", "b"))
    assert [(n["node"], n["state"]) for n in view["nodes_view"]] == [("a", "returned"), ("b", "unreachable")]
    assert view["exit_code"] == 5
    assert with_dead_nodes({"nodes_view": [], "exit_code": 1}, ("b",))["exit_code"] == 1
