from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.switch import nxos

SAMPLES = Path(__file__).parents[4] / "data" / "samples" / "nxos"


def test_auto_without_agreement_is_off() -> None:
    found = nxos.parse_pfc((SAMPLES / "show_int_pfc_auto_off.txt").read_text())
    assert list(found.ports) == ["Ethernet1/27", "Ethernet1/28"]
    port = found.ports["Ethernet1/27"]
    assert (port.mode, port.oper, port.priorities) == ("auto", False, frozenset())
    assert (port.rx_frames, port.tx_frames) == (0, 0)


TABLE = """\
============================================================
Port               Mode Oper(VL bmap)  RxPPP      TxPPP
============================================================

Ethernet1/1        Auto On   (9)       4088353    1890
Ethernet1/2        On   On  (8)        0          12
Ethernet1/3        On   On  (18)       1          2
Ethernet1/4        Off  Off            0          0
Vethernet9547      Auto Off            3          0
"""


def test_virtual_lanes() -> None:
    ports = nxos.parse_pfc(TABLE).ports
    assert ports["Ethernet1/1"].priorities == frozenset({0, 3})
    assert (ports["Ethernet1/2"].mode, ports["Ethernet1/2"].priorities) == ("on", frozenset({3}))
    assert (ports["Ethernet1/1"].rx_frames, ports["Ethernet1/1"].tx_frames) == (4088353, 1890)
    assert (ports["Ethernet1/4"].mode, ports["Ethernet1/4"].oper) == ("off", False)
    assert "Vethernet9547" in ports


def test_a_map_that_reads_two_ways_is_unknown() -> None:
    port = nxos.parse_pfc(TABLE).ports["Ethernet1/3"]
    assert (port.vl_bitmap, port.priorities) == ("18", None)


def test_detail() -> None:
    found = nxos.parse_pfc(
        "Ethernet1/1\n    Admin Mode: Auto\n    Oper Mode: On\n    VL bitmap: (8)\n"
        "    Total Rx PFC Frames: 7\n    Total Tx PFC Frames: 9\n"
    )
    port = found.ports["Ethernet1/1"]
    assert (port.mode, port.oper, port.priorities, port.rx_frames, port.tx_frames) == (
        "auto",
        True,
        frozenset({3}),
        7,
        9,
    )


@pytest.mark.parametrize("text", ["", "% Invalid command at '^' marker.", "Ethernet1/1  Auto Off 0 0"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        nxos.parse_pfc(text)


def test_a_broken_row_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        nxos.parse_pfc(TABLE + "Ethernet1/9        Auto O")
