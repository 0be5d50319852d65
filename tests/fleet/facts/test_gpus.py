from pathlib import Path

from tests.fleet.facts.hardware import SAMPLES, facts, pci_function, put, storage_node, tool

INFORMATION = """\
Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 90
GPU UUID: \t GPU-6b1d9a3e-1111-2222-3333-444455556666
Bus Location: \t 0000:45:00.0
"""


def test_gpus_of_nvidia_smi_get_their_link_from_sysfs(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    tool(root, "nvidia_smi.xml", (SAMPLES / "nvidia-smi/q_x_tesla_t4.xml").read_text())
    [gpu, *_] = facts(root).gpus
    assert gpu.uuid.startswith("GPU-")
    assert gpu.name.value == "Tesla T4"
    assert gpu.pci.value is not None
    assert not gpu.pcie.current_speed.known
    link = {"vendor": "0x10de", "class": "0x030200", "current_link_speed": "2.5 GT/s PCIe", "current_link_width": "16"}
    pci_function(root, gpu.pci.value, "0000:40:03.1", link, "nvidia")
    assert facts(root).gpus[0].pcie.current_speed.value == 2.5


def test_an_idle_state_is_not_busy_and_a_full_clock_state_does_not_tell(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    text = (SAMPLES / "nvidia-smi/q_x_tesla_t4.xml").read_text()
    states = {}
    for state in ("P8", "P0"):
        import re

        tool(root, "nvidia_smi.xml", re.sub(r"<performance_state>.*?<", f"<performance_state>{state}<", text))
        states[state] = facts(root).gpus[0].busy.value
    assert states == {"P8": False, "P0": None}


def test_without_nvidia_smi_the_drivers_folder_lists_the_gpus(tmp_path: Path) -> None:
    root = storage_node(tmp_path)
    put(root, "/proc/driver/nvidia/gpus/0000:45:00.0/information", INFORMATION)
    node = facts(root)
    [gpu] = node.gpus
    assert (gpu.uuid, gpu.name.value, gpu.pci.value) == (
        "GPU-6b1d9a3e-1111-2222-3333-444455556666",
        "NVIDIA H100 80GB HBM3",
        "0000:45:00.0",
    )
    assert any("nvidia-smi was not run" in line for line in node.errors)


def test_a_node_without_gpus_has_none_and_no_complaint(tmp_path: Path) -> None:
    node = facts(storage_node(tmp_path))
    assert node.gpus == ()
    assert node.errors == ()
