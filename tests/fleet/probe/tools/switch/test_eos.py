from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.switch import eos

TEXT = (
    Path(__file__).parents[4] / "data" / "samples" / "arista_eos" / "show_priority_flow_control_ports_disabled.txt"
).read_text()


def test_enabled_globally_and_on_no_port() -> None:
    found = eos.parse_pfc(TEXT)
    assert found.global_enabled is True
    assert {name: port.enabled for name, port in found.ports.items()} == {"Et1": False, "Et2": False}
    assert found.ports["Et1"].priorities == frozenset()
    assert (found.watchdog_timeout_s, found.watchdog_action) == (0.0, "errdisable")
    assert found.hardware_priorities == frozenset(range(8))


@pytest.mark.parametrize(("cell", "priorities"), [("3  ", {3}), ("3,4", {3, 4}), ("34 ", {3, 4}), ("3 4", {3, 4})])
def test_port_with_lossless_priorities(cell: str, priorities: set[int]) -> None:
    row = "Et1        E A W   " + cell + "         errdisable  0.2      1.0 / auto      -"
    port = eos.parse_pfc(TEXT.replace(next(line for line in TEXT.splitlines() if line.startswith("Et1 ")), row)).ports[
        "Et1"
    ]
    assert (port.enabled, port.active, port.watchdog) == (True, True, True)
    assert port.priorities == frozenset(priorities)


def test_table_of_older_releases() -> None:
    found = eos.parse_pfc(
        "The hardware supports PFC on priorities 0 1 2 3 4 5 6 7\n\n"
        "Port       Enabled Priorities Active Note\n"
        "Et5/1      Yes     3,4        No     DCBX disabled\n"
        "Et6/1      No                 No\n"
    )
    assert found.ports["Et5/1"] == eos.EosPfcPort(True, False, None, frozenset({3, 4}), "DCBX disabled")
    assert found.ports["Et6/1"].enabled is False
    assert found.global_enabled is None


@pytest.mark.parametrize("text", ["", "% Invalid input", "Port Status\nEt1 D"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        eos.parse_pfc(text)
