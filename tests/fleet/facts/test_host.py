from pathlib import Path

import pytest

from kvctl.fleet.facts.build import node_facts
from kvctl.types.facts import Service
from tests.fleet.facts.hardware import document, facts, put, storage_node, tool

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07\n"


def test_operating_system_kernel_and_memory(tmp_path: Path) -> None:
    host = facts(storage_node(tmp_path)).host
    assert (host.os_id.value, host.os_version.value, host.hostname.value) == ("debian", "13", "storage1")
    assert (host.kernel.value, host.memory.value) == ("6.12.48+deb13-amd64", 1056000000 * 1024)
    assert not host.arch.known


def test_modules_are_named_with_underscores_and_built_in_ones_count(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/lib/modules/6.12.48+deb13-amd64/modules.builtin", "kernel/drivers/nvme/host/nvme-core.ko\n")
    modules = facts(root).host.modules.value
    assert modules is not None
    assert {"mlx5_core", "nvidia_peermem", "nvme_core"} <= modules


def test_a_setting_of_an_interface_with_a_dot_keeps_its_name(tmp_path: Path) -> None:
    settings = facts(storage_node(tmp_path)).host.sysctls.value
    assert settings is not None
    assert settings["net.ipv4.tcp_mtu_probing"] == "1"
    assert settings["net.ipv4.conf.eth0/100.rp_filter"] == "2"


def test_a_loaded_module_that_did_not_register_is_not_registered(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    assert facts(root).host.peermem_registered.value is False
    put(root, "/sys/kernel/mm/memory_peers/nv_mem_nc/version", "1.0\n")
    assert facts(root).host.peermem_registered.value is True


@pytest.mark.parametrize(("text", "able"), [(OPEN, True), (CLOSED, False), (None, None)])
def test_dma_buf_needs_the_open_driver(tmp_path: Path, text: str | None, able: bool | None) -> None:
    root = storage_node(tmp_path)
    if text:
        put(root, "/proc/driver/nvidia/version", text)
    assert facts(root).host.dmabuf.value is able


def test_units_that_are_not_on_the_node_are_left_out(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    assert not facts(root).host.services.known
    tool(
        root,
        "systemctl",
        "Id=lldpad.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n\n"
        "Id=fstrim.timer\nLoadState=loaded\nActiveState=active\nSubState=waiting\nUnitFileState=enabled\n",
    )
    assert facts(root).host.services.value == {"fstrim.timer": Service("active", "waiting", "enabled")}


def test_a_resynchronising_array_is_seen_and_one_without_redundancy_has_nothing_to_do(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    assert facts(root).host.md_arrays.value == {}
    put(root, "/sys/block/md0/md/sync_action", "resync\n")
    put(root, "/sys/block/md1/md/level", "raid0\n")
    assert facts(root).host.md_arrays.value == {"md0": "resync", "md1": "none"}


def test_the_clock_is_compared_by_whoever_collects(tmp_path: Path) -> None:
    raw = document(storage_node(tmp_path))
    assert not node_facts("n", raw).host.clock_offset.known
    raw["host"]["clock_offset"] = {"v": -0.25, "src": "date"}
    assert node_facts("n", raw).host.clock_offset.value == -0.25


def config_space(control: int) -> bytes:
    """4096 bytes with an AER capability at 0x100 and the ACS capability behind it."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
    space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x14E:0x150] = control.to_bytes(2, "little")
    return bytes(space)


@pytest.mark.parametrize(("control", "found"), [(0x1D, ("0000:40:01.1",)), (0x01, ()), (0x04, ("0000:40:01.1",))])
def test_bridges_above_a_nic_that_redirect_are_found(tmp_path: Path, control: int, found: tuple[str, ...]) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/bus/pci/devices/0000:40:01.1/config", config_space(control))
    assert facts(root).host.acs_redirect.value == found


def test_a_bridge_that_only_root_can_read_is_unknown(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/sys/bus/pci/devices/0000:40:01.1/config", config_space(0x1D)[:64])
    found = facts(root).host.acs_redirect
    assert found.value is None
    assert "only root" in found.unknown
