"""What `kvctl check` shows of findings."""

import pytest
from click import BadParameter

from kvctl.cli.check import detail, needs_eyes, read_switches, show
from kvctl.types.findings import Evidence, Finding, Remedy, Severity, Verdict
from kvctl.types.reports import CheckReport, Unreachable


def finding(verdict: Verdict, severity: Severity = Severity.CRITICAL, **more: object) -> Finding:
    return Finding("net.mtu", "storage1", "rail0", verdict, severity, **more)


WRONG = finding(
    Verdict.FAIL, observed="1500", expected="9000", evidence=Evidence.SIMULATED, remedy=Remedy("roce", "set")
)
RIGHT = finding(Verdict.PASS, observed="9000")
OPEN = finding(Verdict.UNKNOWN, why="no tool")


def report(*findings: Finding, **more: object) -> CheckReport:
    return CheckReport("oslo", "2026-01-01T00:00:00Z", False, ("storage1", "gpu1"), findings, seconds=1.25, **more)


def test_the_table_shows_what_needs_a_hand_and_stderr_counts_all(capsys: pytest.CaptureFixture[str]) -> None:
    show(report(WRONG, OPEN, RIGHT), show_all=False)
    out, err = capsys.readouterr()
    assert [line.split()[0:4] for line in out.splitlines()] == [
        ["NODE", "CHECK", "SUBJECT", "RESULT"],
        ["storage1", "net.mtu", "rail0", "FAIL"],
        ["storage1", "net.mtu", "rail0", "UNKNOWN"],
    ]
    assert "1500, should be 9000" in out
    assert "2 of 2 nodes read in 1.2 s: 1 pass, 1 fail, 1 unknown (1 on simulated hardware)" in err
    assert err.rstrip().endswith("next: kvctl plan")


def test_all_shows_what_passes_too(capsys: pytest.CaptureFixture[str]) -> None:
    show(report(RIGHT), show_all=True)
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split() == ["storage1", "net.mtu", "rail0", "ok", "9000"]
    assert "next:" not in err


def test_a_clean_fleet_prints_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    show(report(RIGHT), show_all=False)
    assert capsys.readouterr().out == ""


def test_a_node_that_was_not_read_is_named_and_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(report(unreachable=(Unreachable("gpu1", "KV-SSH-001", "re\x1b[2Jfused", "start sshd"),)), show_all=False)
    err = capsys.readouterr().err
    assert "gpu1: not read: KV-SSH-001 re?[2Jfused. start sshd" in err
    assert "1 of 2 nodes read" in err


@pytest.mark.parametrize(
    ("one", "shown"),
    [
        (WRONG, True),
        (RIGHT, False),
        (OPEN, True),
        (finding(Verdict.UNKNOWN, Severity.INFO), False),
        (finding(Verdict.FOLLOWS), False),
        (finding(Verdict.WAIVED), False),
    ],
)
def test_what_needs_eyes(one: Finding, shown: bool) -> None:
    assert needs_eyes(one) is shown


def test_the_remedy_is_told_only_when_it_takes_hands() -> None:
    hands = finding(Verdict.FAIL, observed="", expected="8 lanes", remedy=Remedy(text="Reseat the card."))
    assert detail(hands) == "-, should be 8 lanes. Reseat the card."
    assert detail(WRONG) == "1500, should be 9000"


@pytest.mark.parametrize("item", ["leaf1", "leaf1=", "leaf1=/nonexistent"])
def test_a_switchs_output_is_a_name_and_a_file(item: str) -> None:
    with pytest.raises(BadParameter):
        read_switches((item,))
