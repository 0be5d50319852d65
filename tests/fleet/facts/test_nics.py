import json
from pathlib import Path

import pytest

from kvctl.fleet.facts.build import node_facts
from kvctl.fleet.facts.nics import same_version
from kvctl.types.facts import Nic
from tests.fleet.facts.hardware import (
    CARD,
    FLINT,
    RAILS,
    document,
    facts,
    link,
    netdev,
    pci_function,
    put,
    storage_node,
    tool,
)


def first(root: Path) -> Nic:
    nic = facts(root).nic(RAILS[0])
    assert nic is not None
    return nic


def test_a_nic_has_identity_link_and_firmware_with_sources(tmp_path: Path) -> None:
    nic = first(storage_node(tmp_path))
    assert (nic.pci.value, nic.driver.value, nic.vendor_id.value, nic.device_id.value) == (
        f"{CARD}.0",
        "mlx5_core",
        "15b3",
        "101d",
    )
    assert (nic.mtu.value, nic.speed.value, nic.carrier.value, nic.carrier_changes.value) == (9000, 100000, True, 2)
    assert (nic.pcie.current_speed.value, nic.pcie.max_width.value, nic.numa.value) == (16.0, 16, 0)
    assert nic.psid.value == "MT_0000000359"
    assert nic.fw_running.value == "22.36.1010"
    assert "mstflint.query" in nic.fw_running.source
    assert nic.speed.source == f"/sys/class/net/{RAILS[0]}/speed"


def test_only_functions_with_a_bus_device_are_nics(tmp_path: Path) -> None:
    assert [nic.netdev for nic in facts(storage_node(tmp_path)).nics] == list(RAILS)


def test_functions_of_one_card_share_what_was_asked_of_its_first(tmp_path: Path) -> None:
    node = facts(storage_node(tmp_path))
    assert [nic.fw_stored.value for nic in node.nics] == ["22.36.1010", "22.36.1010"]
    assert len({nic.rdma.sys_image_guid.value for nic in node.nics}) == 1


