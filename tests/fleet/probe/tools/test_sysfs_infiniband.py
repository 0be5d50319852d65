import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.sysfs_infiniband import by_type, parse_grep

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

TEXT = sample("sysfs_infiniband/grep_h100_cx7_plus_bf3_bond.txt")


def test_groups_of_comparable_devices() -> None:
    groups = by_type(parse_grep(TEXT))
    assert {hca: len(cas) for hca, cas in groups.items()} == {"MT4129": 8, "MT41692": 1}
    assert {ca.firmware for ca in groups["MT4129"]} == {"28.41.1000"}
    assert {ca.board_id for ca in groups["MT4129"]} == {"MT_0000000838"}
    assert [(ca.name, ca.firmware, ca.board_id) for ca in groups["MT41692"]] == [
        ("mlx5_bond_0", "32.38.3056", "MT_0000000884")
    ]


def test_ports() -> None:
    cas = parse_grep(TEXT)
    assert [ca.name for ca in cas if ca.ports[0].link_layer == "Ethernet"] == ["mlx5_bond_0"]
    port = cas[0].ports[0]
    assert (port.number, port.state, port.physical_state, port.rate) == (1, "ACTIVE", "LinkUp", 400.0)
    assert port.counters["port_xmit_wait"] == 2489603687
    assert port.hw_counters["roce_adp_retrans"] == 3
    assert cas[1].ports[0].counters == {}


def test_device_path_with_colons_and_plain_attributes() -> None:
    device = "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/infiniband/mlx5_3"
    (ca,) = parse_grep(
        f"{device}/node_desc:node01 mlx5_3\n{device}/ports/1/rate:25 Gb/sec (1X EDR)\n"
        f"{device}/ports/1/counters/symbol_error:N/A (no PMA)\n"
    )
    assert ca.attributes == {"node_desc": "node01 mlx5_3"}
    assert (ca.ports[0].rate, ca.ports[0].counters, ca.firmware) == (25.0, {}, None)


def test_two_contents_of_one_file_are_refused() -> None:
    with pytest.raises(ToolOutputError, match="contradicts itself"):
        parse_grep(TEXT + "/sys/class/infiniband/mlx5_0/fw_ver:28.39.2048\n")


@pytest.mark.parametrize("text", ["", "grep: /sys/class/infiniband: No such file or directory\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_grep(text)


def test_cut_noise_and_damage() -> None:
    assert_cut_changes_nothing(parse_grep, TEXT)
    assert_noise_changes_nothing(parse_grep, TEXT)
    assert_survives_damage(parse_grep, [TEXT])
