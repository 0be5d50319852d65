import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kvctl.fleet.probe.collect import collect
from tests.fleet.facts.hardware import RAILS, drive, put, storage_node


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    return collect()


def ip(*words: str) -> Any:
    return json.loads(subprocess.run(["ip", "-j", *words], capture_output=True, check=True).stdout)


def test_kernel_boot_and_machine_are_those_of_proc(here: dict[str, Any]) -> None:
    host = here["host"]
    assert host["kernel"]["v"] == os.uname().release
    assert host["boot_id"]["v"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert host["python"]["v"].startswith("3.")
    assert host["cpus"]["v"] == os.cpu_count()
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert host["memory"]["v"] == int(total.split()[1]) * 1024
    assert host["sysctls"]["v"]["net.core.somaxconn"] == Path("/proc/sys/net/core/somaxconn").read_text().strip()


@pytest.mark.skipif(shutil.which("ip") is None, reason="needs iproute2 to compare with: install iproute2")
def test_links_and_addresses_are_those_of_ip(here: dict[str, Any]) -> None:
    links = {link["ifname"]: link for link in ip("-d", "address", "show")}
    assert set(here["net"]) == set(links)
    for name, link in links.items():
        found = here["net"][name]
        assert found["mtu"]["v"] == link["mtu"]
        assert found["operstate"]["v"] == link["operstate"].lower()
        addresses = [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]]
        assert sorted(found["addresses"]["v"]) == sorted(addresses)
        assert found["kind"] == link.get("linkinfo", {}).get("info_kind", "")


def test_every_leaf_has_a_value_or_a_reason(here: dict[str, Any]) -> None:
    def check(value: Any, path: str) -> int:
        if isinstance(value, dict) and "src" in value:
            assert ("v" in value) != ("unknown" in value), path
            return 1
        if isinstance(value, dict):
            return sum(check(item, f"{path}/{key}") for key, item in value.items())
        return 0

    assert sum(check(here[part], part) for part in ("host", "net", "rdma", "nvme", "pci")) > 20


def test_only_interfaces_on_a_bus_are_asked_for_nic_state(here: dict[str, Any]) -> None:
    for name, interface in here["net"].items():
        physical = Path(f"/sys/class/net/{name}/device").exists()
        assert ("dcb" in interface) == physical, name


def test_a_document_without_tools(here: dict[str, Any]) -> None:
    assert collect(run_tools=False)["tools"] == {}
    assert here["tools"]


def test_a_tool_that_is_not_installed_is_told_once(here: dict[str, Any]) -> None:
    missing = [key for key, entry in here["tools"].items() if entry.get("unknown") == "not installed"]
    assert missing
    assert all(":" not in key and shutil.which(key) is None for key in missing)


def test_a_recorded_tree_is_read_below_its_root_and_no_tool_runs(tmp_path: Path) -> None:
    raw = collect(str(storage_node(tmp_path)))
    assert set(raw["net"]) == {"bond0", *RAILS}
    assert raw["net"][RAILS[0]]["device"] == "0000:41:00.0"
    assert raw["net"]["bond0"]["kind"] == "bond"
    assert raw["net"][RAILS[0]]["mtu"] == {"v": "9000", "src": f"/sys/class/net/{RAILS[0]}/mtu"}
    assert raw["rdma"]["mlx5_0"]["ports"]["1"]["traffic_class"]["v"] == "Global tclass=106"
    assert sorted(raw["block"]) == ["nvme1n1", "nvme2n1"]
    assert set(raw["tools"]) == {"mstflint.query:0000:41:00.0", *(f"mlnx_qos:{name}" for name in RAILS)}
    assert raw["errors"] == []


def test_an_empty_tree_gives_an_empty_document(tmp_path: Path) -> None:
    raw = collect(str(tmp_path))
    assert (raw["net"], raw["rdma"], raw["nvme"], raw["block"], raw["pci"]) == ({}, {}, {}, {}, {})
    assert raw["host"]["hostname"]["unknown"] == "no such file"
    assert raw["errors"] == ["mounts: no such file"]


def test_binary_data_in_a_file_is_unknown(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/class/infiniband/mlx5_0/fw_ver", b"\x00\x01\xff")
    put(root, f"/sys/class/net/{RAILS[0]}/speed", b"\xff\xfe")
    raw = collect(str(root))
    assert raw["rdma"]["mlx5_0"]["fw_ver"]["unknown"] == "the file holds binary data"
    assert raw["net"][RAILS[0]]["sysfs"]["speed"]["unknown"] == "the file holds binary data"


def test_a_file_that_may_not_be_read_says_so() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = storage_node(Path(folder))
        (root / "sys/class/infiniband/mlx5_0/fw_ver").chmod(0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            raw = collect(str(root))
        finally:
            if user == 0:
                os.seteuid(0)
    assert raw["rdma"]["mlx5_0"]["fw_ver"]["unknown"] == "permission denied"
    assert raw["rdma"]["mlx5_0"]["hca_type"]["v"] == "MT4125"


def test_a_folder_where_a_file_should_be_is_unknown(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    (root / "sys/class/infiniband/mlx5_0/fw_ver").unlink()
    (root / "sys/class/infiniband/mlx5_0/fw_ver").mkdir()
    assert collect(str(root))["rdma"]["mlx5_0"]["fw_ver"]["unknown"] == "is a directory"


def test_a_link_that_leads_round_in_a_circle_is_no_hang(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    (root / "sys/class/net/loop0").symlink_to("loop0")
    (root / "sys/class/nvme/nvme9").symlink_to("../nvme/nvme9")
    assert "loop0" not in collect(str(root))["net"]


def test_devices_that_vanish_while_they_are_read_never_end_the_probe(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    stop = threading.Event()
    device = root / "sys/class/infiniband/mlx5_0"
    drive = root / "sys/class/nvme/nvme1"
    targets = {path: path.readlink() for path in (device, drive)}

    def flap() -> None:
        while not stop.is_set():
            for path, target in targets.items():
                path.unlink()
                path.symlink_to(target)

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            raw = collect(str(root))
            assert raw["net"][RAILS[1]]["mtu"]["v"] == "9000"
    finally:
        stop.set()
        thread.join()


def test_the_lab_marker_is_shipped(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    assert collect(str(root))["lab"] is None
    put(root, "/etc/kvctl-lab.json", '{"lab": true}')
    assert collect(str(root))["lab"]["lab"] is True


def test_a_marker_that_cannot_be_read_still_marks_the_host(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    (root / "etc/kvctl-lab.json").mkdir()
    assert collect(str(root))["lab"]["lab"] is True


def test_namespaces_of_a_network_target_are_not_touched(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    drive(root, 3, "REMOTE", transport="tcp")
    raw = collect(str(root))
    assert raw["nvme"]["nvme3"]["transport"]["v"] == "tcp"
    assert "nvme3n1" not in raw["block"]
