import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.niccli import parse_devices, parse_qos

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, sample

LISTS = ["niccli/list_devices_thor2.txt", "niccli/list_devices_thor2_old.txt"]
QOS = "niccli/qos_ets_show_thor2.txt"
TABLE = (
    "----------------------------------------------------------------------------\n"
    "Scrutiny NIC CLI v227.0.130.0 - Broadcom Inc. (c) 2023 (Bld-61.52.25.90.16.0) \n"
    "----------------------------------------------------------------------------\n"
    "     BoardId     MAC Address        FwVersion    PCIAddr      Type   Mode\n"
    "  1) BCM57508    84:16:0A:10:00:20  224.1.102.0  00:0d:00:00  NIC    PCI\n"
    "  2) BCM57508    84:16:0A:10:00:21  224.1.102.0  00:0d:00:01  NIC    PCI\n"
)


@pytest.mark.parametrize("path", LISTS)
def test_device_list_of_either_layout(path: str) -> None:
    (device,) = parse_devices(sample(path))
    assert (device.number, device.adapter, device.port) == (1, 1, 1)
    assert (device.interface, device.pci) == ("abcd1p1", "0000:22:00.0")
    assert device.model == "Broadcom BCM57608 1x400G QSFP-DD PCIe Ethernet NIC"


def test_device_table() -> None:
    first, second = parse_devices(TABLE)
    assert (first.model, first.firmware, first.mac) == ("BCM57508", "224.1.102.0", "84:16:0a:10:00:20")
    assert (first.pci, second.pci, second.number) == ("0000:0d:00.0", "0000:0d:00.1", 2)


def test_qos() -> None:
    qos = parse_qos(sample(QOS))
    assert qos.prio_tc is not None
    assert (qos.prio_tc[3], qos.prio_tc[7], qos.prio_tc[0]) == (1, 2, 0)
    assert qos.pfc == {3}
    assert qos.dscp_prio == {48: 7, 26: 3}
    assert qos.apps[2].port == 4791
    assert (qos.tc_bw, qos.tsa) == ((50, 50, 0), {0: "ets", 1: "ets", 2: "strict"})
    assert qos.rate_limit == (100, 100, 100, 0, 0, 0, 0, 0)


def test_qos_of_two_classes_after_a_prompt() -> None:
    qos = parse_qos(
        "root@node01:/# niccli --dev 1 qos --ets --show\n\nIEEE 8021QAZ ETS Configuration TLV:\n"
        "         PRIO_MAP: 0:0 1:1\n         TC Bandwidth: 50% 50%\n         TSA_MAP: 0:ets 1:strict\n"
        "IEEE 8021QAZ PFC TLV:\n         PFC enabled: 1\nTC Rate Limit: 100% 100%\n"
    )
    assert (qos.prio_tc, qos.tc_bw, qos.pfc, qos.apps) == ({0: 0, 1: 1}, (50, 50), frozenset({1}), ())


def test_qos_without_pfc() -> None:
    assert parse_qos(sample(QOS).replace("PFC enabled: 3", "PFC enabled: none")).pfc == frozenset()
    assert parse_qos(sample(QOS).replace("PFC enabled: 3", "PFC enabled:")).pfc is None


@pytest.mark.parametrize("text", ["", "ERROR: No device found\n", "1) Exit\n2) Help\n"])
def test_other_texts_are_refused(text: str) -> None:
    for parse in (parse_devices, parse_qos):
        with pytest.raises(ToolOutputError):
            parse(text)


def test_cut_noise_and_damage() -> None:
    for path in LISTS:
        assert_cut_changes_nothing(parse_devices, sample(path))
        assert_noise_changes_nothing(parse_devices, sample(path))
    assert_cut_changes_nothing(parse_qos, sample(QOS))
    assert_noise_changes_nothing(parse_qos, sample(QOS))
    assert_survives_damage(parse_devices, [*map(sample, LISTS), TABLE])
    assert_survives_damage(parse_qos, [sample(QOS)])
