from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kvctl.fleet.probe.tools import ToolOutputError, lspci

SAMPLES = Path(__file__).parents[3] / "data" / "samples" / "lspci"


def sample(name: str) -> tuple[lspci.PciDevice, ...]:
    return lspci.parse((SAMPLES / (name + ".txt")).read_text())


def test_idle_gpu_excerpt() -> None:
    (device,) = sample("lnksta_gpu_idle_downgraded_false_positive")
    assert (device.link.speed_degraded, device.link.width_degraded) == (True, False)
    assert (device.link.max_speed, device.link.speed, device.link.width) == (16.0, 2.5, 16)
    assert device.address is None


def test_wrapped_lines_without_ok() -> None:
    (device,) = sample("lnksta_pciutils38_no_ok_suffix")
    assert (device.link.max_speed, device.link.max_width, device.link.width) == (8.0, 16, 16)
    assert device.link.width_degraded is False
    assert device.link.width_mark is None


def test_management_nic_is_degraded_by_width() -> None:
    (device,) = sample("vvv_bcm5720_width_downgraded_benign")
    assert device.degraded is True
    assert (device.link.speed_degraded, device.link.max_width, device.link.width) == (False, 2, 1)
    assert device.driver == "tg3"


def test_two_functions_are_one_card() -> None:
    devices = sample("vvv_cx6dx_dual_gen4_x16_ok")
    assert [device.address for device in devices] == ["0000:1b:00.0", "0000:1b:00.1"]
    assert len(lspci.cards(devices)) == 1
    for device in devices:
        assert (device.link.max_speed, device.link.speed, device.link.width) == (16.0, 16.0, 16)
        assert device.degraded is False


def test_connectx_7() -> None:
    (device,) = sample("vvv_cx7_gen5_x16_ok")
    assert device.vendor_id == "15b3"
    assert device.name is not None
    assert "ConnectX-7" in device.name
    assert (device.link.max_speed, device.link.speed, device.link.max_width, device.link.width) == (32.0, 32.0, 16, 16)
    assert device.degraded is False
    assert (device.max_read_request, device.max_payload, device.numa_node) == (4096, 256, 0)
    assert device.relaxed_ordering is True
    assert (device.part_number, device.serial) == ("MCX75310AAS-NEAT", "SN0006XXXXXX")


def test_gpu_without_a_name() -> None:
    (device,) = sample("vvv_h100_gpu_gen5_x16")
    assert (device.vendor_id, device.device_id, device.revision) == ("10de", "2330", "a1")
    assert (device.link.speed, device.link.width, device.degraded) == (32.0, 16, False)


def test_eight_drives_of_two_makers() -> None:
    devices = sample("vvv_nvme_mixed_vendor_8drives")
    assert len(devices) == 8
    assert Counter(device.vendor_id for device in devices) == {"1344": 2, "8086": 6}
    assert {device.device_id for device in devices if device.vendor_id == "1344"} == {"51c3"}
    assert {(device.link.speed, device.link.width, device.degraded) for device in devices} == {(16.0, 4, False)}
    assert len(lspci.cards(devices)) == 8


def test_switch_port_with_acs_off() -> None:
    (device,) = sample("vvv_pex890_switch_acs_off")
    assert device.acs_redirect is False
    assert device.acs_enabled == ()
    assert device.acs_capable is not None
    assert "ReqRedir" in device.acs_capable


def test_root_port_with_source_validation_only() -> None:
    (device,) = sample("vvv_rootport_acs_on")
    assert device.acs_enabled == ("SrcValid",)
    assert device.acs_redirect is False


def test_a_root_port_is_not_judged() -> None:
    (device,) = sample("vvv_rootport_no_device_downgraded")
    assert device.bridge is True
    assert device.link.speed_mark == "downgraded"
    assert device.degraded is None


NUMBERS = """\
0000:c1:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021] (rev 01)
\tCapabilities: [60] Express (v2) Endpoint, IntMsgNum 0
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)
\tCapabilities: [100 v1] Access Control Services
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
10000:01:00.0 0108: 144d:a80a
"""


def test_numbers_and_long_domains() -> None:
    nic, drive = lspci.parse(NUMBERS)
    assert (nic.class_id, nic.vendor_id, nic.device_id) == ("0207", "15b3", "1021")
    assert nic.name == "Mellanox Technologies MT2910 Family [ConnectX-7]"
    assert (nic.link.width, nic.degraded, nic.acs_redirect) == (8, True, True)
    assert (drive.address, drive.class_id, drive.vendor_id, drive.device_id) == (
        "10000:01:00.0",
        "0108",
        "144d",
        "a80a",
    )
    assert drive.degraded is None


def test_two_link_states_in_one_device_are_unknown() -> None:
    (device,) = lspci.parse(
        "01:00.0 Ethernet controller: X\n\tLnkSta: Speed 8GT/s, Width x8\n\tLnkSta: Speed 8GT/s, Width x4\n"
    )
    assert device.link.width is None


@pytest.mark.parametrize("text", ["", "lspci: command not found", "pcilib: Cannot open /proc/bus/pci"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        lspci.parse(text)