def test_a_virtual_function_is_marked(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    device = pci_function(root, f"{CARD}.2", "0000:40:01.1", {"vendor": "0x15b3", "class": "0x020000"}, "mlx5_core")
    link(root, f"{device}/physfn", f"/sys/bus/pci/devices/{CARD}.0")
    netdev(root, "enp65s0f0v0", device, {})
    marks = {nic.netdev: nic.virtual_function.value for nic in facts(root).nics}
    assert marks == {"enp65s0f0np0": False, "enp65s0f1np1": False, "enp65s0f0v0": True}


def test_running_and_stored_firmware_differ_until_the_reset(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    for port in (0, 1):
        put(root, f"/sys/class/infiniband/mlx5_{port}/fw_ver", "22.34.1002\n")
    text = FLINT.replace("FW Release", "FW Version(Running):   22.34.1002\nFW Release")
    tool(root, f"mstflint.query:{CARD}.0", text)
    nic = first(root)
    assert (nic.fw_running.value, nic.fw_stored.value) == ("22.34.1002", "22.36.1010")
    assert facts(root).errors == ()


def test_a_contradiction_is_told_and_the_kernel_counts(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/class/infiniband/mlx5_0/fw_ver", "22.34.1002\n")
    node = facts(root)
    nic = node.nic(RAILS[0])
    assert nic is not None
    assert nic.fw_running.value == "22.34.1002"
    assert any("running firmware" in line and RAILS[0] in line for line in node.errors)


def test_versions_padded_differently_are_the_same() -> None:
    assert same_version("14.26.0017", "14.26.17")
    assert not same_version("14.26.17", "14.26.18")


def test_without_the_tool_the_kernel_tells_the_version(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    (root / f"tools/mstflint.query:{CARD}.0.txt").unlink()
    nic = first(root)
    assert (nic.fw_running.value, nic.fw_running.source) == ("22.36.1010", "/sys/class/infiniband/mlx5_0/fw_ver")
    assert "mstflint was not run" in nic.fw_stored.unknown


@pytest.mark.parametrize("why", ["timed out after 15 s", "it printed more than 1048576 bytes", "not installed"])
def test_a_tool_without_an_answer_is_unknown_because(tmp_path: Path, why: str) -> None:
    raw = document(storage_node(tmp_path))
    raw["tools"] = {f"mstflint.query:{CARD}.0": {"argv": ["mstflint", "-d", f"{CARD}.0", "query"], "unknown": why}}
    nic = node_facts("n", raw).nics[0]
    assert nic.fw_stored.value is None
    assert why in nic.fw_stored.unknown
    assert nic.fw_running.value == "22.36.1010"


def test_a_failing_tool_is_quoted(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    failed = {"argv": ["mlnx_qos", "-i", RAILS[0]], "rc": 1, "out": "", "err": "Failed to open lib\n", "seconds": 0.1}
    raw["tools"][f"mlnx_qos:{RAILS[0]}"] = failed
    trust = node_facts("n", raw).nics[0].qos.trust
    assert "mlnx_qos ended with status 1: Failed to open lib" in trust.unknown


def test_garbage_from_a_tool_is_not_an_answer(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    tool(root, f"mstflint.query:{CARD}.0", b"\x00\xff\xfe garbage \x80" * 50)
    nic = first(root)
    assert "printed something else" in nic.fw_stored.unknown


def test_counters_get_common_names_and_an_absent_one_is_not_there(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    tool(root, f"ethtool.stats:{RAILS[0]}", "NIC statistics:\n     rx_pfc_ena_frames_pri3: 5\n     tx_bytes: 9\n")
    counters = first(root).counters.value
    assert counters is not None
    assert counters["rx_prio3_pause"] == 5
    assert counters["tx_bytes"] == 9
    assert "tx_prio3_pause" not in counters


def test_no_counters_is_unknown_not_empty(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    tool(root, f"ethtool.stats:{RAILS[0]}", "no stats available\n")
    assert first(root).counters.unknown


def test_vital_product_data_names_part_and_serial(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    body = b"PN" + bytes([15]) + b"MCX623106AN-CDA" + b"SN" + bytes([12]) + b"MT2222X00001"
    put(root, f"/sys/bus/pci/devices/{CARD}.0/vpd", b"\x90" + len(body).to_bytes(2, "little") + body + b"\x78")
    node = facts(root)
    assert {(nic.part_number.value, nic.serial.value) for nic in node.nics} == {("MCX623106AN-CDA", "MT2222X00001")}


def test_what_a_stand_in_told_is_marked(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/etc/kvctl-lab.json", '{"lab": true, "simulated": ["mlnx_qos", "/sys/class/infiniband"]}')
    raw = document(root)
    raw["tools"][f"mlnx_qos:{RAILS[0]}"]["argv"] = ["mlnx_qos", "-i", RAILS[0]]
    node = node_facts("n", raw)
    nic = node.nics[0]
    assert node.lab
    assert node.simulated == ("mlnx_qos", "/sys/class/infiniband")
    assert nic.qos.trust.simulated
    assert nic.rdma.state.simulated
    assert not nic.mtu.simulated


@pytest.mark.parametrize(
    ("connection", "carries"),
    [
        ("198.51.100.9 50000 198.51.100.1 22", {"bond0", *RAILS}),
        ("2001:db8::9 50000 2001:db8::1 22", {"bond0", *RAILS}),
        ("198.51.100.9 50000 192.0.2.1 22", {RAILS[1]}),
    ],
)
def test_the_interfaces_below_the_address_carry_ssh(tmp_path: Path, connection: str, carries: set[str]) -> None:
    raw = document(storage_node(tmp_path))
    raw["host"]["ssh_connection"] = {"v": connection, "src": "SSH_CONNECTION"}
    raw["net"]["bond0"]["addresses"] = {"v": ["198.51.100.1/24", "2001:db8::1/64"], "src": "netlink"}
    raw["net"][RAILS[1]]["addresses"] = {"v": ["192.0.2.1/24"], "src": "netlink"}
    for name in RAILS:
        raw["net"][name]["master"] = "bond0"
    found = {nic.netdev for nic in node_facts("n", raw).nics if nic.carries_ssh.value}
    assert found == carries - {"bond0"}


def test_who_carries_ssh_is_unknown_without_a_connection(tmp_path: Path) -> None:
    assert first(storage_node(tmp_path)).carries_ssh.value is None


def test_a_port_of_the_kernels_simulator_is_a_nic_without_a_pci_address(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/devices/netdevsim10/uevent", "DRIVER=netdevsim\n")
    link(root, "/sys/devices/netdevsim10/subsystem", "/sys/bus/netdevsim")
    netdev(root, "eni10np1", "/sys/devices/netdevsim10", {})
    info = {"driver": "netdevsim", "versions": {"running": {"fw": "1.2.3"}, "stored": {"fw": "1.2.4"}}}
    tool(root, "devlink.info", json.dumps({"info": {"netdevsim/netdevsim10": info}}))
    nic = facts(root).nic("eni10np1")
    assert nic is not None
    assert nic.pci.unknown == "the interface is not on PCI"
    assert (nic.fw_running.value, nic.fw_stored.value, nic.mtu.value) == ("1.2.3", "1.2.4", 9000)


def test_an_interface_on_usb_is_no_nic(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-7/1-7:1.0/uevent", "DRIVER=cdc_ether\n")
    netdev(root, "usb0", "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-7/1-7:1.0", {})
    assert [nic.netdev for nic in facts(root).nics] == list(RAILS)
