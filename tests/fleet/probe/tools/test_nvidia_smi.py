from __future__ import annotations

from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, nvidia_smi

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "nvidia-smi"


def sample(name: str) -> nvidia_smi.NvidiaSmi:
    return nvidia_smi.parse_xml((SAMPLES / name).read_text())


@pytest.mark.parametrize(
    ("name", "driver", "generations", "widths"),
    [
        ("q_x_a100_sxm4_v12.xml", "535.54.03", (4, 4, 4, 4, 4), (16, 16)),
        ("q_x_a10g.xml", "515.105.01", (4, 1, None, None, None), (16, 8)),
        ("q_x_rtx_3080_v13.xml", "595.58.03", (4, 4, 4, 4, 4), (16, 16)),
        ("q_x_tesla_t4.xml", "515.105.01", (3, 3, None, None, None), (16, 8)),
    ],
)
def test_driver_and_links(name: str, driver: str, generations: tuple[int | None, ...], widths: tuple[int, int]) -> None:
    found = sample(name)
    gpu = found.gpus[0]
    assert found.driver == driver
    assert (
        gpu.max_link_gen,
        gpu.current_link_gen,
        gpu.device_current_link_gen,
        gpu.max_device_link_gen,
        gpu.max_host_link_gen,
    ) == generations
    assert (gpu.max_link_width, gpu.current_link_width) == widths


def test_gpu_of_a_newer_document() -> None:
    gpu = sample("q_x_a100_sxm4_v12.xml").gpus[0]
    assert (gpu.pci, gpu.mig, gpu.memory_total_mib) == ("0000:01:00.0", True, 81920)
    assert (gpu.power_watts, gpu.power_limit_watts, gpu.temperature_c) == (67.03, 500.0, 27)


def gpu_with(**elements: str) -> nvidia_smi.Gpu:
    body = "".join(f"<{key}>{value}</{key}>" for key, value in elements.items())
    return nvidia_smi.parse_xml('<nvidia_smi_log><gpu id="00000000:3B:00.0">' + body + "</gpu></nvidia_smi_log>").gpus[
        0
    ]


@pytest.mark.parametrize(
    "value",
    ["N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "Requested functionality has been deprecated", "ERR!", ""],
)
def test_values_that_say_nothing(value: str) -> None:
    assert gpu_with(serial=value).serial is None


def test_address_from_the_gpus_id() -> None:
    assert gpu_with(serial="1").pci == "0000:3b:00.0"


def test_warning_after_the_document_is_kept() -> None:
    text = (SAMPLES / "q_x_tesla_t4.xml").read_text() + "\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"
    found = nvidia_smi.parse_xml(text)
    assert found.messages == ("WARNING: infoROM is corrupted at gpu 0000:3B:00.0",)
    assert len(found.gpus) == 1


def test_entity_bombs_are_refused() -> None:
    bomb = (
        '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>'
        "<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>"
    )
    with pytest.raises(ToolOutputError, match="entities"):
        nvidia_smi.parse_xml(bomb)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "<nvidia_smi_log><gpu>",
        "<other></other></nvidia_smi_log>",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        nvidia_smi.parse_xml(text)


def test_legend_maps_numbers_to_devices() -> None:
    found = nvidia_smi.parse_topo((SAMPLES / "topo_m_8gpu_8nic_header_note.txt").read_text())
    assert found.nics["NIC1"] == "mlx5_3"
    assert found.nics["NIC8"] == "mlx5_bond_0"
    assert len(found.nics) == 9


MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-55,112-167\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNODE\tSYS\t56-111\t1\t\tN/A\n"
    "NIC0\tPIX\tNODE\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tSYS\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n"
)


@pytest.mark.parametrize("text", [MATRIX, MATRIX.replace("\t", "   ").replace("NV18", "NV18 ")])
def test_matrix_with_escapes(text: str) -> None:
    found = nvidia_smi.parse_topo(text)
    assert found.links["GPU0"] == {"GPU0": "X", "GPU1": "NV18", "NIC0": "PIX", "NIC1": "SYS"}
    assert found.links["NIC0"]["GPU1"] == "NODE"
    assert found.cpu_affinity == {"GPU0": "0-55,112-167", "GPU1": "56-111"}
    assert found.numa_affinity == {"GPU0": "0", "GPU1": "1"}
    assert found.nics == {"NIC0": "mlx5_0", "NIC1": "mlx5_3"}


def test_matrix_with_device_names_in_the_header() -> None:
    found = nvidia_smi.parse_topo("\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tPHB\t0-15\nmlx5_0\tPHB\t X \t\n")
    assert found.links["GPU0"]["mlx5_0"] == "PHB"


def test_a_row_that_lost_a_cell_is_refused() -> None:
    with pytest.raises(ToolOutputError):
        nvidia_smi.parse_topo(MATRIX.replace("NV18\t X ", " X "))


def test_cells_that_ran_together_in_a_terminal() -> None:
    text = """        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    PIXSYS  0-15    0               N/A
GPU1    NV18     X      NODE    SYS     0-15    0               N/A
NIC0    PIX     NODE     X      SYS
NIC1    SYSSYS  SYS      X
"""
    found = nvidia_smi.parse_topo(text)
    assert found.links["GPU0"] == {"GPU0": "X", "GPU1": "NV18", "NIC0": "PIX", "NIC1": "SYS"}
    assert found.links["NIC1"]["NIC1"] == "X"
    assert (found.cpu_affinity, found.numa_affinity) == ({"GPU0": "0-15", "GPU1": "0-15"}, {"GPU0": "0", "GPU1": "0"})


def test_affinities_behind_a_lost_cell_are_not_guessed() -> None:
    text = """        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV18    ?       2       0               N/A
GPU1    NV18     X      NODE    SYS     0               N/A
"""
    found = nvidia_smi.parse_topo(text)
    assert (found.cpu_affinity, found.numa_affinity) == ({}, {})


def test_the_peer_to_peer_matrix_is_another_output() -> None:
    with pytest.raises(ToolOutputError):
        nvidia_smi.parse_topo(" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n")
