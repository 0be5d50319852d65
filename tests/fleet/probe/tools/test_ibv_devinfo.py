import pytest

from kvctl.fleet.probe.tools import ToolOutputError
from kvctl.fleet.probe.tools.ibv_devinfo import parse

from .samples import assert_cut_changes_nothing, assert_noise_changes_nothing, assert_survives_damage, folder, sample

ALL = folder("ibv_devinfo")


def test_two_generations_in_one_host() -> None:
    devices = parse(sample("ibv_devinfo/mixed_cx5_mgmt_and_cx7_mtu1024.txt"))
    assert {device.vendor_part_id for device in devices} == {4119, 4129}
    assert {(device.firmware or "").split(".")[0] for device in devices} == {"16", "28"}
    assert [device.board_id for device in devices] == ["MT_0000000425", "MT_0000000838"]
    port = devices[0].ports[0]
    assert (port.active_mtu, port.max_mtu, port.state, port.link_layer) == (1024, 4096, "PORT_ACTIVE", "Ethernet")
    assert devices[1].ports == ()
    assert devices[0].vendor_id == 0x02C9


def test_gid_types() -> None:
    (device,) = parse(sample("ibv_devinfo/v_gid_types_bnxt.txt"))
    (port,) = device.ports
    assert [(gid.index, gid.version) for gid in port.gids] == [(0, "v1"), (1, "v2"), (2, "v1"), (3, "v2")]
    assert [gid.index for gid in port.gids if gid.version == "v2" and gid.ipv4] == [3]
    assert port.gids[3].ipv4 == "192.0.2.101"
    assert (port.number, port.physical_state) == (None, "LINK_UP")


def test_two_ports_and_verbose_rows() -> None:
    (device,) = parse(
        "hca_id:\tmlx4_0\n\ttransport:\t\t\tInfiniBand (0)\n\tvendor_part_id:\t\t\t4103\n\tmax_qp:\t\t\t\t393144\n"
        "\tphys_port_cnt:\t\t\t2\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\t\tactive_mtu:\t\tinvalid MTU (0)\n"
        "\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t25.0 Gbps (32)\n\t\tport:\t2\n"
        "\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:7cfe:90ff:fe10:0011\n\n"
    )
    down, active = device.ports
    assert (down.number, down.active_mtu, down.active_width, down.active_speed) == (1, None, "4X", "25.0 Gbps")
    assert (active.number, active.state, active.gids[0].version) == (2, "PORT_ACTIVE", None)


def test_no_devices() -> None:
    assert parse("No IB devices found\n") == ()


@pytest.mark.parametrize("text", ["", "Failed to get IB devices list: Function not implemented\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        parse(text)


@pytest.mark.parametrize("path", ALL)
def test_cut_and_noise(path: str) -> None:
    assert_cut_changes_nothing(parse, sample(path))
    assert_noise_changes_nothing(parse, sample(path))


def test_damage() -> None:
    assert_survives_damage(parse, [sample(path) for path in ALL])
