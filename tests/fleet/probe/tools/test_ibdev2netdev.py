import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.ibdev2netdev import parse

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

PLAIN = sample("ibdev2netdev/mixed_up_down_ib.txt")
VERBOSE = (
    "0000:01:00.0 mlx5_0 (MT4123 - MCX653105A-HDAT) ConnectX-6 VPI adapter card, HDR IB (200Gb/s) and 200GbE,"
    " single-port QSFP56 fw 20.28.1002 port 1 (ACTIVE) ==> p5p1 (Up)\n"
    "0000:02:00.1 mlx5_2 (MT4120 - NA) fw 16.26.4012 port 1 (DOWN  ) ==> ib2 (Down)\n"
    "mlx4_0 (mt26428 - MT1037X01146) KESTREL        QDR             fw 2.9.1000 port 1 (ACTIVE) ==> ib0 (Up)\n"
)


def test_mixed_ports() -> None:
    rows = parse(PLAIN)
    assert len(rows) == 6
    assert [row.netdev for row in rows if row.ipoib] == ["ib0"]
    assert [row.rdma for row in rows if not row.up] == ["mlx5_4", "mlx5_6"]
    assert (rows[0].rdma, rows[0].port, rows[0].netdev) == ("mlx5_2", 1, "ens6")


def test_verbose() -> None:
    first, virtual, old = parse(VERBOSE)
    assert (first.pci, first.hca_type, first.part_number) == ("0000:01:00.0", "MT4123", "MCX653105A-HDAT")
    assert (first.firmware, first.port_state, first.netdev, first.up) == ("20.28.1002", "ACTIVE", "p5p1", True)
    assert first.description == "ConnectX-6 VPI adapter card, HDR IB (200Gb/s) and 200GbE, single-port QSFP56"
    assert (virtual.part_number, virtual.port_state, virtual.up, virtual.description) == (None, "DOWN", False, None)
    assert (old.rdma, old.pci, old.firmware) == ("mlx4_0", None, "2.9.1000")


def test_no_devices() -> None:
    assert parse("") == ()


def test_other_texts_are_refused() -> None:
    with pytest.raises(ToolOutputError):
        parse("bash: ibdev2netdev: command not found\n")


def test_cut_noise_and_damage() -> None:
    for text in (PLAIN, VERBOSE):
        assert_cut_changes_nothing(parse, text)
        assert_noise_changes_nothing(parse, text)
    assert_survives_damage(parse, [PLAIN, VERBOSE])


def test_columns_aligned_by_column() -> None:
    text = "mlx5_0   port  1  ==>  ens21np0     (Up)    # rail 0\nmlx5_11  port  1  ==>  ibp204s0     (Down)\n"
    assert [(row.rdma, row.netdev, row.up) for row in parse(text)] == [
        ("mlx5_0", "ens21np0", True),
        ("mlx5_11", "ibp204s0", False),
    ]
