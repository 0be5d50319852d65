import json
from pathlib import Path

import pytest

from kvctl.fleet.facts.build import node_facts
from kvctl.types.facts import Drive
from tests.fleet.facts.hardware import SAMPLES, document, drive, facts, link, namespace, put, storage_node, tool


def by_serial(root: Path) -> dict[str | None, Drive]:
    return {one.serial.value: one for one in facts(root).drives}


def test_a_drive_is_known_by_its_serial(tmp_path: Path) -> None:
    found = by_serial(storage_node(tmp_path))
    assert set(found) == {"S1", "S2"}
    one = found["S1"]
    assert (one.model.value, one.firmware.value, one.state.value) == ("SAMSUNG MZWLO3T8HCLS-00A07", "OPPA1B5Q", "live")
    assert (one.pci.value, one.pcie.current_speed.value, one.pcie.max_speed.value) == ("0000:c1:00.0", 16.0, 32.0)
    [space] = one.namespaces
    assert (space.size.value, space.lba.value, space.nsid.value) == (7501476528 * 512, 512, 1)
    assert (space.scheduler.value, space.rotational.value, space.io_timeout.value) == ("none", False, 30000)


def test_no_numa_node_is_unknown_not_minus_one(tmp_path: Path) -> None:
    assert by_serial(storage_node(tmp_path))["S1"].numa.value is None


def test_drives_of_a_network_target_are_left_out(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    drive(root, 3, "REMOTE", transport="tcp")
    assert set(by_serial(root)) == {"S1", "S2"}


def test_a_multipath_namespace_belongs_to_its_controller_whatever_its_number(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    drive(root, 4, "S4", block="nvme7c4n1")
    hidden = (root / "sys/class/nvme/nvme4/nvme7c4n1").resolve()
    (hidden / "hidden").write_text("1\n")
    (hidden / "size").write_text("0\n")
    (root / "sys/block/nvme7c4n1").unlink()
    namespace(root, "/sys/devices/virtual/nvme-subsystem/nvme-subsys7/nvme7n1", "nvme7n1", 9)
    link(root, "/sys/class/nvme-subsystem/nvme-subsys7", "/sys/devices/virtual/nvme-subsystem/nvme-subsys7")
    put(root, "/sys/devices/virtual/nvme-subsystem/nvme-subsys7/nvme4", "")
    names = {serial: [space.name for space in one.namespaces] for serial, one in by_serial(root).items()}
    assert names == {"S1": ["nvme1n1"], "S2": ["nvme2n1"], "S4": ["nvme7n1"]}


def test_identify_tells_formats_and_what_the_drive_can(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    tool(root, "nvme.id_ns_h:nvme1n1", (SAMPLES / "nvme_id-ns/H_lbaf_p4510_512_in_use.txt").read_text())
    tool(root, "nvme.id_ctrl:nvme1", (SAMPLES / "nvme_id-ctrl/id_ctrl_crypto_erase.json").read_text())
    one = by_serial(root)["S1"]
    formats = one.namespaces[0].formats.value
    assert formats is not None
    assert [(each.data_size, each.performance, each.in_use) for each in formats] == [
        (512, "Good", True),
        (4096, "Best", False),
    ]
    assert one.crypto_erase.value is True
    assert one.format_supported.value is True


def test_two_block_sizes_that_differ_are_told(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/block/nvme1n1/queue/logical_block_size", "4096\n")
    tool(root, "nvme.id_ns_h:nvme1n1", (SAMPLES / "nvme_id-ns/H_lbaf_p4510_512_in_use.txt").read_text())
    node = facts(root)
    assert node.drives[0].namespaces[0].lba.value == 4096
    assert any("nvme1n1: block size" in line for line in node.errors)


def test_wear_is_whole_or_unknown(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    text = (SAMPLES / "nvme_smart-log/o_json_1x_2x_int_wear15.json").read_text()
    tool(root, "nvme.smart_log:nvme1", text)
    part = json.loads(text)
    part.pop("media_errors")
    tool(root, "nvme.smart_log:nvme2", json.dumps(part))
    found = by_serial(root)
    assert found["S1"].smart.value is not None
    assert found["S1"].smart.value.percent_used == 15
    assert found["S2"].smart.value is None


@pytest.mark.parametrize("text", ["", "-1", "0", "511x", "NaN", "0x200", "\x00\x01"])
def test_a_block_size_that_is_none_is_unknown(tmp_path: Path, text: str) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/block/nvme1n1/queue/logical_block_size", text)
    assert by_serial(root)["S1"].namespaces[0].lba.value is None


def test_a_controller_that_is_gone_leaves_the_others(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    raw["nvme"]["nvme1"] = {}
    assert [one.serial.value for one in node_facts("n", raw).drives] == ["S2"]
