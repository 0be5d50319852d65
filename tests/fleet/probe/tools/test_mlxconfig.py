import json

import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.mlxconfig import NvRow, parse_devices, parse_query, value_number

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("mlxconfig")


def test_next_boot_differs() -> None:
    rows = parse_query(sample("mlxconfig/e_query_next_boot_differs.txt"))
    assert rows["KEEP_IB_LINK_UP_P2"] == NvRow("False(0)", "True(1)", "True(1)", differs=True)
    assert rows["KEEP_IB_LINK_UP_P2"].pending is False
    assert rows["MEMIC_SIZE_LIMIT"].next_boot == "DISABLED(0)"
    assert rows["MEMIC_SIZE_LIMIT"].pending is True
    assert rows["KEEP_LINK_UP_ON_BOOT_P2"].differs is False
    assert rows["ESWITCH_HAIRPIN_DESCRIPTORS"].current == "Array[0..7]"
    assert len(rows) == 4


def test_array_items() -> None:
    rows = parse_query(sample("mlxconfig/e_query_array_items.txt"))
    assert len(rows) == 8
    assert {value_number(row.current) for row in rows.values()} == {128}


def test_value_name_and_number_are_apart() -> None:
    value = parse_query(sample("mlxconfig/e_query_bf3_mode.txt"))["INTERNAL_CPU_OFFLOAD_ENGINE"].current
    assert value == "ENABLED(0)"
    assert value_number(value) == 0


def test_device_without_configurations() -> None:
    text = sample("mlxconfig/e_query_no_configurations.txt")
    assert parse_query(text) == {}
    assert parse_devices(text)[0].device_type == "ConnectX4"


def test_plain_query_has_only_the_next_boot_column_and_read_only_marks() -> None:
    (device,) = parse_devices(
        "\nDevice #1:\n----------\n\nDevice type:        ConnectX6DX         \n"
        "Name:               MCX623106AN-CDA_Ax  \n"
        "Description:        ConnectX-6 Dx EN adapter card; 100GbE; Dual-port QSFP56; PCIe 4.0 x16;\n"
        "Device:             0000:41:00.0        \n\n"
        "Configurations:                                          Next Boot           \n"
        "        LINK_TYPE_P1                                ETH(2)              \n"
        " RO     ROCE_NEXT_PROTOCOL                          254                 \n"
        "        _INTERNAL_CPU_MODEL                         SEPARATED_HOST(0)   \n"
        "        ADVANCED_PCI_SETTINGS                       N/A                 \n"
    )
    assert (device.device_type, device.device, device.name) == ("ConnectX6DX", "0000:41:00.0", "MCX623106AN-CDA_Ax")
    assert device.rows["LINK_TYPE_P1"] == NvRow(next_boot="ETH(2)")
    assert device.rows["LINK_TYPE_P1"].pending is None
    assert device.rows["ROCE_NEXT_PROTOCOL"] == NvRow(next_boot="254", read_only=True)
    assert device.rows["_INTERNAL_CPU_MODEL"].next_boot == "SEPARATED_HOST(0)"
    assert device.rows["ADVANCED_PCI_SETTINGS"].next_boot is None


def test_json_file() -> None:
    row = {"read_only": False, "next_value": "ETH(2)", "current_value": "IB(1)", "default_value": 7, "modified": True}
    text = json.dumps({"Device #1": {"device_type": "ConnectX7", "tlv_configuration": {"LINK_TYPE_P1": row}}})
    assert parse_query(text) == {"LINK_TYPE_P1": NvRow("7", "IB(1)", "ETH(2)", differs=True)}


def test_two_devices_need_their_own_entry() -> None:
    text = sample("mlxconfig/e_query_bf3_mode.txt") + sample("mlxconfig/e_query_next_boot_differs.txt")
    assert [len(device.rows) for device in parse_devices(text)] == [1, 4]
    with pytest.raises(ToolOutputError, match="2 devices"):
        parse_query(text)


@pytest.mark.parametrize("text", ["", "-E- Failed to open device: 0000:41:00.0\n", "{}", "[1]"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse_query(text)


@pytest.mark.parametrize("path", ALL)
def test_cut_and_noise(path: str) -> None:
    assert_cut_changes_nothing(parse_query, sample(path))
    assert_noise_changes_nothing(parse_query, sample(path))


def test_damage() -> None:
    assert_survives_damage(parse_query, [sample(path) for path in ALL])
    assert_survives_damage(parse_devices, [json.dumps({"Device #1": {"tlv_configuration": {"A": {"next_value": 1}}}})])


def test_the_answer_to_set_leaves_the_next_boot_open() -> None:
    text = """Device #1:
----------

Device type:        ConnectX7
Device:             51:00.0

Configurations:                                          Next Boot       New
        NUM_OF_VFS                                  4                    16
        SRIOV_EN                                    False(0)             True(1)

 Apply new Configuration? (y/n) [n] : y
Applying... Done!
"""
    assert {name: row.next_boot for name, row in parse_query(text).items()} == {"NUM_OF_VFS": None, "SRIOV_EN": None}
