import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.ibstat import parse

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("ibstat")


def test_one_mlx4_device_has_two_ports() -> None:
    (ca,) = parse(sample("ibstat/cx3_dual_port_one_ca.txt"))
    assert (ca.name, ca.ca_type, ca.firmware, ca.port_count) == ("mlx4_0", "MT4099", "2.40.7000", 2)
    assert [(port.number, port.state, port.rate, port.link_layer) for port in ca.ports] == [
        (1, "Active", 40.0, "Ethernet"),
        (2, "Active", 40.0, "Ethernet"),
    ]
    assert ca.system_image_guid == "0x7cfe900300100013"


def test_e810_leaves_fields_blank_and_its_rate_is_no_rate() -> None:
    (ca,) = parse(sample("ibstat/e810_roce_blank_ca_type.txt"))
    assert (ca.name, ca.ca_type, ca.hardware, ca.firmware) == ("rocep5s0f0", None, None, "1.74")
    assert ca.ports[0].rate is None
    assert ca.ports[0].physical_state == "LinkUp"


def test_several_devices_tabs_and_new_rows() -> None:
    first, second = parse(
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.41.1000\n\tPort 1:\n"
        "\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 10 (FDR10)\n\t\tEffective speed: 400\n"
        "\t\tLink layer: InfiniBand\nCA 'mlx5_1'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: ???\n\t\tRate: 2.5\n"
    )
    assert (first.ports[0].state, first.ports[0].rate, first.ports[0].effective_speed) == ("Down", 10.0, 400.0)
    assert (second.ports[0].state, second.ports[0].rate) == (None, 2.5)


def test_one_port_asked_for() -> None:
    (ca,) = parse("CA: 'mlx5_0'\nPort 1:\nState: Active\nPhysical state: LinkUp\nRate: 100\nLink layer: Ethernet\n")
    assert (ca.name, ca.ca_type, ca.ports[0].rate) == ("mlx5_0", None, 100.0)


@pytest.mark.parametrize("text", ["", "ibpanic: [1234] main: can't list CAs\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse(text)


@pytest.mark.parametrize("path", ALL)
def test_cut_and_noise(path: str) -> None:
    text = sample(path)
    if "e810" not in path:  # there the rate is only known to be wrong once the link layer is read
        assert_cut_changes_nothing(parse, text)
    assert_noise_changes_nothing(parse, text)


def test_damage() -> None:
    assert_survives_damage(parse, [sample(path) for path in ALL])
