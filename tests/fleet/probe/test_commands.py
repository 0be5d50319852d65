from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.probe import commands
from kvctl.fleet.probe.collect import collect
from kvctl.fleet.probe.tree import Tree
from tests.fleet.facts.hardware import CARD, RAILS, storage_node

# Every form that may be run. A form that is not here could change something.
READING = (
    "systemctl show",
    "ethtool -i",
    "ethtool -a",
    "ethtool -S",
    "ethtool --show-priv-flags",
    "mlnx_qos -i",
    "lldptool -t",
    "dcb -j",
    "mstflint -d",
    "flint -d",
    "mstconfig -d",
    "mlxconfig -d",
    "mlxfwmanager --query",
    "niccli --list_devices",
    "devlink -j",
    "rdma -j",
    "ibv_devinfo -v",
    "ibdev2netdev",
    "cma_roce_tos -d",
    "cma_roce_mode -d",
    "nvme id-ctrl",
    "nvme id-ns",
    "nvme smart-log",
    "lsblk -J",
    "nvidia-smi -q",
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {form.split()[0] for form in READING}:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def jobs(raw: dict[str, Any], lab: str = "") -> dict[str, list[str]]:
    return {job.key: job.argv for job in commands.wanted(raw, Tree(), lab).jobs}


def test_only_reading_forms_are_run(tmp_path: Path, installed: Path) -> None:
    raw = collect(str(storage_node(tmp_path / "node")))
    found = jobs(raw, '["dcb"]')
    assert found
    for argv in found.values():
        assert " ".join(argv[:2]) in READING or argv[0] in READING, argv
    for word in ("set", "burn", "b", "reset", "format", "-s", "--pfc", "-t", "--trust", "-y", "--yes", "-u"):
        assert not [argv for argv in found.values() if word in argv[1:] and argv[0] != "lldptool"], word


def test_lldptool_only_shows(tmp_path: Path, installed: Path) -> None:
    found = jobs(collect(str(storage_node(tmp_path / "node"))))
    shown = [argv for argv in found.values() if argv[0] == "lldptool"]
    assert shown
    assert all(argv[1] == "-t" and "-T" not in argv and "-L" not in argv for argv in shown)


def test_firmware_is_asked_once_a_card_and_never_of_virtual_functions(tmp_path: Path, installed: Path) -> None:
    raw = collect(str(storage_node(tmp_path / "node")))
    raw["net"]["v0"] = {**raw["net"][RAILS[0]], "device": "0000:99:00.2", "virtual_function": True}
    raw["pci"]["0000:99:00.2"] = raw["pci"][f"{CARD}.0"]
    found = jobs(raw)
    assert [key for key in found if key.startswith("mstflint")] == [f"mstflint.query:{CARD}.0"]
    groups = {job.key: job.group for job in commands.wanted(raw, Tree(), "").jobs}
    assert groups[f"mstflint.query:{CARD}.0"] == groups[f"mlxconfig.query:{CARD}.0"] != ""


def test_the_manager_is_asked_only_without_the_flash_tools(tmp_path: Path, installed: Path) -> None:
    raw = collect(str(storage_node(tmp_path / "node")))
    assert "mlxfwmanager.query" not in jobs(raw)
    (installed / "mstflint").unlink()
    assert jobs(raw)[f"mstflint.query:{CARD}.0"][0] == "flint"
    (installed / "flint").unlink()
    assert jobs(raw)["mlxfwmanager.query"] == ["mlxfwmanager", "--query"]


def test_the_dcb_command_is_left_out_where_the_kernel_answered(tmp_path: Path, installed: Path) -> None:
    raw = collect(str(storage_node(tmp_path / "node")))
    raw["net"][RAILS[0]]["dcb"] = {"ieee": {"v": True, "src": "netlink"}}
    raw["net"][RAILS[1]]["dcb"] = {"ieee": {"unknown": "operation not supported", "src": "netlink"}}
    assert not [key for key in jobs(raw) if key.startswith("dcb.")]
    assert f"dcb.pfc:{RAILS[0]}" in jobs(raw, '{"simulated": ["dcb"]}')


def test_interfaces_without_a_bus_get_no_tool(tmp_path: Path, installed: Path) -> None:
    found = jobs(collect(str(storage_node(tmp_path / "node"))))
    assert not [key for key in found if key.endswith(":bond0")]


def test_drives_of_a_network_target_get_no_command(tmp_path: Path, installed: Path) -> None:
    raw = collect(str(storage_node(tmp_path / "node")))
    raw["nvme"]["nvme1"]["transport"] = {"v": "rdma", "src": "sysfs"}
    found = jobs(raw)
    assert "nvme.id_ctrl:nvme2" in found
    assert "nvme.id_ctrl:nvme1" not in found


def test_adapters_that_niccli_numbers_are_asked_for_their_class(installed: Path) -> None:
    listing = (Path(__file__).parents[2] / "data/samples/niccli/list_devices_thor2.txt").read_text()
    second = commands.after({"niccli.devices": {"out": listing}})
    assert [(job.key, job.argv) for job in second.jobs] == [
        ("niccli.qos:0000:22:00.0", ["niccli", "-dev", "1", "qos", "--ets", "--show"])
    ]


def test_a_node_without_hardware_is_asked_little(tmp_path: Path, installed: Path) -> None:
    assert set(jobs(collect(str(tmp_path / "nothing")))) <= {"systemctl", "nvidia_smi.xml"}
